// Sees to it that chains and tenants get what they were promised, while packets flow: counts where a promise is broken,
// and plans chains' batches anew when traffic changes.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "millrace/base/histogram.hpp"
#include "millrace/chain/promises/shared_device.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/schedule/profile.hpp"

namespace millrace::exec {

/// One thread looks, others may ask for reports meanwhile.
class PromiseWatch {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kInterval{500};
    /// For so many intervals a chain keeps the batches of the file after more came than was promised, or than a port
    /// had room for: small batches keep a promise, and large ones do more.
    static constexpr uint32_t kOffPlan = 20;

    /// `profile`: of the device that the chains run on, or null: then promises are watched, and nothing is planned.
    PromiseWatch(Runtime& runtime, std::shared_ptr<const schedule::Profile> profile);

    /// Call it often: every kInterval it counts. Plans at first, when a configuration has come, when a tenant has come
    /// to the device or gone, and when the traffic of a chain has changed by more than a tenth
    /// (schedule::TrafficWatch), and brings in the plan's multiprocessors, batches and waits, the last two but for
    /// kOffPlan. Throws as Runtime::adjust does.
    void update(Clock::time_point now);

    uint64_t plans() const { return plans_; }  ///< that were brought in
    /// Puts what became of their promises with chains and tenants. Any thread.
    void add_to(Report& report) const;
    /// The same for one. Nothing was promised: a report that is not made().
    PromiseReport of_chain(const std::string& chain) const;
    PromiseReport of_tenant(const std::string& tenant) const;

private:
    using Latencies = std::array<uint64_t, Histogram::kBuckets>;
    /// A chain, or what stands before, at or behind a tenant.
    struct Part {
        uint64_t received = 0;  ///< so far
        Latencies latency{};
        uint64_t came = 0, longest_ns = 0;  ///< in the last interval
        bool is_new = true;                 ///< nothing was counted yet
    };
    struct Chain {
        PromiseReport report;
        std::vector<std::string> parts;  ///< the first is where its packets come in
        std::vector<uint16_t> ports;     ///< at which they do
        std::map<uint16_t, uint64_t> missed;
        uint32_t off_plan = 0;  ///< intervals for which it has the batches of the file
    };
    struct Tenant {
        PromiseReport report;
        std::string part;
        uint64_t absent = 0;
    };
    /// Packets of a batch, and how long one waits.
    using Batching = std::pair<uint32_t, std::chrono::nanoseconds>;

    void follow(const chain::Configuration& configuration);
    std::vector<uint64_t> missed_now() const;
    std::map<std::string, uint64_t> absent_now() const;
    void count_parts();
    bool count(double seconds);
    bool tenants_changed();
    chain::SharedDevice shared_by(const chain::Configuration& next);
    bool fit(chain::Configuration& next);
    PromiseReport with_own_sms(PromiseReport report) const;

    Runtime& runtime_;
    const std::shared_ptr<const schedule::Profile> profile_;
    std::shared_ptr<const chain::Configuration> followed_;
    std::map<std::string, Part> parts_;                  // by the name that their counters have
    std::map<std::string, Batching> written_, brought_;  // by chain: as in the file; by the last plan
    schedule::TrafficWatch traffic_;
    chain::TenantsOnDevice present_;
    std::set<std::string> without_room_;  // by Sharer::who: whose promise the last plan had no room for
    uint64_t planned_ = 0;                // the generation that the last plan came with
    Clock::time_point counted_{};
    uint64_t plans_ = 0;
    mutable std::mutex mutex_;  // of the reports in these
    std::map<std::string, Chain> chains_;
    std::map<std::string, Tenant> tenants_;
};

}  // namespace millrace::exec
