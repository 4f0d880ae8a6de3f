// Where the frames of a batch lie in the packet buffer, and where they come from.
#include <algorithm>

#include "millrace/exec/offload/offload_batch.hpp"

namespace millrace::exec {

namespace {

/// From one packet of a pool to the next, as io::PacketPool lays them out.
ptrdiff_t stride_of(const rte_mempool& pool) { return ptrdiff_t{pool.header_size} + pool.elt_size + pool.trailer_size; }

}  // namespace

FrameLayout OffloadEngine::lay_out_buffers(const ChainQueue& queue, Slot& slot, FramePlacer placer) const {
    const std::span<const ChainQueue::Waiting> waiting = queue.packets();
    if (placer.most() > 0) placer.expect(stride_of(*waiting[0].mbuf->pool));
    const uint32_t n = placer.add(placer.most(), [&](uint32_t i) -> const ChainQueue::Waiting& { return waiting[i]; });
    for (uint32_t i = 0; i < n; ++i) {
        slot.mbufs.push_back(waiting[i].mbuf);
        slot.sources[i] = reinterpret_cast<uint64_t>(waiting[i].data);
    }
    return placer.layout();
}

/// Notes what memory the frames take side by side, too. They land at the same distance from multiples of kFrameSpacing
/// as they were received.
FrameLayout OffloadEngine::lay_out_runs(const ChainQueue& queue, Slot& slot, FramePlacer placer) const {
    const io::FrameRun& front = queue.runs().front();
    // Of a single frame: what would be the distance to one of its length.
    const ptrdiff_t alone = (front.spots[0].length + io::kFrameSpacing - 1) / io::kFrameSpacing * io::kFrameSpacing;
    placer.expect(front.count > 1 ? static_cast<ptrdiff_t>(front.spots[1].offset - front.spots[0].offset) : alone);
    for (const io::FrameRun& run : queue.runs()) {
        const size_t first = placer.count();
        const uint32_t n = placer.add(run);
        if (n == 0) break;
        slot.frame_runs.push_back(run.part(0, n));
        const uint8_t* const from = run.data(0);
        const size_t bytes = static_cast<size_t>(run.data(n - 1) - from) + frame_aligned(run.spots[n - 1].length);
        slot.landings.add(from, bytes, first);
        if (n < run.count) break;
    }
    return placer.layout();
}

/// Places the frames of the next batch and writes their descriptors, as many as fit; false when the packet
/// buffer has no room now.
bool OffloadEngine::lay_out(const ChainQueue& queue, Slot& slot) {
    const size_t most = std::min(queue.waiting(), queue.policy.most_packets);
    const chain::Program& program = *queue.chain->program;
    const uint32_t prefix = queue.chain->prefixes.in;
    const bool whole = prefix == chain::kWholeFrame;
    slot.mbufs.clear();
    slot.frame_runs.clear();
    slot.landings.clear();
    const FramePlacer placer(slot.descriptors(),
                             {prefix, whole ? program.head_growth() : 0, whole ? program.tail_growth() : 0}, most,
                             options_.batch_bytes, queue.of_runs());
    slot.frames = queue.of_runs() ? lay_out_runs(queue, slot, placer) : lay_out_buffers(queue, slot, placer);
    choose_transfer(slot);
    slot.piece = PieceLayout(slot.needs());
    const size_t at = ring_.take(slot.piece.bytes);
    if (at == PacketRing::kNoRoom) return false;
    slot.ring_offset = at;
    return true;
}

}  // namespace millrace::exec
