#include "millrace/exec/offload/memory/piece_layout.hpp"

namespace millrace::exec {

PieceLayout::PieceLayout(const PieceNeeds& needs) {
    const size_t n = needs.packets;
    const bool whole = needs.prefix_back == chain::kWholeFrame;
    const size_t coming = whole ? needs.frames_bytes : needs.heads_home ? 0 : n * needs.prefix_back;
    sources_at = aligned(n * sizeof(device::FrameDescriptor));
    times_at = aligned(sources_at + (needs.sources ? n * sizeof(uint64_t) : 0));
    head_at = aligned(times_at + (needs.times ? n * sizeof(uint64_t) : 0));
    head_bytes = head_of(needs.chain.counters);
    back_at = aligned(head_at + head_bytes);
    results_at = aligned(back_at + coming);
    snapshot_at = aligned(results_at + n * sizeof(device::PacketResult));
    events_at = aligned(snapshot_at + needs.chain.state_bytes);
    left_at = aligned(events_at + (needs.events ? event_room(n) * sizeof(Event) : 0));
    const size_t left_end = aligned(left_at + n * needs.chain.emitters * sizeof(LeftEvents));
    heads_at = needs.heads_home ? aligned(events_at + kEagerEvents * sizeof(Event)) : back_at;
    frames_at = whole ? back_at : left_end;
    staging_at = whole ? left_end : aligned(frames_at + needs.frames_bytes);
    kept_at = staging_at + aligned(needs.staging_bytes);
    kept_bytes = needs.chain.keepers * most_kept(n, needs.frames_bytes);
    bytes = kept_at + kept_bytes;
}

}  // namespace millrace::exec
