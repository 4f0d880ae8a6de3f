// What comes back with a batch: packets are made what the device has made of them, counted and handed on.
#pragma once

#include <array>
#include <vector>

#include "millrace/exec/offload/batch_timeline.hpp"
#include "millrace/exec/offload/cpu_path.hpp"

namespace millrace::exec {

/// On the worker's thread.
class Completion {
public:
    /// `frames`: whose runs batches hold; null: there are none. `cpu` runs what the device leaves to the host.
    Completion(Delivery& delivery, FrameDelivery* frames, CpuPath& cpu, const BatchTimeline& timeline,
               uint32_t max_packets);

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
    void sort_by_chain(const chain::Program& program, const device::PacketResult* results, uint32_t count);
    void tell_events(const Batch& batch);
    void tell_visits(const Batch& batch);
    static void count(const Batch& batch);
    static void count_classified(const Batch& batch);

    Delivery& delivery_;
    FrameDelivery* const frame_delivery_;
    CpuPath& cpu_;
    const BatchTimeline& timeline_;
    std::vector<Verdict> verdicts_;
    std::vector<uint32_t> retries_;  // packets that the device leaves to the host
    std::vector<Visit> visits_;
    static constexpr uint32_t kFramesAtOnce = 256;
    std::array<io::FramePieces, kFramesAtOnce> pieces_;  // of frames on their way out
    // Of a program that classifies packets: each chain's first and last frame, of those that go on now, and all in
    // order.
    struct FramesOfChain {
        uint16_t chain, first, last;
    };
    std::array<FramesOfChain, kFramesAtOnce> frames_of_chains_;
    std::array<uint32_t, kFramesAtOnce> order_;
};

}  // namespace millrace::exec
