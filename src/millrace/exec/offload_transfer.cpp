// How a batch crosses the bus: where its frames lie, what is copied, which steps run.
#include <algorithm>
#include <cstring>

#include "millrace/exec/offload_batch.hpp"

namespace millrace::exec {

using device::Address;
using device::Status;

namespace {

constexpr uint32_t kAlign = 16;

constexpr uint32_t aligned(uint32_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

template <class T>
T* device_pointer(Address address) {
    return reinterpret_cast<T*>(address);
}

}  // namespace

OffloadEngine::Layout OffloadEngine::lay_out(const Queue& queue) const {
    Layout layout;
    const size_t most = std::min<size_t>({queue.waiting.size(), queue.program->max_batch, max_batch_});
    const bool whole = queue.prefix_in == chain::kWholeFrame;
    layout.headroom = whole ? aligned(queue.program->head_growth()) : 0;
    layout.tailroom = whole ? queue.program->tail_growth() : 0;
    layout.offsets.reserve(most);
    layout.present.reserve(most);
    for (size_t i = 0; i < most; ++i) {
        const uint32_t length = queue.waiting[i]->data_len;
        const uint32_t present = whole ? length : std::min(length, queue.prefix_in);
        const uint32_t slot = whole ? layout.headroom + aligned(length + layout.tailroom) : queue.prefix_in;
        if (layout.bytes + slot > options_.batch_bytes) break;
        layout.offsets.push_back(static_cast<uint32_t>(layout.bytes) + layout.headroom);
        layout.present.push_back(present);
        layout.bytes += slot;
    }
    layout.packets = layout.offsets.size();
    return layout;
}

Status OffloadEngine::send(Slot& slot, const Layout& layout) {
    const size_t nodes = slot.program->nodes.size();
    EventBuffer& events = slot.event_buffer(slot.input);
    events.events = device_pointer<Event>(slot.device_events);
    events.capacity = slot.program->emits_events() ? static_cast<uint32_t>(layout.packets * kEventsPerPacket) : 0;
    events.count = 0;
    std::fill_n(slot.outcomes(slot.input), Slot::kOutcomes, 0u);
    for (size_t i = 0; i < layout.packets; ++i) {
        const rte_mbuf* mbuf = slot.mbufs[i];
        slot.descriptors()[i] = {static_cast<uint32_t>(slot.ring_offset) + layout.offsets[i], mbuf->data_len,
                                 static_cast<uint16_t>(layout.present[i]), mbuf->port, 0};
    }
    device::BatchView& view = slot.view;
    const size_t n = layout.packets;
    view = {};
    view.frames = device_pointer<uint8_t>(ring_address_);
    view.events = device_pointer<EventBuffer>(slot.device_block);
    view.outcome_counts = device_pointer<uint32_t>(slot.device_block + sizeof(EventBuffer));
    view.descriptors = device_pointer<device::FrameDescriptor>(slot.device_block + Slot::kHead);
    view.results = device_pointer<device::PacketResult>(slot.device_block + Slot::kHead + n * sizeof(device::FrameDescriptor));
    view.packets = device_pointer<Packet>(slot.device_work);
    view.decisions = device_pointer<Decision>(slot.device_work + n * sizeof(Packet));
    view.keys = device_pointer<uint32_t>(slot.device_work + n * (sizeof(Packet) + sizeof(Decision)));
    view.at = device_pointer<uint16_t>(slot.device_work + n * (sizeof(Packet) + sizeof(Decision) + sizeof(uint32_t)));
    view.visits = nodes > 0 ? device_pointer<Decision>(slot.device_visits) : nullptr;
    view.prefixes = device_pointer<uint8_t>(slot.device_prefixes);
    view.prefix_bytes = slot.prefix_back == chain::kWholeFrame ? 0 : slot.prefix_back;
    view.count = static_cast<uint32_t>(n);
    view.headroom = static_cast<uint16_t>(layout.headroom);
    view.tailroom = static_cast<uint16_t>(layout.tailroom);
    if (const Status status = send_frames(slot, layout); status != Status::ok) return status;
    const size_t input_bytes = Slot::kHead + n * sizeof(device::FrameDescriptor);
    slot.counters->bytes_to_device.add(input_bytes);
    return device_->copy_to_device(slot.stream, slot.device_block, slot.input, input_bytes);
}

Status OffloadEngine::send_frames(Slot& slot, const Layout& layout) {
    const Address to = ring_address_ + slot.ring_offset;
    uint64_t bytes = 0;
    for (const uint32_t present : layout.present) bytes += present;
    if (options_.transfer_in == TransferIn::gather) {
        slot.pieces_in.clear();
        for (size_t i = 0; i < layout.packets; ++i)
            slot.pieces_in.push_back({rte_pktmbuf_mtod(slot.mbufs[i], void*), to + layout.offsets[i], layout.present[i]});
        slot.counters->bytes_to_device.add(bytes);
        return device_->gather_to_device(slot.stream, slot.pieces_in);
    }
    if (options_.transfer_in == TransferIn::rows && layout.packets > 1) {
        const auto* first = rte_pktmbuf_mtod(slot.mbufs[0], const uint8_t*);
        const ptrdiff_t pitch = rte_pktmbuf_mtod(slot.mbufs[1], const uint8_t*) - first;
        const uint32_t to_pitch = layout.offsets[1] - layout.offsets[0];
        bool even = pitch > 0;
        for (size_t i = 1; i < layout.packets && even; ++i)
            even = rte_pktmbuf_mtod(slot.mbufs[i], const uint8_t*) == first + static_cast<ptrdiff_t>(i) * pitch &&
                   layout.offsets[i] - layout.offsets[i - 1] == to_pitch && layout.present[i] <= layout.present[0];
        if (even && layout.present[0] <= to_pitch && layout.present[0] <= static_cast<size_t>(pitch)) {
            slot.counters->bytes_to_device.add(uint64_t{layout.present[0]} * layout.packets);
            return device_->copy_rows_to_device(slot.stream, to + layout.offsets[0], to_pitch, first, static_cast<size_t>(pitch),
                                                layout.present[0], layout.packets);
        }
    }
    for (size_t i = 0; i < layout.packets; ++i)
        std::memcpy(slot.frames_in + layout.offsets[i], rte_pktmbuf_mtod(slot.mbufs[i], const void*), layout.present[i]);
    slot.counters->bytes_to_device.add(layout.bytes);
    return device_->copy_to_device(slot.stream, to, slot.frames_in, layout.bytes);
}

Status OffloadEngine::run_steps(Slot& slot) {
    const auto is_ordered = [](const device::Step& step) { return step.kind == device::Step::Kind::tickets || step.kind == device::Step::Kind::commit; };
    const auto first = std::find_if(slot.steps.begin(), slot.steps.end(), is_ordered);
    const auto behind = std::find_if(slot.steps.rbegin(), slot.steps.rend(), is_ordered).base();
    const auto launch = [&](auto from, auto to) {
        Status status = Status::ok;
        for (auto step = from; step != to && status == Status::ok; ++step) status = device_->launch(slot.stream, *slot.loaded, *step, slot.view);
        return status;
    };
    if (Status status = launch(slot.steps.begin(), first); status != Status::ok || first == slot.steps.end()) return status;
    // The ordered part of one batch follows that of the batch before.
    device::OrderGate& gate = device_->order_gate();
    const std::lock_guard lock(gate.mutex);
    Status status = gate.last != 0 ? device_->wait(slot.stream, gate.last) : Status::ok;
    if (status == Status::ok) status = launch(first, behind);
    if (status == Status::ok) status = fetch_states(slot);
    if (status == Status::ok) status = device_->record(slot.stream, gate.last);
    slot.order = ++gate.batches;
    return status == Status::ok ? launch(behind, slot.steps.end()) : status;
}

/// State comes back with every batch, so that the host's copy is what the last finished batch left.
Status OffloadEngine::fetch_states(Slot& slot) {
    size_t bytes = 0;
    for (const device::StateArray& state : slot.loaded->states()) bytes += state.bytes;
    slot.states.resize(bytes);
    slot.counters->bytes_to_host.add(bytes);
    bytes = 0;
    Status status = Status::ok;
    for (const device::StateArray& state : slot.loaded->states()) {
        if (status == Status::ok) status = device_->copy_to_host(slot.stream, slot.states.data() + bytes, state.address, state.bytes);
        bytes += state.bytes;
    }
    return status;
}

/// Makes the state that came back with a batch the host's, unless a later batch's is there already.
void OffloadEngine::restore_states(const Slot& slot) {
    if (slot.order == 0) return;
    device::OrderGate& gate = device_->order_gate();
    const std::lock_guard lock(gate.mutex);
    size_t at = 0;
    for (const device::StateArray& state : slot.loaded->states()) {
        uint64_t& restored = gate.restored[state.host];
        if (slot.order > restored) {
            std::memcpy(state.host, slot.states.data() + at, state.bytes);
            restored = slot.order;
        }
        at += state.bytes;
    }
}

Status OffloadEngine::fetch(Slot& slot, const Layout& layout) {
    const size_t n = layout.packets;
    const Address results = slot.device_block + Slot::kHead + n * sizeof(device::FrameDescriptor);
    Status status = device_->copy_to_host(slot.stream, slot.output, slot.device_block, Slot::kHead);
    if (status == Status::ok)
        status = device_->copy_to_host(slot.stream, slot.output + Slot::kHead, results, n * sizeof(device::PacketResult));
    uint64_t bytes = Slot::kHead + n * sizeof(device::PacketResult);
    if (status == Status::ok && slot.program->emits_events()) {
        const size_t eager = std::min<size_t>(kEagerEvents, n * kEventsPerPacket) * sizeof(Event);
        status = device_->copy_to_host(slot.stream, slot.events, slot.device_events, eager);
        bytes += eager;
    }
    if (status == Status::ok && slot.visits != nullptr && !slot.program->nodes.empty()) {
        const size_t visits = n * slot.program->nodes.size() * sizeof(Decision);
        status = device_->copy_to_host(slot.stream, slot.visits, slot.device_visits, visits);
    }
    if (status == Status::ok && slot.prefix_back == chain::kWholeFrame && options_.transfer_out == TransferOut::region) {
        status = device_->copy_to_host(slot.stream, slot.frames_out, ring_address_ + slot.ring_offset, slot.ring_bytes);
        bytes += slot.ring_bytes;
    } else if (status == Status::ok && slot.prefix_back != 0 && slot.prefix_back != chain::kWholeFrame) {
        status = device_->copy_to_host(slot.stream, slot.frames_out, slot.device_prefixes, n * slot.prefix_back);
        bytes += n * slot.prefix_back;
    }
    slot.counters->bytes_to_host.add(bytes);
    if (status == Status::ok) status = device_->record(slot.stream, slot.done);
    return status;
}

/// What could only be asked for once the results were here: more events, and the packets that are left.
Status OffloadEngine::fetch_rest(Slot& slot) {
    Status status = Status::ok;
    const EventBuffer& events = slot.event_buffer(slot.output);
    const uint32_t stored = std::min(events.count, events.capacity);
    if (stored > kEagerEvents) {
        status = device_->copy_to_host(slot.stream, slot.events, slot.device_events, stored * sizeof(Event));
        slot.counters->bytes_to_host.add(stored * sizeof(Event));
    }
    if (status == Status::ok && slot.prefix_back == chain::kWholeFrame && options_.transfer_out == TransferOut::selective) {
        slot.pieces_out.clear();
        for (size_t i = 0; i < slot.mbufs.size(); ++i) {
            const device::PacketResult& result = slot.results()[i];
            if (result.target.kind == Target::Kind::drop || result.node == device::kHostDecides) continue;
            const size_t at = result.offset - slot.ring_offset;
            if (at + result.length > slot.ring_bytes) return Status::failed;
            slot.pieces_out.push_back({slot.frames_out + at, ring_address_ + result.offset, result.length});
            slot.counters->bytes_to_host.add(result.length);
        }
        status = device_->scatter_to_host(slot.stream, slot.pieces_out);
    }
    if (status == Status::ok) status = device_->record(slot.stream, slot.done);
    return status;
}

}  // namespace millrace::exec
