// Records of flows, from wherever they are found to the exporter: each packet is in one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "millrace/nf/ipfix/exporter.hpp"

namespace millrace::nf::ipfix {

/// What outlives a generation. Flows end in two ways: a packet or a sweep frees an entry, and tells of it; or its time
/// has passed, no packet has come to see that, and it is found by looking through the table beside the packets. What is
/// found so stays in the table until it is freed, and is told of then once more: here it is known again. Any thread.
class RecordLog {
public:
    using Visit = std::function<void(const FlowKey&, const FlowCount&, uint64_t deadline_ns)>;
    /// Visits the flows in the table whose deadline is not later than `until`; false where it could not.
    using Each = std::function<bool(uint64_t until, const Visit&)>;

    /// `wall_ns`: the time of day, since the epoch.
    RecordLog(const ExportOptions& options, std::unique_ptr<Sender> sender, std::vector<std::string> ports,
              std::function<uint64_t()> wall_ns);

    /// A record that a device tells of.
    void add(const Note& note);
    void send_rest();
    /// Looks for flows that have timed out by the clock, if the table has entries that were not found yet; not so often
    /// that it takes much time. Flows of packets older than this object, as those of captures are, end by the times of
    /// packets alone.
    void end_idle(uint64_t entries, const Each& each);
    /// The table is empty: it went with a device.
    void forget();
    /// The run ends: so do all flows. Those whose deadline was before the last packet had been idle.
    void end_all(const Each& each);

    /// Packets that flows had no room for, and records for which a device had none: for the statistics.
    void set_ignored(uint64_t packets, const RecordSum& not_told);
    RecordSum sent() const;
    RecordSum unsent(Unsent why) const;
    uint64_t messages() const;
    uint64_t message_bytes() const;
    bool is_of(const ExportOptions& options) const { return options_.same_as(options); }

private:
    struct Hash {
        size_t operator()(const FlowKey& key) const;
    };
    struct Equal {
        bool operator()(const FlowKey& a, const FlowKey& b) const;
    };
    /// A flow that was told of and is still in the table.
    struct Told {
        FlowCount count;
        uint64_t look;
    };
    void found(const FlowKey& key, const FlowCount& count, EndReason reason);
    /// Without what was told of the flow before.
    FlowCount rest_of(const FlowKey& key, FlowCount count);
    void put(const FlowKey& key, const FlowCount& count, EndReason reason);

    static constexpr size_t kMaxEnded = 1 << 20;
    const ExportOptions options_;
    const std::function<uint64_t()> wall_ns_;
    const uint64_t since_ns_;
    mutable std::mutex mutex_;
    Exporter exporter_;
    std::unordered_map<FlowKey, Told, Hash, Equal> told_;
    /// Flows that have ended since a look through the table began, and when they had begun: the look may have seen them
    /// before.
    std::unordered_map<FlowKey, uint64_t, Hash, Equal> ended_;
    bool looking_ = false;
    uint64_t looks_ = 0, newest_ns_ = 0;
    uint64_t last_look_ns_ = 0, pause_ns_ = 0;
};

}  // namespace millrace::nf::ipfix
