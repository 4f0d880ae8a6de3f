// What chains are promised, and whether a device can keep it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/schedule/profile.hpp"

namespace millrace::chain {

struct Configuration;
struct Program;

/// `rate:`, `latency:` and `weight:` of a chain.
struct Promise {
    double rate = 0;                     ///< packets a second; 0: none
    std::chrono::nanoseconds latency{};  ///< from arrival to departure, up to that rate; 0: none
    unsigned weight = 1;                 ///< its part of what promises leave over
    std::string functions;               ///< the chain's `nfs:` as Config::written() has it
    Location where;                      ///< of the rate

    bool made() const { return rate > 0; }
    /// "20000 packets a second within 200 ms"
    std::string text() const;
};

/// Reads the keys of a chain's options. Throws ConfigError.
Promise read_promise(const Config& chain);

/// Throws ConfigError where what a chain's tenants were promised, or the patience with them, makes it break its own
/// promise.
void check_tenants_promises(const Promise& promise, const Program& chain);

/// What the scheduler knows of a program: its model, what it must be able to do, and what it takes to run.
struct Asked {
    double rate = 0, latency_ns = 0;  ///< packets a second; 0 ns: no bound
    uint32_t queues = 1;              ///< as of schedule::Load
};
schedule::Tenant load_of(const Program& program, const schedule::Model& model, const Asked& asked);

/// How the chains of a configuration share a device, by what was measured of them.
struct SharedDevice {
    schedule::Plan plan;
    std::vector<size_t> chains;           ///< that are planned, by their numbers: those that were measured
    std::vector<schedule::Tenant> loads;  ///< what was planned of them
    std::vector<Diagnostic> mistakes;     ///< promises that can't be kept
    std::vector<Diagnostic> warnings;     ///< promises of chains that nobody has measured
};

/// `profile`: null where there is none; `workers`: that each have batches of their own.
SharedDevice share_device(const Configuration& configuration, const schedule::Profile* profile, unsigned workers = 1);

}  // namespace millrace::chain
