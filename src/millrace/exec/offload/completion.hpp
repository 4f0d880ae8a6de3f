// What comes back with a batch: packets are made what the device has made of them, counted and handed on.
#pragma once

#include <array>
#include <vector>

#include "millrace/exec/offload/batch_timeline.hpp"
#include "millrace/exec/offload/chain_sort.hpp"
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
    template <Return way>
    void apply(Batch& batch, size_t first, size_t count);
    void pass_on(Batch& batch, size_t first, size_t count, Return way);
    void pass_on_frames(Batch& batch);
    void pass_on_frames(Batch& batch, size_t first, const io::ReceiveBlock& block, uint32_t from, uint32_t count);
    void tell_events(const Batch& batch);
    void tell_visits(const Batch& batch);
    void count(const Batch& batch);
    void count_classified(const Batch& batch);

    Delivery& delivery_;
    FrameDelivery* const frame_delivery_;
    CpuPath& cpu_;
    const BatchTimeline& timeline_;
    std::vector<Verdict> verdicts_;
    std::vector<uint32_t> retries_;  // packets that the device leaves to the host
    std::vector<Visit> visits_;
    // Frames that go on at once: few, so that the nearest cache has them; with many chains more, so that each chain has
    // some.
    static constexpr uint32_t kFramesAtOnce = 256, kFramesOfChain = 32, kMaxFramesAtOnce = 2048;
    std::array<io::FramePieces, kMaxFramesAtOnce> pieces_;  // of frames on their way out
    // Of programs that classify packets.
    ChainSort order_{kMaxFramesAtOnce};
    struct Tally {
        uint64_t packets = 0, bytes = 0;
    };
    std::vector<Tally> tallies_;  // by chain, and last of those without one
};

}  // namespace millrace::exec
