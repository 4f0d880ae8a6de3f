#include "millrace/exec/offload/offload_batch.hpp"

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_pause.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

namespace millrace::exec {

using device::Address;
using device::Status;

namespace {
/// A region counts its packets in 16 bits.
constexpr uint32_t kMostPackets = 65535;
/// State that there is room for from the start.
constexpr size_t kUsualState = size_t{64} << 10;
}  // namespace

OffloadEngine::OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch,
                             OffloadOptions options)
    : device_(std::move(device)), delivery_(delivery), options_(options),
      gate_(options_.gate != nullptr ? options_.gate : device_->order_gate()),
      states_(device_, gate_, options_.patience), max_batch_(std::min(max_batch, kMostPackets)),
      cpu_(delivery, options_.frames, options_.track), turn_place_(gate_->engines++ % device::Turns::kPlaces),
      fates_(std::max<size_t>(max_batch_, nf::kCpuVector)) {
    const size_t n = max_batch_;
    for (unsigned i = 0; i < options_.depth; ++i) {
        auto slot = std::make_unique<Slot>();
        slot->stream = device_->create_stream(options_.track != nullptr);
        slot->frames_in = static_cast<uint8_t*>(device_->allocate_host(options_.batch_bytes));
        slot->input = static_cast<uint8_t*>(device_->allocate_host(PieceLayout::most_input(n)));
        slot->more_events = static_cast<Event*>(device_->allocate_host(event_room(n) * sizeof(Event)));
        slot->sources.resize(n);
        slot->device_work = device_->allocate(device::BatchWork(n).bytes(), "parsed packets");
        if (delivery_.wants_visits()) {
            slot->visits = static_cast<Decision*>(device_->allocate_host(n * device::kMaxNodes * sizeof(Decision)));
            slot->device_visits = device_->allocate(n * device::kMaxNodes * sizeof(Decision), "decisions of every NF");
        }
        slot->mbufs.reserve(n);
        slot->pieces.reserve(n);
        idle_.push_back(slot.get());
        slots_.push_back(std::move(slot));
    }
    allocate_ring({kUsualState});
    if (options_.placement != nullptr) member_.emplace(options_.placement);
    if (options_.mode == device::Mode::persistent) turn_word_ = gate_->turn_word(device_);
    // A kernel that stays is told through memory.
    if (options_.call_thread != nullptr && options_.mode != device::Mode::persistent)
        lane_.emplace(options_.call_thread, [this](void* slot) { put(*static_cast<Slot*>(slot)); });
    name_slices();
}

OffloadEngine::~OffloadEngine() {
    drain();
    lane_.reset();
    queues_.clear();
    for (const auto& slot : slots_) slot->chain = nullptr;
    for (const auto& slot : slots_) {
        if (slot->region != nullptr) regions_->give_back(*slot->region);
        for (void* memory : {static_cast<void*>(slot->frames_in), static_cast<void*>(slot->input),
                             static_cast<void*>(slot->more_events), static_cast<void*>(slot->left),
                             static_cast<void*>(slot->kept), static_cast<void*>(slot->visits)})
            if (memory != nullptr) device_->free_host(memory);
        for (const Address address : {slot->device_work, slot->device_visits})
            if (address != 0) device_->free(address);
    }
    if (ring_address_ != 0) device_->free(ring_address_);
}

/// The packet ring, and what its pieces come back into, for chains with such needs. No batch may be in flight.
void OffloadEngine::allocate_ring(const RingNeeds& needs) {
    for (const auto& slot : slots_)
        if (slot->region != nullptr) regions_->give_back(*std::exchange(slot->region, nullptr));
    if (ring_address_ != 0) device_->free(std::exchange(ring_address_, 0));
    ring_has_ = needs;
    const size_t frames = (1 + options_.runs + needs.keepers) * options_.batch_bytes;  // landing takes as much again
    ring_ = PacketRing((frames + PieceLayout::most_beside_frames(max_batch_, needs)) * (options_.depth + 1));
    ring_address_ = device_->allocate(ring_.size(), "the shared packet buffer");
    regions_ = std::make_shared<FrameRegions>(
        device_, 3 * options_.depth,
        options_.batch_bytes + PieceLayout::most_back_beside_frames(max_batch_, needs.state_bytes));
    for (const auto& slot : slots_) {
        slot->region = regions_->take();
        for (void* memory : {static_cast<void*>(slot->left), static_cast<void*>(slot->kept)})
            if (memory != nullptr) device_->free_host(memory);
        slot->left = static_cast<LeftEvents*>(device_->allocate_host(max_batch_ * needs.emitters * sizeof(LeftEvents)));
        slot->kept = needs.keepers == 0
                         ? nullptr
                         : static_cast<uint8_t*>(device_->allocate_host(
                               needs.keepers * PieceLayout::most_kept(max_batch_, options_.batch_bytes)));
    }
}

std::string OffloadEngine::describe() const {
    return failed_ ? "cpu, taken over from a failed device (" + device_->describe() + ")" : device_->describe();
}

ChainQueue& OffloadEngine::queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                                     bool of_runs) {
    const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const auto& own) {
        return own->of_runs() == of_runs && own->chain->program->name == program->name;
    });
    if (found != queues_.end() && (*found)->chain->program == program) return **found;
    const bool fresh = found == queues_.end();
    if (fresh) queues_.push_back(std::make_unique<ChainQueue>(of_runs));
    ChainQueue& queue = fresh ? *queues_.back() : **found;
    // A new generation of the chain: what waits belongs to the old one and goes first.
    while (queue.waiting() > 0 && !failed_) push_on(queue);
    try {
        if (!failed_) prepare(queue, program, counters);
    } catch (const device::DeviceError& e) {
        spdlog::error("chain '{}': {}", program->name, e.what());
        // The device still works: its batches may come back.
        while (!flying_.empty() && !failed_) finish_front();
        fail_over(Status::failed);
    }
    return queue;
}

/// Loads a chain, and sees to it that the packet ring has room for what its batches need.
void OffloadEngine::prepare(ChainQueue& queue, const std::shared_ptr<const chain::Program>& program,
                            ChainCounters& counters) {
    queue.chain = std::make_shared<const LoadedChain>(program, counters, device_, *gate_, options_);
    queue.policy = {.most_packets = std::min(program->max_batch, max_batch_),
                    .max_delay_ns = static_cast<uint64_t>(program->max_delay.count()),
                    .depth = options_.depth,
                    .idle_below = options_.mode == device::Mode::persistent
                                      ? std::min<size_t>(options_.depth, device::kMostTeams)
                                      : 1};
    if (ring_has_.covers(queue.chain->needs)) return;
    while (!flying_.empty() && !failed_) finish_front();
    if (!failed_) allocate_ring(ring_has_.with(queue.chain->needs));
}

void OffloadEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                           rte_mbuf* const* mbufs, size_t count) {
    if (failed_) {
        cpu_.submit(program, counters, mbufs, count);
        return;
    }
    ChainQueue& queue = queue_for(program, counters, false);
    if (failed_) {
        cpu_.submit(program, counters, mbufs, count);
        return;
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
        bytes += mbufs[i]->data_len;
        queue.add(mbufs[i]);
    }
    counters.received_packets.add(count);
    counters.received_bytes.add(bytes);
    queue.arrived(rte_rdtsc(), count);
    queue.more = count >= options_.full_burst;
    if (member_) member_->came(count);
    in_flight_ += count;
}

bool OffloadEngine::batch_is_due(const ChainQueue& queue, uint64_t now) const {
    if (queue.waiting() == 0 || idle_.empty()) return false;
    BatchPolicy::Load load;
    load.waiting = queue.waiting();
    load.waited_ns = to_nanoseconds(now - queue.oldest());
    load.more = queue.more;
    load.free_batches = idle_.size();
    load.in_flight = flying_.size();
    load.packets = in_flight_;
    load.since_start = flying_.empty() ? 0 : now - flying_.back()->launched;
    load.away = away_;
    if (lane_)
        load.line = lane_->busy()   ? BatchPolicy::Line::own
                    : lane_->line() ? BatchPolicy::Line::others
                                    : BatchPolicy::Line::none;
    return queue.policy.is_due(load);
}

void OffloadEngine::poll() {
    if (failed_) return;
    while (finish_front()) {
    }
    const uint64_t now = rte_rdtsc();
    if (member_ && !failed_) member_->look(now);
    for (size_t i = 0; i < queues_.size() && !failed_; ++i) {
        while (run_here(*queues_[i])) {
        }
        while (!failed_ && batch_is_due(*queues_[i], now) && start_batch(*queues_[i])) {
        }
        queues_[i]->more = false;
    }
}

void OffloadEngine::drain() {
    while (in_flight_ > 0 && !failed_) {
        for (const auto& queue : queues_)
            if (queue->waiting() > 0) push_on(*queue);
        finish_front();
    }
    if (member_) member_->rest();
}

/// Moves packets that wait on by whatever way is open, without waiting for more of them.
void OffloadEngine::push_on(ChainQueue& queue) {
    if (member_) member_->look(rte_rdtsc());
    if (!run_here(queue) && !start_batch(queue)) finish_front();
}

bool OffloadEngine::start_batch(ChainQueue& queue) {
    if (idle_.empty() || (member_ && !member_->begin_batch())) return false;
    const uint64_t put_from_ns = options_.track != nullptr ? Timeline::now_ns() : 0, begun = rte_rdtsc();
    Slot& slot = *idle_.back();
    slot.begun = begun;
    slot.bytes_in = slot.bytes_back = 0;
    slot.chain = queue.chain;
    if (!lay_out(queue, slot)) {
        if (member_) member_->end_batches(1);
        slot.chain = nullptr;
        return false;
    }
    idle_.pop_back();
    flying_.push_back(&slot);
    slot.fetching_rest = false;
    slot.order = 0;
    slot.launched = rte_rdtsc();
    begin_trace(queue, slot, put_from_ns);
    queue.take(slot.frames.count, slot.bursts);
    Status status = Status::ok;
    if (member_ && queue.hand_overs != member_->all().hand_overs()) {
        queue.hand_overs = member_->all().hand_overs();
        status = states_.bring(*queue.chain, queue.hand_overs, slot.stream);
    }
    write_input(slot);
    slot.laid_out = rte_rdtsc();
    slot.is_put.store(false, std::memory_order_relaxed);
    if (status == Status::ok) {
        if (lane_) {
            lane_->put(&slot);
            return true;
        }
        put(slot);
        count_bytes(slot);
        status = slot.put_status;
    }
    if (status != Status::ok) fail_over(status);
    return true;
}

/// Tells the device all of a batch. By the worker, or by the thread that makes the calls of all workers.
void OffloadEngine::put(Slot& slot) {
    slot.calls_from = rte_rdtsc();
    slot.put_status = slot.chain->resident != nullptr ? put_on_list(slot) : put_on_stream(slot);
    if (options_.track != nullptr) slot.put_until_ns = Timeline::now_ns();
    slot.told = rte_rdtsc();
    slot.is_put.store(true, std::memory_order_release);
}

/// All calls that a batch takes.
Status OffloadEngine::put_on_stream(Slot& slot) {
    if (options_.graphs) device_->hold(slot.stream);
    std::unique_lock<std::mutex> in_order;
    Status status = send(slot);
    if (status == Status::ok) status = run_steps(slot, in_order);
    if (status == Status::ok) status = fetch(slot);
    return status == Status::ok ? device_->submit(slot.stream) : status;
}

/// Runs some of a chain's waiting packets on the CPU, if that is where chains are; whether it did.
bool OffloadEngine::run_here(ChainQueue& queue) {
    const size_t packets = member_ ? cpu_.run_some(queue, *member_) : 0;
    in_flight_ -= packets;
    return packets > 0;
}

/// Takes in the oldest batch if it is back; whether it was.
bool OffloadEngine::finish_front() {
    if (flying_.empty() || failed_) return false;
    Slot& slot = *flying_.front();
    if (!slot.is_put.load(std::memory_order_acquire)) {
        if (too_late(slot.launched)) fail_over(Status::lost);
        return false;
    }
    if (slot.put_status != Status::ok) {
        fail_over(slot.put_status);
        return false;
    }
    const bool on_list = slot.chain->resident != nullptr && !slot.fetching_rest;
    Status status = on_list ? slot.chain->resident->query(slot.number) : device_->query(slot.done);
    if (status == Status::pending) {
        // What it waits for may never come when another device has failed.
        const bool hopeless = slot.order != 0 && states_.broken();
        if (hopeless || too_late(slot.launched)) fail_over(Status::lost);
        return false;
    }
    const bool has_rest = slot.way_back == TransferOut::selective;
    if (status == Status::ok && !slot.fetching_rest &&
        (has_rest || slot.stored_events() > kEagerEvents || slot.left_count() > 0)) {
        slot.fetching_rest = true;
        status = fetch_rest(slot);
        if (status == Status::ok) return false;
    }
    if (status == Status::ok && !states_.restore(*slot.chain, slot.back(slot.piece.snapshot_at), slot.order_had()))
        status = Status::lost;
    if (status != Status::ok) {
        fail_over(status);
        return false;
    }
    complete(slot);
    return true;
}

/// The device is gone. Its batches in flight run again on the CPU, in order, from the host's buffers
/// and from the state that the last finished batch left; then those that wait.
void OffloadEngine::fail_over(Status status) {
    if (failed_) return;
    failed_ = true;
    const bool by_another = states_.break_off();
    if (lane_) lane_->wait();
    stop_residents();
    spdlog::error("{}: {}; its chains go on on the CPU, {} packets are run again", device_->describe(),
                  by_another               ? "this device, or one that its state comes from, has failed"
                  : status == Status::lost ? "the device is lost"
                                           : "a copy, a kernel or an allocation has failed",
                  in_flight_);
    const std::deque<Slot*> flying = std::move(flying_);
    flying_.clear();
    if (member_) {
        member_->end_batches(flying.size());
        member_->rest();
    }
    for (Slot* slot : flying) {
        cpu_.run(slot->chain->program, *slot->chain->counters, slot->mbufs);
        for (const io::FrameRun& run : slot->frame_runs) cpu_.run(slot->chain->program, *slot->chain->counters, run);
    }
    for (const auto& queue : queues_) cpu_.run_all(*queue);
    in_flight_ = 0;
}

}  // namespace millrace::exec
