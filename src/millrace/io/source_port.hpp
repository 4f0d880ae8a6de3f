// The in-memory traffic source: what benchmarks and tests receive from.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "millrace/io/pacer.hpp"
#include "millrace/io/port.hpp"
#include "millrace/io/traffic.hpp"

namespace millrace::io {

/// How much of its traffic a source sends, and how.
struct SourceOptions {
    std::optional<uint64_t> count;              ///< packets over all queues
    std::optional<uint64_t> duration_ns;        ///< from a queue's first call of `receive`
    double packets_per_second = 0;              ///< over all queues; 0: as fast as it is asked
    /// What is written into a buffer when it comes back into use. NFs change packets, so something must be.
    enum class Restore {
        all,      ///< the whole frame
        headers,  ///< the first 112 bytes; the payload stays as its last use left it
    };
    Restore restore = Restore::all;
};

/// Hands out frames that were built at start. Cost of one packet: taking a buffer from the pool, copying
/// the first 112 bytes from a template (all there is of short frames), and writing lengths and metadata;
/// with Restore::all the rest of the frame is copied too. With Restore::headers every buffer's payload
/// was filled at start with the same bytes; checksums hold until an NF changes the payload, and the NF's
/// changes are then still there when the buffer comes back. Use that when the payload's content does not
/// matter and the copy would be what is measured.
class SourcePort : public Port {
public:
    SourcePort(PortInfo info, const TrafficSpec& spec, const SourceOptions& options, const PoolOptions& pool);
    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t send(uint16_t, rte_mbuf**, uint16_t) override { return 0; }
    bool exhausted() const override;
    double progress() const override;
    PortCounters counters() const override;
    const PacketPool* pool() const override { return &pool_; }

private:
    struct alignas(64) Queue {
        TrafficFrames frames;
        size_t next = 0;           // template
        uint64_t sent = 0;
        uint64_t limit = UINT64_MAX;
        uint64_t end_tsc = 0;      // 0: no end in time, or not begun
        Pacer pacer;
        std::atomic<bool> done{false};
        std::atomic<uint64_t> starved{0};
    };
    void fill_payloads();
    uint16_t allowed(Queue& queue, uint16_t count);

    SourceOptions options_;
    PacketPool pool_;
    uint16_t active_queues_;  // queues that have flows
    std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace millrace::io
