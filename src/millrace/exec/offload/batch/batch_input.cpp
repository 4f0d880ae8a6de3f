#include "millrace/exec/offload/batch/batch_input.hpp"

#include <algorithm>
#include <cstring>

#include "millrace/device/batch_work.hpp"
#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/exec/offload/batch/batch_results.hpp"

namespace millrace::exec {

using device::Address;

namespace {

template <class T>
T* device_pointer(Address address) {
    return reinterpret_cast<T*>(address);
}

/// From one packet of a pool to the next, as io::PacketPool lays them out.
ptrdiff_t stride_of(const rte_mempool& pool) { return ptrdiff_t{pool.header_size} + pool.elt_size + pool.trailer_size; }

/// Notes what runs the first `count` mbufs of the queue are of.
void take_runs(const ChainQueue& queue, BatchInput& batch, size_t count) {
    batch.pool = count > 0 ? queue.mbuf_runs().front().pool : nullptr;
    batch.data = count > 0 ? queue.mbuf_runs().front().data : 0;
    for (const MbufRun& run : queue.mbuf_runs()) {
        if (count == 0) break;
        batch.mbuf_runs.push_back(run);
        batch.mbuf_runs.back().packets = std::min(run.packets, count);
        count -= batch.mbuf_runs.back().packets;
        if (run.pool != batch.pool || run.data != batch.data) batch.pool = nullptr;
    }
}

FrameLayout lay_out_buffers(const ChainQueue& queue, BatchInput& batch, FramePlacer placer) {
    const size_t most = placer.most();
    const std::span<rte_mbuf* const> mbufs = queue.mbufs();
    const std::span<const MbufShape> shapes = queue.shapes();
    take_runs(queue, batch, most);
    if (most > 0) placer.expect(stride_of(*mbufs[0]->pool));
    if (batch.pool == nullptr)
        for (size_t i = 0; i < most; ++i)
            batch.sources[i] = reinterpret_cast<uint64_t>(rte_pktmbuf_mtod(mbufs[i], const uint8_t*));
    const auto n = batch.pool != nullptr
                       ? placer.add({mbufs.data(), shapes.data(), most, batch.data})
                       : placer.add(most, [&](uint32_t i) {
                             return FramePlacer::Frame{reinterpret_cast<const uint8_t*>(batch.sources[i]),
                                                       shapes[i].length, shapes[i].port};
                         });
    batch.mbufs.assign(mbufs.begin(), mbufs.begin() + n);
    return placer.layout();
}

/// Notes what memory the frames take contiguous, too. They are staged at the same distance from multiples of
/// kFrameSpacing as they were received.
FrameLayout lay_out_runs(const ChainQueue& queue, BatchInput& batch, FramePlacer placer) {
    const io::ReceiveBlock& front = queue.runs().front();
    // Of a single frame: what would be the distance to one of its length.
    const ptrdiff_t alone = (front.spots[0].length + io::kFrameSpacing - 1) / io::kFrameSpacing * io::kFrameSpacing;
    placer.expect(front.count > 1 ? static_cast<ptrdiff_t>(front.spots[1].offset - front.spots[0].offset) : alone);
    for (const io::ReceiveBlock& block : queue.runs()) {
        const size_t first = placer.count();
        const uint32_t n = placer.add(block);
        if (n == 0) break;
        batch.receive_blocks.push_back(block.part(0, n));
        const uint8_t* const from = block.data(0);
        const size_t bytes = static_cast<size_t>(block.data(n - 1) - from) + frame_aligned(block.spots[n - 1].length);
        batch.staged_ranges.add(from, bytes, first);
        if (n < block.count) break;
    }
    return placer.layout();
}

/// A kernel copies no rows; and where it can fetch frames from where they are, the host has no need to pack them, nor
/// to copy them one behind the other.
TransferIn resident_transfer(const OffloadOptions& options, TransferIn chosen, bool of_blocks) {
    if (options.mode != device::Mode::persistent) return chosen;
    const bool could_fetch = chosen == TransferIn::packed &&
                             ((options.transfer_in == TransferIn::automatic && options.pinned) || of_blocks);
    return chosen == TransferIn::rows || could_fetch ? TransferIn::gather : chosen;
}

void choose_transfer(const OffloadOptions& options, BatchInput& batch) {
    BatchShape shape;
    shape.packets = batch.frames.count;
    shape.bytes_in = batch.frames.crossing;
    shape.packed_bytes = batch.frames.bytes;
    shape.row_bytes = batch.frames.spacing != 0 ? batch.frames.widest : 0;
    shape.runs = batch.frames.runs;
    shape.contiguous_bytes = batch.staged_ranges.bytes();
    shape.fits_staging = batch.staged_ranges.bytes() <= options.batch_bytes;
    shape.whole_back = batch.prefixes.back == chain::kWholeFrame;
    shape.bytes_back = shape.whole_back ? batch.frames.bytes : batch.frames.count * batch.prefixes.back;
    shape.reachable = options.pinned;
    shape.changes = batch.prefixes.back != 0;
    shape.workers = options.workers;
    const TransferFigures& figures = options.figures != nullptr ? *options.figures : built_in_figures();
    batch.transfer = resident_transfer(options, way_in(figures, shape, options.transfer_in),
                                       !batch.receive_blocks.empty());
    batch.way_back = way_out(figures, shape, options.transfer_out);
}

/// Tells where the frames are to be fetched from.
void list_sources(BatchInput& batch, const BatchBuffers& buffers) {
    const Address piece = batch.address;
    // What is staged lies as far from its first frame as on the host.
    const auto moved = [&](const StagedRange& staging) {
        return piece + batch.piece.staging_at + staging.at - reinterpret_cast<uint64_t>(staging.from);
    };
    device::BatchView& view = batch.view;
    view.staged = batch.is_staged();
    if (!batch.needs_sources()) {
        view.source = batch.first_source() + (batch.is_staged() ? moved(batch.staged_ranges.all().front()) : 0);
        view.source_pitch = static_cast<uint64_t>(batch.frames.pitch);
        return;
    }
    view.sources = device_pointer<const uint64_t>(piece + batch.piece.sources_at);
    auto* const sources = reinterpret_cast<uint64_t*>(buffers.input() + batch.piece.sources_at);
    batch.for_each_source([&](size_t i, uint64_t source) { sources[i] = source; });
    if (!batch.is_staged()) return;
    for (size_t k = 0; k < batch.staged_ranges.all().size(); ++k) {
        const uint64_t by = moved(batch.staged_ranges.all()[k]);
        const size_t behind = k + 1 < batch.staged_ranges.all().size() ? batch.staged_ranges.all()[k + 1].first
                                                                       : batch.frames.count;
        for (size_t i = batch.staged_ranges.all()[k].first; i < behind; ++i) sources[i] += by;
    }
}

/// Packs the frames in the host's memory, as they shall be staged in the device's.
void pack_frames(const BatchInput& batch, const BatchBuffers& buffers) {
    const device::FrameDescriptor* const descriptors = buffers.descriptors();
    batch.for_each_source([&](size_t i, uint64_t source) {
        std::memcpy(buffers.frames_in() + descriptors[i].offset, reinterpret_cast<const void*>(source),
                    descriptors[i].present);
    });
}

/// Tells when the packets came, where an NF looks at it.
void list_times(BatchInput& batch, const BatchBuffers& buffers) {
    if (!batch.chain->reads_time) return;
    batch.view.times = device_pointer<const uint64_t>(batch.address + batch.piece.times_at);
    auto* const times = reinterpret_cast<uint64_t*>(buffers.input() + batch.piece.times_at);
    size_t i = 0;
    for (const io::ReceiveBlock& block : batch.receive_blocks)
        for (uint32_t k = 0; k < block.count; ++k) times[i++] = block.timestamp_ns(k);
    for (const MbufRun& run : batch.mbuf_runs)
        for (size_t k = 0; k < run.packets && i < batch.frames.count; ++k, ++i)
            times[i] = run.notes.written ? io::packet_timestamp_ns(batch.mbufs[i]) : run.notes.timestamp_ns(k);
}

PieceNeeds needs_of(const BatchInput& batch) {
    return {.packets = batch.frames.count,
            .frames_bytes = batch.frames.bytes,
            .prefix_back = batch.prefixes.back,
            .heads_home = batch.way_back == TransferOut::zero_copy,
            .sources = batch.needs_sources(),
            .times = batch.chain->reads_time,
            .events = batch.chain->program->emits_events(),
            .staging_bytes = batch.is_staged() ? batch.staged_ranges.bytes() : 0,
            .chain = batch.chain->needs};
}

/// Tells of the frames that are yet to be cut into those of the wire.
void mark_uncut(const BatchInput& batch, device::FrameDescriptor* descriptor) {
    for (const io::ReceiveBlock& block : batch.receive_blocks) {
        for (uint32_t i = 0; i < block.count && block.has_uncut; ++i)
            descriptor[i].segment_bytes = block.spots[i].segment_bytes;
        descriptor += block.count;
    }
    size_t i = 0;
    for (const MbufRun& run : batch.mbuf_runs) {
        const size_t end = std::min(i + run.packets, batch.frames.count);
        if (run.pool == nullptr)
            for (; i < end; ++i) descriptor[i].segment_bytes = io::segment_bytes(batch.mbufs[i]);
        i = end;
    }
}

}  // namespace

BatchInput::BatchInput(uint32_t max_packets) : sources(max_packets) {
    mbufs.reserve(max_packets);
    mbuf_runs.reserve(max_packets);
    receive_blocks.reserve(max_packets);
    staged_ranges.reserve(max_packets);
    bursts.reserve(max_packets);
}

Origin BatchInput::origin_of(size_t i) const {
    if (receive_blocks.empty()) {
        const auto [run, at] = Metadata(*this).of(i);
        if (run->notes.written) return exec::origin_of(mbufs[i]);
        return {run->notes.number(at), run->notes.timestamp_ns(at), mbufs[i]->port};
    }
    auto block = receive_blocks.begin();
    for (; i >= block->count; ++block) i -= block->count;
    const auto k = static_cast<uint32_t>(i);
    return {block->number(k), block->timestamp_ns(k), block->port};
}

void lay_out(const ChainQueue& queue, const OffloadOptions& options, BatchInput& batch, const BatchBuffers& buffers) {
    const size_t most = std::min(queue.waiting(), queue.policy.most_packets);
    const Prefixes &full = queue.chain->prefixes, &plain = queue.chain->plain_prefixes;
    batch.prefixes = plain.in != full.in && queue.looks_plain(most) ? plain : full;
    const uint32_t prefix = batch.prefixes.in;
    const nf::Growth growth = prefix == chain::kWholeFrame ? queue.chain->growth : nf::Growth();
    batch.mbufs.clear();
    batch.mbuf_runs.clear();
    batch.pool = nullptr;
    batch.receive_blocks.clear();
    batch.staged_ranges.clear();
    const FramePlacer placer(buffers.descriptors(), {prefix, growth.head, growth.tail}, most, options.batch_bytes,
                             queue.of_blocks());
    batch.frames = queue.of_blocks() ? lay_out_runs(queue, batch, placer) : lay_out_buffers(queue, batch, placer);
    mark_uncut(batch, buffers.descriptors());
    choose_transfer(options, batch);
    batch.piece = PieceLayout(needs_of(batch));
}

void write_input(BatchInput& batch, const BatchBuffers& buffers) {
    const Address piece = batch.address;
    const PieceHead head(buffers.input() + batch.piece.head_at);
    EventBuffer& events = head.events();
    events.events = device_pointer<Event>(piece + batch.piece.events_at);
    events.capacity = batch.chain->needs.emitters > 0 ? static_cast<uint32_t>(event_room(batch.frames.count)) : 0;
    events.left = device_pointer<LeftEvents>(piece + batch.piece.left_at);
    events.left_capacity = static_cast<uint32_t>(batch.frames.count * batch.chain->needs.emitters);
    events.kept = device_pointer<uint8_t>(piece + batch.piece.kept_at);
    events.kept_capacity = static_cast<uint32_t>(batch.piece.kept_bytes);
    events.keep_from = static_cast<uint32_t>(batch.chain->program->first_changed());
    events.count = events.left_count = events.kept_bytes = 0;
    nf::Journal& journal = head.journal();
    journal = {.records = buffers.journal(), .capacity = batch.chain->needs.journal.bytes(batch.frames.count)};
    std::fill_n(head.outcomes(), batch.chain->needs.counters, 0u);
    const size_t n = batch.frames.count;
    device::BatchView& view = batch.view;
    view = {};
    view.frames = device_pointer<uint8_t>(piece + batch.piece.frames_at);
    view.descriptors = device_pointer<device::FrameDescriptor>(piece);
    view.events = device_pointer<EventBuffer>(piece + batch.piece.head_at);
    if (journal.capacity != 0)
        view.journal = device_pointer<nf::Journal>(piece + batch.piece.head_at + offsetof(HeadStart, journal));
    view.outcome_counts = device_pointer<uint32_t>(piece + batch.piece.head_at + sizeof(HeadStart));
    view.results = device_pointer<device::PacketResult>(piece + batch.piece.results_at);
    device::BatchWork(n, buffers.work()).place(view, device_pointer<uint8_t>(buffers.device_work()));
    view.visits = batch.chain->program->nodes.empty() ? nullptr : device_pointer<Decision>(buffers.device_visits());
    view.prefix_bytes = batch.prefixes.back == chain::kWholeFrame ? 0 : batch.prefixes.back;
    view.prefixes = batch.way_back == TransferOut::zero_copy ? buffers.back(batch.piece, batch.piece.heads_at)
                                                             : device_pointer<uint8_t>(piece + batch.piece.back_at);
    view.in_place = batch.in_place();
    // Frames that the host has packed and not sent.
    if (batch.transfer == TransferIn::zero_copy && !batch.in_place()) view.frames = buffers.frames_in();
    view.snapshot = device_pointer<uint32_t>(piece + batch.piece.snapshot_at);
    const std::vector<device::StateArray>& states = batch.chain->loaded->states();
    for (size_t i = 0; i < states.size(); ++i)
        view.states[i] = {device_pointer<uint32_t>(states[i].address), batch.chain->shared_states[i],
                          static_cast<uint32_t>(states[i].bytes / 4)};
    view.count = static_cast<uint32_t>(n);
    view.mean_bytes = static_cast<uint32_t>(batch.frames.crossing / std::max<size_t>(n, 1));
    view.headroom = static_cast<uint16_t>(batch.frames.room.headroom);
    view.tailroom = static_cast<uint16_t>(batch.frames.room.tailroom);
    list_sources(batch, buffers);
    list_times(batch, buffers);
    if (batch.packs()) pack_frames(batch, buffers);
}

}  // namespace millrace::exec
