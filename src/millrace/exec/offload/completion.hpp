// What comes back with a batch: packets are made what the device has made of them, counted and handed on.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "millrace/exec/offload/batch_timeline.hpp"
#include "millrace/exec/offload/carriers.hpp"
#include "millrace/exec/offload/cpu_path.hpp"

namespace millrace::exec {

/// On the worker's thread.
class Completion {
public:
    /// `frames`: whose runs batches hold; null: there are none. `cpu` runs what the device leaves to the host.
    Completion(Delivery& delivery, FrameDelivery* frames, CpuPath& cpu, const BatchTimeline& timeline,
               uint32_t max_packets);

    /// Sets memory aside for batches of this program, before there are any.
    void keep_room(const chain::Program& program);
    /// Delivers the packets of a batch that was back, all of it, at `back` (TSC).
    void deliver(Batch& batch, uint64_t back);

private:
    /// How frames that have come back become their packets' own.
    enum class Return {
        lent,     ///< mbufs point into the result buffer
        home,     ///< copied into the receive buffers
        heads,    ///< only heads came, and are copied there
        nothing,  ///< nothing came
    };
    /// What becomes of a packet with that result.
    static Verdict verdict_of(const chain::Program& program, const device::PacketResult& result);
    static ResultBuffer* lend_buffer(Batch& batch);
    template <Return way>
    void apply(Batch& batch, size_t first, size_t count);
    void pass_on(Batch& batch, size_t first, size_t count, Return way);
    void pass_on_carried(Batch& batch, size_t first, size_t end);
    static bool leaves_by_port(const Verdict& verdict);
    static void load(Batch& batch, size_t first, std::span<rte_mbuf* const> carriers);
    struct BlockResults;
    void pass_on_frames(Batch& batch);
    void pass_on_frames(const BlockResults& back, const std::shared_ptr<const chain::Program>& program, uint32_t from,
                        uint32_t end);
    template <bool whole>
    uint32_t gather(const BlockResults& back, uint32_t from, uint32_t end);
    VerdictTable::Entry& learn(const BlockResults& back, const device::PacketResult& result);
    uint32_t deliver_alone(const BlockResults& back, const VerdictTable::Entry& entry, uint32_t from, uint32_t end);
    void send_lists(const BlockResults& back);
    void hold(const BlockResults& back, uint16_t port, std::span<const io::FramePieces> frames);
    static void settle(const chain::Program& program, ChainCounters& counters, VerdictTable& verdicts);
    void tell_events(const Batch& batch);
    void tell_visits(const Batch& batch);
    void count(const Batch& batch);
    void count_classified(const Batch& batch);

    Delivery& delivery_;
    FrameDelivery* const frame_delivery_;
    CpuPath& cpu_;
    const BatchTimeline& timeline_;
    std::optional<Carriers> carriers_;
    std::vector<Verdict> verdicts_;
    std::vector<uint32_t> retries_;  // packets that the device leaves to the host
    std::vector<Visit> visits_;
    // Frames without mbufs that go on at once: few, so that the nearest cache has them.
    static constexpr uint32_t kFramesAtOnce = 256;
    // By VerdictTable::Entry::list: frames that leave by a port; first those that are dropped.
    std::vector<uint32_t> listed_;        // how many there are
    std::vector<io::FramePieces> lists_;  // kFramesAtOnce places each
    io::FramePieces* list(size_t number) { return lists_.data() + number * kFramesAtOnce; }
    // Of programs that classify packets.
    struct Tally {
        uint64_t packets = 0, bytes = 0;
    };
    std::vector<Tally> tallies_;  // by chain, and last of those without one
};

}  // namespace millrace::exec
