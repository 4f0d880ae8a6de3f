// The place of a tenant: who is attached now, and what all workers have counted of it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/chain/tenants/tenant.hpp"
#include "millrace/tenancy/manager/attachment.hpp"

namespace millrace::tenancy {

inline constexpr size_t kAbsentReasons = std::size(chain::kAbsentForNames);

/// Packets of one worker, which writes; any number of readers. Taken = answered + absent + in flight.
struct QueueCounters {
    Counter taken, answered;
    std::array<Counter, kAbsentReasons> absent;
};

/// What is known of attachments that are over.
struct Past {
    uint64_t batches = 0, on_device = 0, in_chain = 0, late = 0, wrong = 0, unasked = 0;
    using Times = std::array<uint64_t, Histogram::kBuckets>;
    Times answer_ns{}, before_ns{}, device_ns{}, after_ns{};
    uint64_t beside = 0;
    void add(const Attachment& attachment);
};

/// Lives as long as the manager.
class Seat {
public:
    explicit Seat(std::string name) : name_(std::move(name)) {}
    const std::string& name() const { return name_; }

    // --- any thread ---
    /// Changes when somebody else is attached, or nobody.
    uint64_t version() const { return version_.load(std::memory_order_acquire); }
    /// Null: nobody.
    std::shared_ptr<Attachment> current() const;
    std::shared_ptr<QueueCounters> new_counters();

    // --- the manager's thread ---
    void seat(std::shared_ptr<Attachment> attachment);
    /// Whoever is attached is so no more.
    void clear();

    /// All of it, for a report.
    struct State {
        std::shared_ptr<Attachment> current;
        Parting last = Parting::none;  ///< why the last one was detached
        uint64_t attached = 0;         ///< times
        std::array<uint64_t, std::size(kPartingNames)> partings{};
        Past past;
        std::vector<std::shared_ptr<QueueCounters>> counters;
    };
    State state() const;

private:
    const std::string name_;
    std::atomic<uint64_t> version_{0};
    mutable std::mutex mutex_;
    State state_;
};

}  // namespace millrace::tenancy
