// The in-memory traffic source: what benchmarks and tests receive from.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "millrace/io/memory/frame_ring.hpp"
#include "millrace/io/source/pacer.hpp"
#include "millrace/io/port.hpp"
#include "millrace/io/wake_event.hpp"
#include "millrace/io/source/traffic.hpp"

namespace millrace::io {

/// How much of its traffic a source sends, and how.
struct SourceOptions {
    std::optional<uint64_t> count;        ///< packets over all queues
    std::optional<uint64_t> duration_ns;  ///< from a queue's first call of `receive`
    double packets_per_second = 0;        ///< over all queues; 0: as fast as it is asked
    SourceDelivery delivery;
};

/// Hands out frames that were built at start. Cost of one packet: taking a buffer from the pool, copying
/// the first 112 bytes from a template (all there is of short frames), and writing lengths and metadata;
/// with Restore::all the rest of the frame is copied too. With Restore::headers every buffer's payload
/// was filled at start with the same bytes; checksums hold until an NF changes the payload, and the NF's
/// changes are then still there when the buffer comes back. Use that when the payload's content does not
/// matter and the copy would be what is measured. With Restore::nothing each buffer holds one frame for good and the
/// CPU touches none, which is right only while nothing writes into receive buffers, as when a device delivers from
/// others. The source looks: now and then it compares a buffer with its frame, and ends with `trouble()` when they
/// differ.
///
/// With a rate, a packet's time is that at which it was due, not that at which it was fetched.
class SourcePort : public Port {
public:
    SourcePort(PortInfo info, const TrafficSpec& spec, const SourceOptions& options, const PoolOptions& pool);
    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t receive_noted(uint16_t queue, rte_mbuf** mbufs, uint16_t count, BurstNotes& notes) override;
    uint16_t send(uint16_t, rte_mbuf**, uint16_t) override { return 0; }
    bool receives_blocks() const override { return options_.delivery.contiguous; }
    ReceiveBlock receive_block(uint16_t queue, uint32_t most) override;
    void give_back(uint16_t queue, uint32_t count) override { queues_[queue]->ring->give_back(count); }
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override {
        wake_ups.poll();
        if (!queues_[queue]->done) wake_ups.within(std::chrono::nanoseconds(queues_[queue]->pacer.until_due_ns()));
    }
    bool exhausted() const override;
    double progress() const override;
    PortCounters counters() const override;
    std::string trouble() const override;
    std::vector<const PacketPool*> pools() const override;
    std::vector<std::span<uint8_t>> memory() const override;

    /// Another rate over all queues from now on, 0 for as fast as it is asked. Any thread.
    void set_rate(double packets_per_second) { rate_.store(packets_per_second, std::memory_order_relaxed); }
    /// The frame that packet `number` was received as; empty where that is not known any more, which with
    /// Restore::nothing it is for the sample (`in_sample`) only. Call it when no worker receives.
    std::vector<uint8_t> frame_of(uint64_t number) const;

private:
    /// Packets of the sample that a queue remembers.
    static constexpr size_t kMaxRemembered = 8192;
    struct alignas(64) Queue {
        std::unique_ptr<PacketPool> pool;
        std::unique_ptr<FrameRing> ring;  // of contiguous frames: all templates in turn, some times over
        TrafficFrames frames;
        std::vector<uint16_t> lengths;  // with Restore::nothing: of the frame in each buffer
        uint64_t sent = 0;
        uint64_t limit = UINT64_MAX;
        uint64_t end_tsc = 0;  // 0: no end in time, or not begun
        Pacer pacer;
        double rate = 0;        // that the pacer keeps, of this queue
        uint64_t given_up = 0;  // by the pacer, and counted
        uint64_t bursts = 0;
        std::vector<std::pair<uint64_t, uint32_t>> remembered;  // with Restore::nothing: number and template
        std::atomic<bool> done{false};
        std::atomic<uint64_t> starved{0};
        std::atomic<uint32_t> changed_buffer{UINT32_MAX};  // one that was found changed, or place of the ring
    };
    static void fill_payloads(Queue& queue);
    static void fill_frames(Queue& queue);
    static void fill_ring(Queue& queue, uint32_t least);
    uint32_t allowed(uint16_t queue_number, uint32_t count);
    void sent(uint16_t queue_number, uint32_t count, uint64_t bytes);
    template <Restore restore, bool noted>
    uint64_t dress_burst(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count, const BurstNotes& notes);
    template <bool noted>
    uint16_t receive_burst(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count, BurstNotes& notes);
    BurstNotes notes_of_next(uint16_t queue_number) const;
    void remember(Queue& queue, uint64_t number, rte_mbuf* const* mbufs, uint16_t count) const;
    static bool holds(const uint8_t* data, const TrafficFrames& frames, size_t made);
    /// The template whose frame lies in a buffer, with Restore::nothing.
    static uint32_t template_in(const Queue& queue, uint32_t buffer) {
        return static_cast<uint32_t>(buffer % queue.frames.templates.size());
    }

    SourceOptions options_;
    std::atomic<double> rate_;
    uint16_t active_queues_;  // queues that have flows
    std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace millrace::io
