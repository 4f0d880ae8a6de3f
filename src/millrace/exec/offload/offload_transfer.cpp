// How a batch crosses the bus: what is copied, which steps run.
#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/exec/offload/offload_batch.hpp"

namespace millrace::exec {

using device::Address;
using device::Status;

namespace {

template <class T>
T* device_pointer(Address address) {
    return reinterpret_cast<T*>(address);
}

}  // namespace

/// Writes what goes to the device besides the frames, and packs those that are to be packed.
void OffloadEngine::write_input(Slot& slot) {
    const Address piece = ring_address_ + slot.ring_offset;
    EventBuffer& events = slot.event_buffer(slot.input + slot.piece.head_at);
    events.events = device_pointer<Event>(piece + slot.piece.events_at);
    events.capacity = slot.chain->program->emits_events() ? static_cast<uint32_t>(event_room(slot.frames.count)) : 0;
    events.left = device_pointer<LeftEvents>(piece + slot.piece.left_at);
    events.left_capacity = static_cast<uint32_t>(slot.frames.count * slot.chain->program->emitters());
    events.kept = device_pointer<uint8_t>(piece + slot.piece.kept_at);
    events.kept_capacity = static_cast<uint32_t>(slot.piece.kept_bytes);
    events.keep_from = static_cast<uint32_t>(slot.chain->program->first_changed());
    events.count = events.left_count = events.kept_bytes = 0;
    std::fill_n(slot.outcomes(slot.input + slot.piece.head_at), PieceLayout::kOutcomes, 0u);
    slot.turns_had(slot.input + slot.piece.head_at) = 0;
    const size_t n = slot.frames.count;
    device::BatchView& view = slot.view;
    view = {};
    view.frames = device_pointer<uint8_t>(piece + slot.piece.frames_at);
    view.descriptors = device_pointer<device::FrameDescriptor>(piece);
    view.events = device_pointer<EventBuffer>(piece + slot.piece.head_at);
    view.outcome_counts = device_pointer<uint32_t>(piece + slot.piece.head_at + sizeof(EventBuffer));
    view.order = device_pointer<uint64_t>(piece + slot.piece.head_at + PieceLayout::kOrderAt);
    view.results = device_pointer<device::PacketResult>(piece + slot.piece.results_at);
    device::BatchWork(n).place(view, device_pointer<uint8_t>(slot.device_work));
    view.visits = slot.chain->program->nodes.empty() ? nullptr : device_pointer<Decision>(slot.device_visits);
    view.prefix_bytes = slot.chain->prefixes.back == chain::kWholeFrame ? 0 : slot.chain->prefixes.back;
    view.prefixes = slot.way_back == TransferOut::zero_copy ? slot.back(slot.piece.heads_at)
                                                            : device_pointer<uint8_t>(piece + slot.piece.back_at);
    view.in_place = slot.in_place();
    // Frames that the host has packed and not sent.
    if (slot.transfer == TransferIn::zero_copy && !slot.in_place()) view.frames = slot.frames_in;
    view.snapshot = device_pointer<uint32_t>(piece + slot.piece.snapshot_at);
    const std::vector<device::StateArray>& states = slot.chain->loaded->states();
    for (size_t i = 0; i < states.size(); ++i)
        view.states[i] = {device_pointer<uint32_t>(states[i].address), slot.chain->shared_states[i],
                          static_cast<uint32_t>(states[i].bytes / 4)};
    view.count = static_cast<uint32_t>(n);
    view.mean_bytes = static_cast<uint32_t>(slot.frames.crossing / std::max<size_t>(n, 1));
    view.headroom = static_cast<uint16_t>(slot.frames.room.headroom);
    view.tailroom = static_cast<uint16_t>(slot.frames.room.tailroom);
    list_sources(slot, piece);
    if (slot.packs()) pack_frames(slot);
    slot.bytes_in += slot.piece.input_bytes();
}

Status OffloadEngine::send(Slot& slot) {
    const size_t input_bytes = slot.piece.input_bytes();
    const Status status = device_->copy_to_device(slot.stream, ring_address_ + slot.ring_offset, slot.input,
                                                  input_bytes);
    const Status sent = status == Status::ok ? send_frames(slot) : status;
    mark(slot, names_.in, input_bytes + slot.frames.crossing);
    return sent;
}

/// Tells where the frames are to be fetched from.
void OffloadEngine::list_sources(Slot& slot, Address piece) {
    // What has landed lies as far from its first frame as on the host.
    const auto moved = [&](const Landing& landing) {
        return piece + slot.piece.landing_at + landing.at - reinterpret_cast<uint64_t>(landing.from);
    };
    device::BatchView& view = slot.view;
    view.landed = slot.lands();
    if (!slot.needs_sources()) {
        view.source = slot.first_source() + (slot.lands() ? moved(slot.landings.all().front()) : 0);
        view.source_pitch = static_cast<uint64_t>(slot.frames.pitch);
        return;
    }
    view.sources = device_pointer<const uint64_t>(piece + slot.piece.sources_at);
    auto* const sources = reinterpret_cast<uint64_t*>(slot.input + slot.piece.sources_at);
    slot.for_each_source([&](size_t i, uint64_t source) { sources[i] = source; });
    if (!slot.lands()) return;
    for (size_t k = 0; k < slot.landings.all().size(); ++k) {
        const uint64_t by = moved(slot.landings.all()[k]);
        const size_t behind = k + 1 < slot.landings.all().size() ? slot.landings.all()[k + 1].first : slot.frames.count;
        for (size_t i = slot.landings.all()[k].first; i < behind; ++i) sources[i] += by;
    }
}

void OffloadEngine::choose_transfer(Slot& slot) const {
    BatchShape shape;
    shape.packets = slot.frames.count;
    shape.bytes_in = slot.frames.crossing;
    shape.packed_bytes = slot.frames.bytes;
    shape.row_bytes = slot.frames.spacing != 0 ? slot.frames.widest : 0;
    shape.runs = slot.frames.runs;
    shape.side_by_side_bytes = slot.landings.bytes();
    shape.lands = slot.landings.bytes() <= options_.batch_bytes;
    shape.whole_back = slot.chain->prefixes.back == chain::kWholeFrame;
    shape.bytes_back = shape.whole_back ? slot.frames.bytes : slot.frames.count * slot.chain->prefixes.back;
    shape.reachable = options_.pinned;
    shape.changes = slot.chain->prefixes.back != 0;
    shape.workers = options_.workers;
    // Where each NF moves its own frames they are the device's.
    if (options_.mode == device::Mode::no_sharing) shape.changes = shape.whole_back = true;
    const TransferFigures& figures = options_.figures != nullptr ? *options_.figures : built_in_figures();
    slot.transfer = resident_transfer(way_in(figures, shape, options_.transfer_in), !slot.frame_runs.empty());
    shape.whole_back = slot.chain->prefixes.back == chain::kWholeFrame;
    slot.way_back = way_out(figures, shape, options_.transfer_out);
}

Status OffloadEngine::send_frames(Slot& slot) {
    if (slot.lands()) return send_landings(slot);
    if (slot.transfer == TransferIn::packed) return send_packed(slot);
    if (slot.transfer == TransferIn::rows) return send_rows(slot);
    slot.bytes_in += slot.frames.crossing;
    return Status::ok;  // the first step fetches them, or those that read them do
}

/// One 2-D copy for each run of buffers at one distance. A row is as long as the run's longest frame.
Status OffloadEngine::send_rows(Slot& slot) {
    const device::FrameDescriptor* const descriptors = slot.descriptors();
    const Address frames = ring_address_ + slot.ring_offset + slot.piece.frames_at;
    Status status = Status::ok;
    size_t first = 0;  // of the run
    uint64_t from = slot.first_source(), expected = from;
    uint32_t width = 0;
    const auto send = [&](size_t next) {
        if (status != Status::ok) return;
        slot.bytes_in += uint64_t{width} * (next - first);
        status = device_->copy_rows_to_device(slot.stream, frames + descriptors[first].offset, slot.frames.spacing,
                                              reinterpret_cast<const void*>(from),
                                              static_cast<size_t>(slot.frames.pitch), width, next - first);
    };
    if (slot.frames.runs == 1) {
        width = slot.frames.widest;
    } else {
        slot.for_each_source([&](size_t i, uint64_t source) {
            if (source != expected) {
                send(i);
                first = i;
                from = source;
                width = 0;
            }
            width = std::max<uint32_t>(width, descriptors[i].present);
            expected = source + static_cast<uint64_t>(slot.frames.pitch);
        });
    }
    send(slot.frames.count);
    return status;
}

/// Lays the frames side by side in the host's memory, as they shall lie in the device's.
void OffloadEngine::pack_frames(Slot& slot) {
    const device::FrameDescriptor* const descriptors = slot.descriptors();
    slot.for_each_source([&](size_t i, uint64_t source) {
        std::memcpy(slot.frames_in + descriptors[i].offset, reinterpret_cast<const void*>(source),
                    descriptors[i].present);
    });
}

Status OffloadEngine::send_packed(Slot& slot) {
    slot.bytes_in += slot.frames.bytes;
    return device_->copy_to_device(slot.stream, ring_address_ + slot.ring_offset + slot.piece.frames_at, slot.frames_in,
                                   slot.frames.bytes);
}

/// Frames as they lie side by side; the step that begins sets them apart.
Status OffloadEngine::send_landings(Slot& slot) {
    const Address landing = ring_address_ + slot.ring_offset + slot.piece.landing_at;
    Status status = Status::ok;
    for (const Landing& each : slot.landings.all()) {
        if (status == Status::ok)
            status = device_->copy_to_device(slot.stream, landing + each.at, each.from, each.bytes);
        slot.bytes_in += each.bytes;
    }
    return status;
}

/// `in_order` is to be held, if it is, until the batch has been submitted: batches of several devices follow each other
/// in the order of their launches.
Status OffloadEngine::run_steps(Slot& slot, std::unique_lock<std::mutex>& in_order) {
    const auto is_ordered = [](const device::Step& step) { return step.in_order(); };
    const std::vector<device::Step>& steps = slot.chain->loaded->steps();
    const auto first = std::find_if(steps.begin(), steps.end(), is_ordered);
    const auto behind = std::find_if(steps.rbegin(), steps.rend(), is_ordered).base();
    const auto launch = [&](auto from, auto to) {
        Status status = Status::ok;
        for (auto step = from; step != to && status == Status::ok; ++step)
            if (step->kind != device::Step::Kind::gather || slot.transfer == TransferIn::gather) {
                const auto index = static_cast<size_t>(step - steps.begin());
                if (step->crosses) status = cross(slot);
                if (status == Status::ok) status = device_->launch(slot.stream, *slot.chain->loaded, index, slot.view);
                if (options_.track != nullptr) mark(slot, slot.chain->step_names[index], slot.frames.crossing);
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
    const Address frames = ring_address_ + slot.ring_offset + slot.piece.frames_at;
    uint8_t* const host = slot.region->data();
    Status status = device_->copy_to_host(slot.stream, host, frames, slot.frames.bytes);
    slot.bytes_back += slot.frames.bytes;
    mark(slot, names_.away, slot.frames.bytes);
    if (status == Status::ok) status = device_->copy_to_device(slot.stream, frames, host, slot.frames.bytes);
    slot.bytes_in += slot.frames.bytes;
    mark(slot, names_.again, slot.frames.bytes);
    return status;
}

/// What comes back: all from the head to the first events, in one piece; the frames are among it, unless only those
/// that are left shall come. Then what every NF decided, where that is wanted.
void OffloadEngine::list_back(const Slot& slot, std::vector<device::CopyPiece>& pieces) const {
    const size_t eager = slot.chain->program->emits_events() ? kEagerEvents * sizeof(Event) : 0;
    const auto add = [&](size_t from, size_t to) {
        pieces.push_back({slot.back(from), ring_address_ + slot.ring_offset + from, static_cast<uint32_t>(to - from)});
    };
    pieces.clear();
    if (slot.way_back == TransferOut::selective) {
        add(slot.piece.head_at, slot.piece.back_at);
        add(slot.piece.results_at, slot.piece.events_at + eager);
    } else {
        add(slot.piece.head_at, slot.piece.events_at + eager);
    }
    if (slot.visits != nullptr && !slot.chain->program->nodes.empty())
        pieces.push_back(
            {slot.visits, slot.device_visits,
             static_cast<uint32_t>(slot.frames.count * slot.chain->program->nodes.size() * sizeof(Decision))});
}

Status OffloadEngine::fetch(Slot& slot) {
    list_back(slot, slot.pieces);
    // Or a kernel brings the heads.
    uint64_t bytes = slot.way_back == TransferOut::zero_copy ? slot.frames.count * slot.chain->prefixes.back : 0;
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

/// What could only be asked for once the results were here: more events, the packets whose events were left, as the NFs
/// saw them if the host does not have them so, and the packets that are not dropped.
Status OffloadEngine::fetch_rest(Slot& slot) {
    Status status = Status::ok;
    const Address piece = ring_address_ + slot.ring_offset;
    const auto bring = [&](void* to, size_t from, size_t bytes) {
        if (status == Status::ok) status = device_->copy_to_host(slot.stream, to, piece + from, bytes);
        slot.bytes_back += bytes;
    };
    if (const size_t stored = slot.stored_events(); stored > kEagerEvents)
        bring(slot.more_events, slot.piece.events_at, stored * sizeof(Event));
    if (const size_t left = slot.left_count(); left > 0) {
        bring(slot.left, slot.piece.left_at, left * sizeof(LeftEvents));
        if (const size_t kept = slot.kept_bytes(); kept > 0) bring(slot.kept, slot.piece.kept_at, kept);
    }
    if (status == Status::ok && slot.way_back == TransferOut::selective) {
        slot.pieces.clear();
        for (size_t i = 0; i < slot.frames.count; ++i) {
            const device::PacketResult& result = slot.results()[i];
            if (result.node == device::kHostDecides ||
                target_of(*slot.chain->program, result).kind == Target::Kind::drop)
                continue;
            if (size_t{result.offset} + result.length > slot.frames.bytes) return Status::failed;
            const size_t at = slot.piece.frames_at + result.offset;
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
