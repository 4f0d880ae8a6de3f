#include "millrace/exec/offload_engine.hpp"

#include <rte_cycles.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

namespace millrace::exec {

using device::Address;
using device::Status;

namespace {

constexpr uint32_t kAlign = 16;
// Events that come back with the results; more are fetched when there are more.
constexpr uint32_t kEagerEvents = 64;
constexpr uint32_t kEventsPerPacket = 4;
// Heads of frames longer than this are not worth a transfer of their own.
constexpr uint32_t kMostPrefix = 128;

constexpr uint32_t aligned(uint32_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

template <class T>
T* device_pointer(Address address) {
    return reinterpret_cast<T*>(address);
}

}  // namespace

struct OffloadEngine::Queue {
    std::shared_ptr<const chain::Program> program;
    std::shared_ptr<device::LoadedProgram> loaded;
    ChainCounters* counters = nullptr;
    std::vector<device::Step> steps;
    uint32_t prefix_in = chain::kWholeFrame;   // bytes of each frame that go to the device
    uint32_t prefix_back = chain::kWholeFrame; // and come back; 0: none
    std::vector<rte_mbuf*> waiting;
    std::vector<std::pair<uint64_t, size_t>> bursts;  // arrival (TSC) and packets of each burst
};

struct OffloadEngine::Layout {
    size_t packets = 0;
    size_t bytes = 0;            // of the packet buffer
    uint32_t headroom = 0, tailroom = 0;
    std::vector<uint32_t> offsets;  // of each frame's first byte
    std::vector<uint32_t> present;
};

/// Everything that one batch needs, allocated once. Input and output blocks hold several arrays so
/// that one copy moves each.
struct OffloadEngine::Slot {
    device::StreamId stream = 0;
    // Host side.
    uint8_t* frames_in = nullptr;
    uint8_t* frames_out = nullptr;
    uint8_t* input = nullptr;    // EventBuffer, outcome counts, descriptors
    uint8_t* output = nullptr;   // EventBuffer, outcome counts, results
    Event* events = nullptr;
    Decision* visits = nullptr;
    std::vector<uint8_t> states;
    std::vector<device::CopyPiece> pieces_in, pieces_out;
    // Device side.
    Address device_block = 0, device_events = 0, device_visits = 0, device_prefixes = 0, device_work = 0;
    // The batch.
    std::shared_ptr<const chain::Program> program;
    std::shared_ptr<device::LoadedProgram> loaded;
    ChainCounters* counters = nullptr;
    std::vector<device::Step> steps;
    std::vector<rte_mbuf*> mbufs;
    std::vector<std::pair<uint64_t, size_t>> bursts;
    device::BatchView view;
    size_t ring_offset = 0, ring_bytes = 0;
    uint32_t prefix_in = 0, prefix_back = 0;
    device::EventId done = 0;
    uint64_t launched = 0;
    bool fetching_rest = false;
    Status status = Status::ok;

    static constexpr size_t kOutcomes = device::kMaxNodes * device::kMaxOutcomes;
    static constexpr size_t kHead = sizeof(EventBuffer) + kOutcomes * sizeof(uint32_t);
    EventBuffer& event_buffer(uint8_t* block) const { return *reinterpret_cast<EventBuffer*>(block); }
    uint32_t* outcomes(uint8_t* block) const { return reinterpret_cast<uint32_t*>(block + sizeof(EventBuffer)); }
    device::FrameDescriptor* descriptors() const { return reinterpret_cast<device::FrameDescriptor*>(input + kHead); }
    device::PacketResult* results() const { return reinterpret_cast<device::PacketResult*>(output + kHead); }
};

OffloadEngine::OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch, OffloadOptions options)
    : device_(std::move(device)),
      delivery_(delivery),
      options_(options),
      max_batch_(max_batch),
      cpu_(delivery),
      ring_(options.batch_bytes * (options.depth + 1)),
      fates_(std::max<size_t>(max_batch, nf::kCpuVector)) {
    ring_address_ = device_->allocate(ring_.size(), "the shared packet buffer");
    const size_t n = max_batch_;
    const size_t block = Slot::kHead + n * sizeof(device::FrameDescriptor) + n * sizeof(device::PacketResult);
    const size_t work = n * (sizeof(Packet) + sizeof(Decision) + sizeof(uint32_t) + sizeof(uint16_t));
    for (unsigned i = 0; i < options_.depth; ++i) {
        auto slot = std::make_unique<Slot>();
        slot->stream = device_->create_stream();
        slot->frames_in = static_cast<uint8_t*>(device_->allocate_host(options_.batch_bytes));
        slot->frames_out = static_cast<uint8_t*>(device_->allocate_host(options_.batch_bytes));
        slot->input = static_cast<uint8_t*>(device_->allocate_host(Slot::kHead + n * sizeof(device::FrameDescriptor)));
        slot->output = static_cast<uint8_t*>(device_->allocate_host(Slot::kHead + n * sizeof(device::PacketResult)));
        slot->events = static_cast<Event*>(device_->allocate_host(n * kEventsPerPacket * sizeof(Event)));
        slot->device_block = device_->allocate(block, "batch descriptors and results");
        slot->device_events = device_->allocate(n * kEventsPerPacket * sizeof(Event), "events");
        slot->device_work = device_->allocate(work, "parsed packets");
        slot->device_prefixes = device_->allocate(n * kMostPrefix, "packet heads");
        if (delivery_.wants_visits()) {
            slot->visits = static_cast<Decision*>(device_->allocate_host(n * device::kMaxNodes * sizeof(Decision)));
            slot->device_visits = device_->allocate(n * device::kMaxNodes * sizeof(Decision), "decisions of every NF");
        }
        slot->mbufs.reserve(n);
        slot->pieces_in.reserve(n);
        slot->pieces_out.reserve(n);
        idle_.push_back(slot.get());
        slots_.push_back(std::move(slot));
    }
}

OffloadEngine::~OffloadEngine() {
    drain();
    for (const auto& slot : slots_) {
        for (void* memory : {static_cast<void*>(slot->frames_in), static_cast<void*>(slot->frames_out), static_cast<void*>(slot->input),
                             static_cast<void*>(slot->output), static_cast<void*>(slot->events), static_cast<void*>(slot->visits)})
            if (memory != nullptr) device_->free_host(memory);
        for (const Address address : {slot->device_block, slot->device_events, slot->device_work, slot->device_prefixes, slot->device_visits})
            if (address != 0) device_->free(address);
    }
    device_->free(ring_address_);
}

std::string OffloadEngine::describe() const {
    return failed_ ? "cpu, taken over from a failed device (" + device_->describe() + ")" : device_->describe();
}

OffloadEngine::Queue& OffloadEngine::queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters) {
    const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const auto& own) { return own->program->name == program->name; });
    if (found != queues_.end() && (*found)->program == program) return **found;
    const bool fresh = found == queues_.end();
    if (fresh) queues_.push_back(std::make_unique<Queue>());
    Queue& queue = fresh ? *queues_.back() : **found;
    // A new generation of the chain: what waits belongs to the old one and goes first.
    while (!queue.waiting.empty() && !failed_)
        if (!start_batch(queue)) finish_front();
    queue.program = program;
    queue.counters = &counters;
    if (!failed_) prepare(queue);
    return queue;
}

/// Everything about a program that its batches need again and again.
void OffloadEngine::prepare(Queue& queue) {
    const chain::Program& program = *queue.program;
    if (program.nodes.size() > device::kMaxNodes)
        throw device::DeviceError("chain '" + program.name + "' has more than " + std::to_string(device::kMaxNodes) + " network functions");
    queue.loaded = device_->load(queue.program);
    const auto prefix = [&](Fields fields) {
        const uint32_t bytes = options_.whole_frames ? chain::kWholeFrame : chain::prefix_bytes(fields);
        return bytes > kMostPrefix ? chain::kWholeFrame : bytes;
    };
    queue.prefix_in = prefix(program.plan.to_device_total());
    queue.prefix_back = program.plan.to_host_total().empty() ? 0 : prefix(program.plan.to_host_total());
    // What comes back covers what lies on the host, so all of it must have been brought.
    queue.prefix_in = std::max(queue.prefix_in, queue.prefix_back);
    const bool pack = queue.prefix_back != 0 && queue.prefix_back != chain::kWholeFrame;
    queue.steps = device::plan_steps(program, options_.mode, pack);
}

void OffloadEngine::submit(std::shared_ptr<const chain::Program> program, ChainCounters& counters, rte_mbuf* const* mbufs, size_t count) {
    if (failed_) {
        cpu_.submit(std::move(program), counters, mbufs, count);
        return;
    }
    Queue& queue = queue_for(program, counters);
    if (failed_) {
        cpu_.submit(std::move(program), counters, mbufs, count);
        return;
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) bytes += mbufs[i]->data_len;
    counters.received_packets.add(count);
    counters.received_bytes.add(bytes);
    queue.waiting.insert(queue.waiting.end(), mbufs, mbufs + count);
    queue.bursts.emplace_back(rte_rdtsc(), count);
    in_flight_ += count;
}

/// The adaptive batcher: an idle device gets what there is at once; a busy one gets the next batch
/// when it is full or its oldest packet has waited long enough (GEN, section 3.2; GSwitch, section 5).
bool OffloadEngine::batch_is_due(const Queue& queue, uint64_t now) const {
    if (queue.waiting.empty() || idle_.empty()) return false;
    if (flying_.empty() || queue.waiting.size() >= queue.program->max_batch) return true;
    return to_nanoseconds(now - queue.bursts.front().first) >= static_cast<uint64_t>(queue.program->max_delay.count());
}

void OffloadEngine::poll() {
    if (failed_) return;
    while (finish_front()) {
    }
    const uint64_t now = rte_rdtsc();
    for (size_t i = 0; i < queues_.size() && !failed_; ++i)
        while (!failed_ && batch_is_due(*queues_[i], now) && start_batch(*queues_[i])) {
        }
}

void OffloadEngine::drain() {
    while (in_flight_ > 0 && !failed_) {
        for (const auto& queue : queues_)
            while (!failed_ && !queue->waiting.empty() && start_batch(*queue)) {
            }
        finish_front();
    }
}

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

bool OffloadEngine::start_batch(Queue& queue) {
    if (idle_.empty()) return false;
    const Layout layout = lay_out(queue);
    const size_t at = ring_.take(layout.bytes);
    if (at == PacketRing::kNoRoom) return false;
    Slot& slot = *idle_.back();
    idle_.pop_back();
    flying_.push_back(&slot);
    slot.ring_offset = at;
    slot.ring_bytes = layout.bytes;
    slot.program = queue.program;
    slot.loaded = queue.loaded;
    slot.counters = queue.counters;
    slot.steps = queue.steps;
    slot.prefix_in = queue.prefix_in;
    slot.prefix_back = queue.prefix_back;
    slot.fetching_rest = false;
    slot.launched = rte_rdtsc();
    slot.mbufs.assign(queue.waiting.begin(), queue.waiting.begin() + static_cast<ptrdiff_t>(layout.packets));
    queue.waiting.erase(queue.waiting.begin(), queue.waiting.begin() + static_cast<ptrdiff_t>(layout.packets));
    slot.bursts.clear();
    for (size_t left = layout.packets; left > 0;) {
        auto& [arrival, packets] = queue.bursts.front();
        const size_t taken = std::min(left, packets);
        slot.bursts.emplace_back(arrival, taken);
        packets -= taken;
        left -= taken;
        if (packets == 0) queue.bursts.erase(queue.bursts.begin());
    }
    Status status = send(slot, layout);
    if (status == Status::ok) status = run_steps(slot);
    if (status == Status::ok) status = fetch(slot, layout);
    slot.status = status;
    if (status != Status::ok) fail_over(status);
    return true;
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
    Status status = Status::ok;
    bool waited = false;
    for (const device::Step& step : slot.steps) {
        // Ordered steps of one batch follow those of the batch before.
        const bool ordered = step.kind == device::Step::Kind::tickets;
        if (ordered && !waited && last_ordered_ != 0) {
            status = device_->wait(slot.stream, last_ordered_);
            waited = true;
        }
        if (status == Status::ok) status = device_->launch(slot.stream, *slot.loaded, step, slot.view);
        if (status != Status::ok) return status;
    }
    // State comes back with every batch, so that the host's copy is what the last finished batch left.
    size_t bytes = 0;
    for (const device::StateArray& state : slot.loaded->states()) bytes += state.bytes;
    slot.states.resize(bytes);
    bytes = 0;
    for (const device::StateArray& state : slot.loaded->states()) {
        status = device_->copy_to_host(slot.stream, slot.states.data() + bytes, state.address, state.bytes);
        if (status != Status::ok) return status;
        bytes += state.bytes;
    }
    slot.counters->bytes_to_host.add(bytes);
    if (slot.program->ordered()) status = device_->record(slot.stream, last_ordered_);
    return status;
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

/// Takes in the oldest batch if it is back; whether it was.
bool OffloadEngine::finish_front() {
    if (flying_.empty() || failed_) return false;
    Slot& slot = *flying_.front();
    Status status = device_->query(slot.done);
    if (status == Status::pending) {
        if (to_nanoseconds(rte_rdtsc() - slot.launched) > static_cast<uint64_t>(options_.patience.count())) fail_over(Status::lost);
        return false;
    }
    const bool has_rest = slot.prefix_back == chain::kWholeFrame && options_.transfer_out == TransferOut::selective;
    if (status == Status::ok && !slot.fetching_rest &&
        (has_rest || std::min(slot.event_buffer(slot.output).count, slot.event_buffer(slot.output).capacity) > kEagerEvents)) {
        slot.fetching_rest = true;
        status = fetch_rest(slot);
        if (status == Status::ok) return false;
    }
    if (status != Status::ok) {
        fail_over(status);
        return false;
    }
    complete(slot);
    return true;
}

/// Makes packet `index` what the device has made of it; false when the host must decide instead.
bool OffloadEngine::apply(Slot& slot, size_t index, Fate& fate) {
    const device::PacketResult& result = slot.results()[index];
    if (result.node == device::kHostDecides) return false;
    fate.target = result.target;
    fate.node = result.node;
    fate.out_port = result.out_port;
    fate.decision = {result.detail, result.outcome};
    rte_mbuf* mbuf = slot.mbufs[index];
    const device::FrameDescriptor& descriptor = slot.descriptors()[index];
    if (fate.target.kind == chain::Target::Kind::drop) return true;
    auto* data = rte_pktmbuf_mtod(mbuf, uint8_t*);
    if (slot.prefix_back == chain::kWholeFrame) {
        const int32_t moved = static_cast<int32_t>(result.offset) - static_cast<int32_t>(descriptor.offset);
        const int32_t data_off = mbuf->data_off + moved;
        if (data_off < 0 || data_off + result.length > mbuf->buf_len) {
            // The port's buffers are smaller than the chain's growth; make_ports was told of it, so this is a slip of ours.
            fate = Fate{{chain::Target::Kind::drop, 0}, kNoNode, kNoPort, {kNoDetail, static_cast<uint32_t>(ExitDrop::device_failed)}};
            return true;
        }
        mbuf->data_off = static_cast<uint16_t>(data_off);
        mbuf->data_len = result.length;
        mbuf->pkt_len = result.length;
        std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), slot.frames_out + (result.offset - slot.ring_offset), result.length);
    } else if (slot.prefix_back != 0) {
        std::memcpy(data, slot.frames_out + index * slot.prefix_back,
                    std::min<size_t>({slot.prefix_back, result.length, descriptor.present}));
    }
    return true;
}

void OffloadEngine::complete(Slot& slot) {
    flying_.pop_front();
    ring_.give_back();
    size_t at = 0;
    for (const device::StateArray& state : slot.loaded->states()) {
        std::memcpy(state.host, slot.states.data() + at, state.bytes);
        at += state.bytes;
    }
    const size_t n = slot.mbufs.size();
    ChainCounters& counters = *slot.counters;
    std::vector<uint32_t> retries;
    for (size_t i = 0; i < n; ++i) {
        fates_[i] = Fate{};
        if (!apply(slot, i, fates_[i])) retries.push_back(static_cast<uint32_t>(i));
    }
    if (slot.visits != nullptr) {
        for (size_t i = 0; i < n; ++i) {
            if (slot.results()[i].node == device::kHostDecides) continue;
            visits_.clear();
            for (uint16_t node = 0; node < slot.program->nodes.size(); ++node) {
                const Decision decision = slot.visits[size_t{node} * n + i];
                if (decision.outcome != device::kNotVisited) visits_.push_back({node, decision});
            }
            delivery_.visits(*slot.program, slot.mbufs[i], visits_, fates_[i]);
        }
    }
    count(slot);
    EventBuffer& events = slot.event_buffer(slot.output);
    const uint32_t stored = std::min(events.count, events.capacity);
    counters.events_lost.add(events.count - stored);
    if (stored > 0) deliver_events(*slot.program, std::span(slot.events, stored), counters, slot.mbufs.data(), fates_.data());
    for (const uint32_t i : retries) {
        cpu_.decide(slot.program, counters, &slot.mbufs[i], 1, &fates_[i]);
        counters.retried_on_cpu.add(1);
    }
    counters.batches.add(1);
    const uint64_t now = rte_rdtsc();
    for (const auto& [arrival, packets] : slot.bursts) counters.latency.record(to_nanoseconds(now - arrival), packets);
    in_flight_ -= n;
    idle_.push_back(&slot);
    // Keeps the slot's program until here: its NFs were needed above.
    const auto program = std::move(slot.program);
    slot.loaded = nullptr;
    delivery_.deliver(*program, counters, slot.mbufs.data(), fates_.data(), n);
}

/// Adds up what the batch's packets met.
void OffloadEngine::count(const Slot& slot) {
    ChainCounters& counters = *slot.counters;
    for (size_t node = 0; node < counters.nodes.size(); ++node) {
        const uint32_t* outcomes = slot.outcomes(slot.output) + node * device::kMaxOutcomes;
        NodeCounters& into = *counters.nodes[node];
        for (size_t outcome = 0; outcome < into.by_outcome.size() && outcome < device::kMaxOutcomes; ++outcome) {
            into.by_outcome[outcome].add(outcomes[outcome]);
            into.packets.add(outcomes[outcome]);
        }
    }
    for (size_t i = 0; i < slot.mbufs.size(); ++i) {
        const device::PacketResult& result = slot.results()[i];
        if (result.node == kParserNode && result.outcome < kMalformedCount) counters.malformed[result.outcome].add(1);
    }
}

/// The device is gone. Its batches in flight run again on the CPU, in order, from the host's buffers
/// and from the state that the last finished batch left; then those that wait.
void OffloadEngine::fail_over(Status status) {
    if (failed_) return;
    failed_ = true;
    spdlog::error("{}: {}; its chains go on on the CPU, {} packets are run again", device_->describe(),
                  status == Status::lost ? "the device is lost" : "a copy or a kernel has failed", in_flight_);
    const std::deque<Slot*> flying = std::move(flying_);
    flying_.clear();
    for (Slot* slot : flying) run_on_cpu(slot->program, *slot->counters, slot->mbufs);
    for (const auto& queue : queues_) {
        run_on_cpu(queue->program, *queue->counters, queue->waiting);
        queue->waiting.clear();
    }
    in_flight_ = 0;
}

void OffloadEngine::run_on_cpu(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                               const std::vector<rte_mbuf*>& mbufs) {
    for (size_t i = 0; i < mbufs.size(); i += nf::kCpuVector) {
        const size_t n = std::min(nf::kCpuVector, mbufs.size() - i);
        cpu_.decide(program, counters, mbufs.data() + i, n, fates_.data());
        counters.retried_on_cpu.add(n);
        delivery_.deliver(*program, counters, mbufs.data() + i, fates_.data(), n);
    }
}

}  // namespace millrace::exec
