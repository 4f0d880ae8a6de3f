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
        nothing,  ///< nothing, as where a NIC writes: for chains that leave receive buffers as they are
    };
    Restore restore = Restore::all;
};

/// Hands out frames that were built at start. Cost of one packet: taking a buffer from the pool, copying
/// the first 112 bytes from a template (all there is of short frames), and writing lengths and metadata;
/// with Restore::all the rest of the frame is copied too. With Restore::headers every buffer's payload
/// was filled at start with the same bytes; checksums hold until an NF changes the payload, and the NF's
/// changes are then still there when the buffer comes back. Use that when the payload's content does not
/// matter and the copy would be what is measured. With Restore::nothing every buffer holds one frame of its
/// own from the start, and a receive sets lengths and metadata only; now and then a buffer is compared with
/// its frame, and one that was changed is `trouble()`. Each queue has buffers of its own.
class SourcePort : public Port {
public:
    SourcePort(PortInfo info, const TrafficSpec& spec, const SourceOptions& options, const PoolOptions& pool);
    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t send(uint16_t, rte_mbuf**, uint16_t) override { return 0; }
    bool exhausted() const override;
    double progress() const override;
    PortCounters counters() const override;
    std::vector<const PacketPool*> pools() const override;
    std::string trouble() const override;

private:
    struct alignas(64) Queue {
        std::unique_ptr<PacketPool> pool;
        TrafficFrames frames;
        size_t next = 0;           // template; with Restore::nothing, the buffer that comes next
        std::vector<uint16_t> lengths;  // with Restore::nothing: of the frame in each buffer
        uint64_t sent = 0;
        uint16_t index = 0;        // of the queue
        uint64_t limit = UINT64_MAX;
        uint64_t end_tsc = 0;      // 0: no end in time, or not begun
        Pacer pacer;
        std::atomic<bool> done{false};
        std::atomic<uint64_t> starved{0};
        std::atomic<uint64_t> changed{0};  // buffers that someone wrote into
    };
    void fill_payloads(Queue& queue);
    void fill_buffers(Queue& queue);
    uint64_t hand_out(Queue& queue, rte_mbuf** mbufs, uint16_t count);
    uint64_t write_out(Queue& queue, rte_mbuf** mbufs, uint16_t count);
    void inspect(Queue& queue, const rte_mbuf* mbuf, size_t buffer);
    uint16_t allowed(Queue& queue, uint16_t count);
    /// The number of the next packet of a queue.
    uint64_t first_number(const Queue& queue) const { return uint64_t{queue.index} + 1 + queue.sent * active_queues_; }

    SourceOptions options_;
    uint16_t active_queues_;  // queues that have flows
    std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace millrace::io
