#include "millrace/exec/offload_batch.hpp"

#include <rte_cycles.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

namespace millrace::exec {

using device::Address;
using device::Status;

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

void OffloadEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs, size_t count) {
    if (failed_) {
        cpu_.submit(program, counters, mbufs, count);
        return;
    }
    Queue& queue = queue_for(program, counters);
    if (failed_) {
        cpu_.submit(program, counters, mbufs, count);
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
    slot.order = 0;
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
    if (status != Status::ok) fail_over(status);
    return true;
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
    restore_states(slot);
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
