// Who gets which SMs, and what batches: G-NET's section 5 for chains and tenants that were promised rate and latency.
//
// It goes through them in their order, those that were promised something first. Who was let in stays in, whoever comes
// later. Each gets the fewest SMs of its
// own that keep its promise, and the smallest batch that does. Where SMs run out, it joins others on theirs, if all
// promises are kept like that, or their partition grows, or all are put together anew; else it is refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/schedule/gpu_share.hpp"
#include "millrace/schedule/partition.hpp"

namespace millrace::schedule {

/// How a GPU is shared.
enum class Sharing : uint8_t {
    spatial,        ///< partitions, as above
    temporal,       ///< one tenant at a time, on all SMs
    fair,           ///< equal partitions, whatever is needed
    uncoordinated,  ///< nobody assigns: each has all SMs, and full batches
};
inline constexpr Sharing kSharings[] = {Sharing::spatial, Sharing::temporal, Sharing::fair, Sharing::uncoordinated};
inline constexpr const char* kSharingNames[] = {"spatial", "temporal", "fair", "uncoordinated"};
inline const char* name_of(Sharing sharing) { return kSharingNames[static_cast<int>(sharing)]; }

struct Gpu {
    uint32_t sms = 0;
    uint32_t least = 1, grain = 1;  ///< SMs of a partition: this many at least, and how many more there can be
};

/// A GPU of so many SMs, in partitions as drivers of today make them: 8 SMs at least, and 8 more each (CUDA driver API,
/// cuDevSmResourceSplitByCount, compute capability 9.0).
Gpu partitions_of(uint32_t sms);

struct Tenant {
    std::string name;
    Load load;            ///< with the rate that it was promised; 0: none was
    double offered = 0;   ///< packets a second that come; 0: not known
    unsigned weight = 1;  ///< its part of what is left over
};

struct Partition {
    uint32_t first = 0, sms = 0;  ///< the first of its SMs, and how many it has
    uint32_t needed = 0;          ///< of them to keep its tenants' promises; the rest was left over
    double cycle_ns = 0;
    std::vector<size_t> tenants;  ///< by their numbers
};

struct Assignment {
    size_t partition = 0;
    uint32_t batch = 0;     ///< packets of one, of one queue
    double wait_ns = 0;     ///< for which a batch may wait for its packets
    double latency_ns = 0;  ///< that no packet takes longer than, up to `rate`
    double rate = 0;        ///< packets a second, of the promise or of what comes, if more
};

struct Refusal {
    size_t tenant = 0;
    Limit limit = Limit::none;
    double asked = 0, possible = 0;  ///< packets a second, ns, packets, SMs, or shares of the bus's time
};

struct Plan {
    Sharing sharing = Sharing::spatial;
    std::vector<Partition> partitions;
    std::vector<std::optional<Assignment>> assignments;  ///< by tenant
    std::vector<Refusal> refusals;
    uint32_t free_sms = 0;  ///< in no partition
    double bus = 0;         ///< share of its time

    /// All SMs of partitions; with `uncoordinated` these are the same for all.
    uint32_t used_sms() const;
    /// What a tenant works on; all of the GPU where it was not let in.
    GpuShare share_of(size_t tenant) const;
};

/// Small batches have the bus begin anew all the time: where it has no room for that, batches wait for longer, as those
/// of several tenants on one partition do anyway.
Plan make_plan(const std::vector<Tenant>& tenants, const Gpu& gpu, Sharing sharing = Sharing::spatial);

/// The plan with the highest rate that all of them can have, whatever they were promised, and that rate: functions of
/// one service chain, through which the same packets go. G-NET raises the slowest step by step (section 5.3); here the
/// rate is found by halving. A rate of 0: none is possible.
struct CommonPlan {
    Plan plan;
    double rate = 0;  ///< packets a second
};
CommonPlan make_common_plan(std::vector<Tenant> tenants, const Gpu& gpu, Sharing sharing);

/// "latency: 300 us were promised, and 412 us is the least on 132 SMs"
std::string text_of(const Refusal& refusal, const Gpu& gpu);

/// Says when traffic has changed so much that a plan should be made anew (section 5.3).
class TrafficWatch {
public:
    static constexpr double kChange = 0.1;
    /// Takes rates as those that the plan is made for.
    void planned(std::vector<double> rates) { planned_ = std::move(rates); }
    /// Whether any of the rates is off by more than 10 %, or tenants have come or gone.
    bool changed(const std::vector<double>& rates) const;

private:
    std::vector<double> planned_;
};

}  // namespace millrace::schedule
