// How a batch crosses the bus: where its frames lie, what is copied, which steps run.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "millrace/exec/offload_batch.hpp"

namespace millrace::exec {

using device::Address;
using device::Status;

namespace {

/// From one packet of a pool to the next, as io::PacketPool lays them out.
ptrdiff_t stride_of(const rte_mempool& pool) { return ptrdiff_t{pool.header_size} + pool.elt_size + pool.trailer_size; }

template <class T>
T* device_pointer(Address address) {
    return reinterpret_cast<T*>(address);
}

}  // namespace

/// Places frames in the packet buffer, one behind the other. Offsets count from where the batch's frames begin.
class OffloadEngine::Layout {
public:
    Layout(Slot& to, size_t most_packets, size_t most_bytes, bool of_runs)
        : descriptors_(to.descriptors()), most_(most_packets), most_bytes_(most_bytes),
          prefix_(to.prefix_in), headroom_(to.headroom), tailroom_(to.tailroom), bytes_(first_frame(to.headroom, of_runs)) {}
    size_t most() const { return most_; }
    size_t count() const { return count_; }
    /// From one frame to the next, where they lie even.
    void expect(ptrdiff_t pitch) { pitch_ = pitch; }

    /// Places the next frame; false if there is no room for it.
    bool add(const uint8_t* data, uint16_t length, uint16_t port) {
        const Share share = share_of(length);
        if (count_ == most_ || bytes_ + share.room > most_bytes_) return false;
        write(descriptors_[count_], bytes_, length, share.present, port);
        if (count_ == 0) room_ = share.room;
        runs_ += data != expected_;
        expected_ = data + pitch_;
        even_ &= share.room == room_;
        frame_bytes_ += share.present;
        widest_ = std::max(widest_, share.present);
        bytes_ += share.room;
        ++count_;
        return true;
    }
    /// Places the next frames of a run; how many there was room for.
    uint32_t add(const io::FrameRun& run) {
        constexpr uint32_t kFew = 8, kAtOnce = 64;
        uint32_t n = 0;
        for (uint32_t wanted = 0, placed = 0; n < run.count && placed == wanted; n += placed) {
            const uint32_t alike = io::frames_alike(run.spots + n, run.count - n);
            wanted = alike >= kFew ? alike : std::min(run.count - n, kAtOnce);
            placed = alike >= kFew ? add_alike(run, n, alike) : prefix_ == chain::kWholeFrame ? add_each<true>(run, n, wanted) : add_each<false>(run, n, wanted);
        }
        return n;
    }
    void finish(Slot& to) const {
        to.count = count_;
        to.pitch = pitch_;
        to.runs = runs_;
        to.frame_bytes = frame_bytes_;
        to.widest = widest_;
        to.slot_bytes = even_ ? room_ : 0;
        to.frames_bytes = bytes_;
    }

private:
    /// What a frame takes: bytes of it that cross, and of the packet buffer.
    struct Share {
        uint32_t present, room;
    };
    Share share_of(uint32_t length) const {
        if (prefix_ == chain::kWholeFrame) return {length, frame_room(length, headroom_, tailroom_)};
        return {std::min(length, prefix_), frame_aligned(prefix_)};
    }
    /// By two stores, where the compiler would take five.
    static void write(device::FrameDescriptor& to, uint32_t offset, uint32_t length, uint32_t present, uint16_t port) {
        using Descriptor = device::FrameDescriptor;
        static_assert(std::endian::native == std::endian::little && offsetof(Descriptor, length) == 4 && offsetof(Descriptor, present) == 6 &&
                      offsetof(Descriptor, in_port) == 8 && sizeof to == 12);
        const uint64_t front = offset | uint64_t{length} << 32 | uint64_t{present} << 48;
        const uint32_t rest = port;
        auto* const bytes = reinterpret_cast<uint8_t*>(&to);
        std::memcpy(bytes, &front, sizeof front);
        std::memcpy(bytes + sizeof front, &rest, sizeof rest);
    }
    /// Frames [first, first + wanted) of the run, of one length and at one distance.
    uint32_t add_alike(const io::FrameRun& run, uint32_t first, uint32_t wanted) {
        const uint32_t length = run.spots[first].length;
        const Share share = share_of(length);
        const size_t bytes_left = most_bytes_ - std::min<size_t>(bytes_, most_bytes_), places = share.room == 0 ? SIZE_MAX : bytes_left / share.room;
        const auto n = static_cast<uint32_t>(std::min<size_t>({wanted, most_ - count_, places}));
        if (n == 0) return 0;
        device::FrameDescriptor* const to = descriptors_ + count_;
        for (uint32_t i = 0; i < n; ++i) write(to[i], bytes_ + i * share.room, length, share.present, run.port);
        const uint8_t* const data = run.data(first);
        const ptrdiff_t distance = n > 1 ? run.data(first + 1) - data : pitch_;
        runs_ += (data != expected_) + (distance != pitch_ ? n - 1 : 0);
        expected_ = run.data(first + n - 1) + pitch_;
        if (count_ == 0) room_ = share.room;
        even_ &= share.room == room_;
        frame_bytes_ += size_t{n} * share.present;
        widest_ = std::max(widest_, share.present);
        bytes_ += n * share.room;
        count_ += n;
        return n;
    }
    /// Frames [first, first + wanted) of the run, of any lengths. What it counts is in registers meanwhile.
    template <bool whole>
    uint32_t add_each(const io::FrameRun& run, uint32_t first, uint32_t wanted) {
        const io::FrameSpot* const spots = run.spots + first;
        device::FrameDescriptor* const to = descriptors_ + count_;
        const auto most = static_cast<uint32_t>(std::min<size_t>(wanted, most_ - count_));
        const uint32_t headroom = headroom_, tailroom = tailroom_, prefix = prefix_;
        const uint32_t usual = count_ != 0 ? room_ : share_of(spots[0].length).room;
        const auto pitch = static_cast<uint32_t>(pitch_);
        uint32_t n = 0, bytes = bytes_, widest = widest_, differ = 0, breaks = 0, expected = spots[0].offset;
        size_t crossing = 0;
        for (; n < most; ++n) {
            const uint32_t length = spots[n].length, offset = spots[n].offset;
            const uint32_t present = whole ? length : std::min(length, prefix), room = whole ? frame_room(length, headroom, tailroom) : usual;
            if (bytes + room > most_bytes_) break;
            write(to[n], bytes, length, present, run.port);
            differ |= room ^ usual;
            breaks += offset != expected;
            expected = offset + pitch;
            crossing += present;
            widest = std::max(widest, present);
            bytes += room;
        }
        if (n == 0) return 0;
        runs_ += breaks + (run.data(first) != expected_);
        expected_ = run.data(first + n - 1) + pitch_;
        room_ = usual;
        even_ &= differ == 0;
        frame_bytes_ += crossing;
        widest_ = widest;
        bytes_ = bytes;
        count_ += n;
        return n;
    }

    device::FrameDescriptor* descriptors_;
    size_t most_, most_bytes_;
    uint32_t prefix_, headroom_, tailroom_;
    uint32_t bytes_;  // of the packet buffer
    uint32_t room_ = 0, widest_ = 0;
    size_t count_ = 0, runs_ = 0, frame_bytes_ = 0;
    ptrdiff_t pitch_ = 0;
    const uint8_t* expected_ = nullptr;
    bool even_ = true;  // all at one distance
};

OffloadEngine::Layout OffloadEngine::lay_out_buffers(const Queue& queue, Slot& slot, Layout layout) const {
    const Queue::Waiting* const waiting = queue.packets.data() + queue.first;
    if (layout.most() > 0) layout.expect(stride_of(*waiting[0].mbuf->pool));
    for (size_t i = 0; i < layout.most() && layout.add(waiting[i].data, waiting[i].length, waiting[i].port); ++i) {
        slot.mbufs.push_back(waiting[i].mbuf);
        slot.sources[i] = reinterpret_cast<uint64_t>(waiting[i].data);
    }
    return layout;
}

/// Notes what memory the frames take side by side, too. They land at the same distance from multiples of kFrameSpacing as they were received.
OffloadEngine::Layout OffloadEngine::lay_out_runs(const Queue& queue, Slot& slot, Layout layout) const {
    const io::FrameRun& front = queue.runs.front();
    // Of a single frame: what would be the distance to one of its length.
    const ptrdiff_t alone = (front.spots[0].length + io::kFrameSpacing - 1) / io::kFrameSpacing * io::kFrameSpacing;
    layout.expect(front.count > 1 ? static_cast<ptrdiff_t>(front.spots[1].offset - front.spots[0].offset) : alone);
    for (const io::FrameRun& run : queue.runs) {
        const size_t first = layout.count();
        const uint32_t n = layout.add(run);
        if (n == 0) break;
        slot.frame_runs.push_back(run.part(0, n));
        const uint8_t* const from = run.data(0);
        const size_t bytes = static_cast<size_t>(run.data(n - 1) - from) + frame_aligned(run.spots[n - 1].length);
        const size_t before = slot.landing_bytes();
        if (before > 0) {
            Slot::Landing& last = slot.landings.back();
            const auto gap = from - (last.from + last.bytes);
            if (gap >= 0 && gap < io::kFrameSpacing) last.bytes = static_cast<size_t>(from - last.from) + bytes;
            else slot.landings.push_back({from, bytes, Slot::aligned(before), first});
        } else {
            slot.landings.push_back({from, bytes, 0, first});
        }
        if (n < run.count) break;
    }
    return layout;
}

/// Places the frames of the next batch and writes their descriptors, as many as fit; false when the packet
/// buffer has no room now.
bool OffloadEngine::lay_out(const Queue& queue, Slot& slot) {
    const size_t most = std::min<size_t>({queue.waiting(), queue.program->max_batch, max_batch_});
    const bool whole = slot.prefix_in == chain::kWholeFrame;
    slot.headroom = whole ? queue.program->head_growth() : 0;
    slot.tailroom = whole ? queue.program->tail_growth() : 0;
    slot.mbufs.clear();
    slot.frame_runs.clear();
    slot.landings.clear();
    const Layout none(slot, most, options_.batch_bytes, queue.of_runs);
    (queue.of_runs ? lay_out_runs(queue, slot, none) : lay_out_buffers(queue, slot, none)).finish(slot);
    choose_transfer(slot);
    slot.place();
    const size_t at = ring_.take(slot.piece_bytes);
    if (at == PacketRing::kNoRoom) return false;
    slot.ring_offset = at;
    return true;
}

/// Writes what goes to the device besides the frames, and packs those that are to be packed.
void OffloadEngine::write_input(Slot& slot) {
    const Address piece = ring_address_ + slot.ring_offset;
    EventBuffer& events = slot.event_buffer(slot.input + slot.head_at);
    events.events = device_pointer<Event>(piece + slot.events_at);
    events.capacity = slot.program->emits_events() ? static_cast<uint32_t>(slot.count * kEventsPerPacket) : 0;
    events.count = 0;
    std::fill_n(slot.outcomes(slot.input + slot.head_at), Slot::kOutcomes, 0u);
    slot.turns_had(slot.input + slot.head_at) = 0;
    const size_t n = slot.count;
    device::BatchView& view = slot.view;
    view = {};
    view.frames = device_pointer<uint8_t>(piece + slot.frames_at);
    view.descriptors = device_pointer<device::FrameDescriptor>(piece);
    view.events = device_pointer<EventBuffer>(piece + slot.head_at);
    view.outcome_counts = device_pointer<uint32_t>(piece + slot.head_at + sizeof(EventBuffer));
    view.order = device_pointer<uint64_t>(piece + slot.head_at + Slot::kOrderAt);
    view.results = device_pointer<device::PacketResult>(piece + slot.results_at);
    device::BatchWork(n).place(view, device_pointer<uint8_t>(slot.device_work));
    view.visits = slot.program->nodes.empty() ? nullptr : device_pointer<Decision>(slot.device_visits);
    view.prefix_bytes = slot.prefix_back == chain::kWholeFrame ? 0 : slot.prefix_back;
    view.prefixes = slot.way_back == TransferOut::zero_copy ? slot.back(slot.heads_at) : device_pointer<uint8_t>(piece + slot.back_at);
    view.in_place = slot.in_place();
    // Frames that the host has packed and not sent.
    if (slot.transfer == TransferIn::zero_copy && !slot.in_place()) view.frames = slot.frames_in;
    view.snapshot = device_pointer<uint32_t>(piece + slot.snapshot_at);
    const std::vector<device::StateArray>& states = slot.loaded->states();
    for (size_t i = 0; i < states.size(); ++i)
        view.states[i] = {device_pointer<uint32_t>(states[i].address), slot.shared_states[i], static_cast<uint32_t>(states[i].bytes / 4)};
    view.count = static_cast<uint32_t>(n);
    view.mean_bytes = static_cast<uint32_t>(slot.frame_bytes / std::max<size_t>(n, 1));
    view.headroom = static_cast<uint16_t>(slot.headroom);
    view.tailroom = static_cast<uint16_t>(slot.tailroom);
    list_sources(slot, piece);
    if (slot.packs()) pack_frames(slot);
    slot.bytes_in += slot.input_bytes();
}

Status OffloadEngine::send(Slot& slot) {
    const size_t input_bytes = slot.input_bytes();
    const Status status = device_->copy_to_device(slot.stream, ring_address_ + slot.ring_offset, slot.input, input_bytes);
    const Status sent = status == Status::ok ? send_frames(slot) : status;
    mark(slot, names_.in, input_bytes + slot.frame_bytes);
    return sent;
}

/// Tells where the frames are to be fetched from.
void OffloadEngine::list_sources(Slot& slot, Address piece) {
    // What has landed lies as far from its first frame as on the host.
    const auto moved = [&](const Slot::Landing& landing) { return piece + slot.landing_at + landing.at - reinterpret_cast<uint64_t>(landing.from); };
    device::BatchView& view = slot.view;
    view.landed = slot.lands();
    if (!slot.needs_sources()) {
        view.source = slot.first_source() + (slot.lands() ? moved(slot.landings.front()) : 0);
        view.source_pitch = static_cast<uint64_t>(slot.pitch);
        return;
    }
    view.sources = device_pointer<const uint64_t>(piece + slot.sources_at);
    auto* const sources = reinterpret_cast<uint64_t*>(slot.input + slot.sources_at);
    slot.for_each_source([&](size_t i, uint64_t source) { sources[i] = source; });
    if (!slot.lands()) return;
    for (size_t k = 0; k < slot.landings.size(); ++k) {
        const uint64_t by = moved(slot.landings[k]);
        const size_t behind = k + 1 < slot.landings.size() ? slot.landings[k + 1].first : slot.count;
        for (size_t i = slot.landings[k].first; i < behind; ++i) sources[i] += by;
    }
}

void OffloadEngine::choose_transfer(Slot& slot) const {
    BatchShape shape;
    shape.packets = slot.count;
    shape.bytes_in = slot.frame_bytes;
    shape.packed_bytes = slot.frames_bytes;
    shape.row_bytes = slot.slot_bytes != 0 ? slot.widest : 0;
    shape.runs = slot.runs;
    shape.side_by_side_bytes = slot.landing_bytes();
    shape.lands = slot.landing_bytes() <= options_.batch_bytes;
    shape.whole_back = slot.prefix_back == chain::kWholeFrame;
    shape.bytes_back = shape.whole_back ? slot.frames_bytes : slot.count * slot.prefix_back;
    shape.reachable = options_.pinned;
    shape.changes = slot.prefix_back != 0;
    shape.workers = options_.workers;
    // Where each NF moves its own frames they are the device's.
    if (options_.mode == device::Mode::no_sharing) shape.changes = shape.whole_back = true;
    const TransferFigures& figures = options_.figures != nullptr ? *options_.figures : built_in_figures();
    slot.transfer = resident_transfer(way_in(figures, shape, options_.transfer_in), !slot.frame_runs.empty());
    shape.whole_back = slot.prefix_back == chain::kWholeFrame;
    slot.way_back = way_out(figures, shape, options_.transfer_out);
}

Status OffloadEngine::send_frames(Slot& slot) {
    if (slot.lands()) return send_landings(slot);
    if (slot.transfer == TransferIn::packed) return send_packed(slot);
    if (slot.transfer == TransferIn::rows) return send_rows(slot);
    slot.bytes_in += slot.frame_bytes;
    return Status::ok;  // the first step fetches them, or those that read them do
}

/// One 2-D copy for each run of buffers at one distance. A row is as long as the run's longest frame.
Status OffloadEngine::send_rows(Slot& slot) {
    const device::FrameDescriptor* const descriptors = slot.descriptors();
    const Address frames = ring_address_ + slot.ring_offset + slot.frames_at;
    Status status = Status::ok;
    size_t first = 0;  // of the run
    uint64_t from = slot.first_source(), expected = from;
    uint32_t width = 0;
    const auto send = [&](size_t next) {
        if (status != Status::ok) return;
        slot.bytes_in += uint64_t{width} * (next - first);
        status = device_->copy_rows_to_device(slot.stream, frames + descriptors[first].offset, slot.slot_bytes, reinterpret_cast<const void*>(from),
                                              static_cast<size_t>(slot.pitch), width, next - first);
    };
    if (slot.runs == 1) {
        width = slot.widest;
    } else {
        slot.for_each_source([&](size_t i, uint64_t source) {
            if (source != expected) {
                send(i);
                first = i;
                from = source;
                width = 0;
            }
            width = std::max<uint32_t>(width, descriptors[i].present);
            expected = source + static_cast<uint64_t>(slot.pitch);
        });
    }
    send(slot.count);
    return status;
}

/// Lays the frames side by side in the host's memory, as they shall lie in the device's.
void OffloadEngine::pack_frames(Slot& slot) {
    const device::FrameDescriptor* const descriptors = slot.descriptors();
    slot.for_each_source([&](size_t i, uint64_t source) {
        std::memcpy(slot.frames_in + descriptors[i].offset, reinterpret_cast<const void*>(source), descriptors[i].present);
    });
}

Status OffloadEngine::send_packed(Slot& slot) {
    slot.bytes_in += slot.frames_bytes;
    return device_->copy_to_device(slot.stream, ring_address_ + slot.ring_offset + slot.frames_at, slot.frames_in, slot.frames_bytes);
}

/// Frames as they lie side by side; the step that begins sets them apart.
Status OffloadEngine::send_landings(Slot& slot) {
    const Address landing = ring_address_ + slot.ring_offset + slot.landing_at;
    Status status = Status::ok;
    for (const Slot::Landing& each : slot.landings) {
        if (status == Status::ok) status = device_->copy_to_device(slot.stream, landing + each.at, each.from, each.bytes);
        slot.bytes_in += each.bytes;
    }
    return status;
}

/// `in_order` is to be held, if it is, until the batch has been submitted: batches of several devices follow each other in the order of their launches.
Status OffloadEngine::run_steps(Slot& slot, std::unique_lock<std::mutex>& in_order) {
    const auto is_ordered = [](const device::Step& step) { return step.in_order(); };
    const std::vector<device::Step>& steps = slot.loaded->steps();
    const auto first = std::find_if(steps.begin(), steps.end(), is_ordered);
    const auto behind = std::find_if(steps.rbegin(), steps.rend(), is_ordered).base();
    const auto launch = [&](auto from, auto to) {
        Status status = Status::ok;
        for (auto step = from; step != to && status == Status::ok; ++step)
            if (step->kind != device::Step::Kind::gather || slot.transfer == TransferIn::gather) {
                const auto index = static_cast<size_t>(step - steps.begin());
                if (step->crosses) status = cross(slot);
                if (status == Status::ok) status = device_->launch(slot.stream, *slot.loaded, index, slot.view);
                if (options_.track != nullptr) mark(slot, slot.step_names[index], slot.frame_bytes);
            }
        return status;
    };
    if (Status status = launch(steps.begin(), first); status != Status::ok || first == steps.end()) return status;
    // The ordered parts of batches come one after the other.
    device::OrderGate& gate = *gate_;
    in_order = std::unique_lock(gate.mutex);
    if (gate.broken) return Status::lost;
    slot.order = ++gate.batches;
    Status status = Status::ok;
    if (options_.gate == nullptr) {
        slot.view.turn = ++gate.launched_turns * device::Turns::kPlaces + turn_place_;
        slot.view.after = std::exchange(last_turn_, slot.view.turn);
        slot.without_turn = gate.batches - gate.launched_turns;
        in_order.unlock();  // the kernels wait for their turns themselves
        status = launch(first, behind);
    } else {
        if (gate.last != 0) status = device_->wait(slot.stream, *gate.last_device, gate.last);
        mark(slot, names_.order);
        if (status == Status::ok) status = launch(first, behind);
        if (status == Status::ok) status = device_->record(slot.stream, gate.last);
        gate.last_device = device_.get();
        if (!options_.graphs) in_order.unlock();
    }
    return status == Status::ok ? launch(behind, steps.end()) : status;
}

/// The frames go to where the results will come, and back from there, for the next NF.
Status OffloadEngine::cross(Slot& slot) {
    const Address frames = ring_address_ + slot.ring_offset + slot.frames_at;
    uint8_t* const host = slot.region->data();
    Status status = device_->copy_to_host(slot.stream, host, frames, slot.frames_bytes);
    slot.bytes_back += slot.frames_bytes;
    mark(slot, names_.away, slot.frames_bytes);
    if (status == Status::ok) status = device_->copy_to_device(slot.stream, frames, host, slot.frames_bytes);
    slot.bytes_in += slot.frames_bytes;
    mark(slot, names_.again, slot.frames_bytes);
    return status;
}

/// State comes back with every batch, so that the host's copy is what the last finished batch left: makes it
/// the host's, unless a later batch's is there already. False when the CPU has begun to number packets: then the
/// batch must not be taken in any more.
bool OffloadEngine::restore_states(const Slot& slot) {
    if (slot.order == 0) return true;
    device::OrderGate& gate = *gate_;
    const std::lock_guard lock(gate.mutex);
    if (gate.broken) return false;
    // Batches of several workers come to their turns in an order of their own.
    const uint64_t turns_had = slot.turns_had(slot.back(slot.head_at));
    const uint64_t order_had = turns_had != 0 ? slot.without_turn + turns_had : slot.order;
    const uint8_t* from = slot.back(slot.snapshot_at);
    for (const device::StateArray& state : slot.loaded->states()) {
        auto& restored = gate.restored[state.host];
        uint64_t newer = 0;  // bytes at the start that a later batch has brought
        for (const auto& [bytes, order] : restored)
            if (order > order_had) newer = bytes;
        if (newer < state.bytes) {
            std::memcpy(static_cast<uint8_t*>(state.host) + newer, from + newer, state.bytes - newer);
            restored[state.bytes] = order_had;
        }
        from += state.bytes;
    }
    return true;
}

/// What comes back: all from the head to the first events, in one piece; the frames are among it, unless only those that are
/// left shall come. Then what every NF decided, where that is wanted.
void OffloadEngine::list_back(const Slot& slot, std::vector<device::CopyPiece>& pieces) const {
    const size_t eager = slot.program->emits_events() ? std::min<size_t>(kEagerEvents, slot.count * kEventsPerPacket) * sizeof(Event) : 0;
    const auto add = [&](size_t from, size_t to) { pieces.push_back({slot.back(from), ring_address_ + slot.ring_offset + from, static_cast<uint32_t>(to - from)}); };
    pieces.clear();
    if (slot.way_back == TransferOut::selective) {
        add(slot.head_at, slot.back_at);
        add(slot.results_at, slot.events_at + eager);
    } else {
        add(slot.head_at, slot.events_at + eager);
    }
    if (slot.visits != nullptr && !slot.program->nodes.empty())
        pieces.push_back({slot.visits, slot.device_visits, static_cast<uint32_t>(slot.count * slot.program->nodes.size() * sizeof(Decision))});
}

Status OffloadEngine::fetch(Slot& slot) {
    list_back(slot, slot.pieces);
    // Or a kernel brings the heads.
    uint64_t bytes = slot.way_back == TransferOut::zero_copy ? slot.count * slot.prefix_back : 0;
    Status status = Status::ok;
    for (const device::CopyPiece& piece : slot.pieces) {
        if (status == Status::ok) status = device_->copy_to_host(slot.stream, piece.host, piece.device, piece.bytes);
        bytes += piece.bytes;
    }
    slot.bytes_back += bytes;
    mark(slot, names_.back, bytes);
    if (status == Status::ok) status = device_->announce(slot.stream, slot.done);
    return status;
}

/// What could only be asked for once the results were here: more events, and the packets that are left.
Status OffloadEngine::fetch_rest(Slot& slot) {
    Status status = Status::ok;
    const Address piece = ring_address_ + slot.ring_offset;
    if (const size_t stored = slot.stored_events(); stored > kEagerEvents) {
        status = device_->copy_to_host(slot.stream, slot.more_events, piece + slot.events_at, stored * sizeof(Event));
        slot.bytes_back += stored * sizeof(Event);
    }
    if (status == Status::ok && slot.way_back == TransferOut::selective) {
        slot.pieces.clear();
        for (size_t i = 0; i < slot.count; ++i) {
            const device::PacketResult& result = slot.results()[i];
            if (result.node == device::kHostDecides || target_of(*slot.program, result).kind == Target::Kind::drop) continue;
            if (size_t{result.offset} + result.length > slot.frames_bytes) return Status::failed;
            const size_t at = slot.frames_at + result.offset;
            slot.pieces.push_back({slot.back(at), piece + at, result.length});
            slot.bytes_back += result.length;
        }
        status = device_->scatter_to_host(slot.stream, slot.pieces);
    }
    mark(slot, names_.rest);
    if (status == Status::ok) status = device_->announce(slot.stream, slot.done);
    return status;
}

}  // namespace millrace::exec
