// Who shares a device, and whether what they were promised has room there: the same for `check`, for a run's start and
// change, for tenants that come, and for the plan of a run that works.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/chain/configuration.hpp"
#include "millrace/schedule/profile.hpp"

namespace millrace::chain {

/// A chain or a tenant that works on a device.
struct Sharer {
    std::string who;  ///< "chain 'gateway'", "tenant 'acme.dpi'"
    Promise promise;
    size_t chain = 0;  ///< of Configuration::chains
    schedule::Tenant load;
};

/// What the scheduler knows of a program: its model, what it must be able to do, and what it takes to run.
struct Asked {
    double rate = 0, latency_ns = 0;  ///< packets a second; 0 ns: no bound
    uint32_t queues = 1;              ///< as of schedule::Load
};
schedule::Tenant load_of(const Program& program, const schedule::Model& model, const Asked& asked);

/// A tenant whose device half is on the device, and what was measured of it there.
struct MeasuredTenant {
    std::string name;
    schedule::Model model;
    uint32_t max_batch = 0;  ///< packets of each worker's; 0: as of its chain
};
struct TenantsOnDevice {
    schedule::Gpu gpu;                    ///< theirs
    std::vector<MeasuredTenant> tenants;  ///< in the order in which they were let in
};

/// What a configuration asks of a device. Holds none of its functions.
struct Demand {
    schedule::Sharing sharing = schedule::Sharing::spatial;
    Admission admission = Admission::refuse;
    std::optional<schedule::Gpu> gpu;       ///< of the profile
    std::string source;                     ///< the file that the profile was read from
    std::vector<Sharer> chains;             ///< that were measured
    std::map<std::string, Sharer> tenants;  ///< by name; without a model
    std::vector<Diagnostic> warnings;       ///< promises of chains that nobody has measured
};

/// `profile`: null where there is none; `workers`: that each have batches of their own.
Demand demand_of(const Configuration& configuration, const schedule::Profile* profile, unsigned workers);

/// How all of them share a device.
struct SharedDevice {
    schedule::Gpu gpu;
    schedule::Sharing sharing = schedule::Sharing::spatial;
    Admission admission = Admission::refuse;
    std::string source;
    std::vector<Sharer> sharers;  ///< chains, then tenants
    schedule::Plan plan;          ///< by their numbers
};

/// The chains that were measured, and the tenants that are there. With nobody there is no plan.
SharedDevice share_device(const Demand& demand, const TenantsOnDevice& present = {});

/// Each promise that has no room: errors, or warnings where the configuration admits them. They say what was promised,
/// the figure that stops it, what the others were promised, and what would have room.
std::vector<Diagnostic> broken_promises(const SharedDevice& shared);

/// Why one more tenant can't be let in: its promise has no room, or takes that of others.
struct NoRoom {
    std::string text;  ///< for the tenant: names nobody else
    Diagnostic whole;  ///< a warning
};
/// Nothing: it may come. All others are there already.
std::optional<NoRoom> refusal_of(const Demand& demand, TenantsOnDevice present, const MeasuredTenant& next);

}  // namespace millrace::chain
