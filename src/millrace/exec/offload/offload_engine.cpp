#include "millrace/exec/offload/offload_engine.hpp"

#include <rte_cycles.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "millrace/exec/offload/batch_input.hpp"

namespace millrace::exec {

using device::Status;

namespace {
/// A region counts its packets in 16 bits.
constexpr uint32_t kMaxPackets = 65535;
}  // namespace

OffloadEngine::OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch,
                             OffloadOptions options)
    : device_(std::move(device)), options_(options),
      gate_(options_.gate != nullptr ? options_.gate : device_->order_gate()),
      states_(device_, gate_, options_.patience), timeline_(options_.track, device_),
      submission_(device_, gate_, timeline_, options_), max_batch_(std::min(max_batch, kMaxPackets)),
      batches_(device_, options_, max_batch_, delivery.wants_visits()), cpu_(delivery, options_.frames, options_),
      completion_(device_, delivery, options_.frames, cpu_, timeline_, max_batch_) {
    if (options_.placement != nullptr) member_.emplace(options_.placement);
    // A kernel that stays is told through memory.
    if (options_.call_thread != nullptr && options_.mode != device::Mode::persistent)
        lane_.emplace(options_.call_thread,
                      [&submission = submission_](void* batch) { submission.put(*static_cast<Batch*>(batch)); });
}

OffloadEngine::~OffloadEngine() {
    drain();
    lane_.reset();
    queues_.clear();
}

std::string OffloadEngine::describe() const {
    return failed_ ? "cpu, taken over from a failed device (" + device_->describe() + ")" : device_->describe();
}

ChainQueue& OffloadEngine::queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                                     bool of_blocks) {
    const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const auto& own) {
        return own->of_blocks() == of_blocks && own->chain->program->name == program->name;
    });
    if (found != queues_.end() && (*found)->chain->program == program) return **found;
    const bool fresh = found == queues_.end();
    if (fresh) queues_.push_back(std::make_unique<ChainQueue>(of_blocks, options_.most_waiting));
    ChainQueue& queue = fresh ? *queues_.back() : **found;
    // A new generation of the chain: what waits belongs to the old one and goes first.
    while (queue.waiting() > 0 && !failed_) push_on(queue);
    try {
        if (!failed_) prepare(queue, program, counters);
    } catch (const device::DeviceError& e) {
        spdlog::error("chain '{}': {}", program->name, e.what());
        // The device still works: its batches may come back.
        while (!batches_.in_flight().empty() && !failed_) finish_front();
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
                                      ? std::min<size_t>(options_.depth, device::kMaxTeams)
                                      : 1};
    cpu_.prepare(program);
    {
        const std::lock_guard lock(gate_->mutex);
        for (const device::StateArray& state : queue.chain->loaded->states())
            gate_->restored[state.host].try_emplace(state.bytes, 0);
    }
    if (batches_.fits(queue.chain->needs)) return;
    while (!batches_.in_flight().empty() && !failed_) finish_front();
    if (!failed_) batches_.fit(queue.chain->needs);
}

void OffloadEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                           rte_mbuf* const* mbufs, size_t count) {
    ChainQueue* const queue = failed_ ? nullptr : &queue_for(program, counters, false);
    if (failed_) return cpu_.submit(program, counters, mbufs, count);
    if (count == 0) return;
    uint64_t bytes = 0;
    queue->expect(count);
    for (size_t i = 0; i < count; ++i) {
        bytes += mbufs[i]->data_len;
        queue->add(mbufs[i]);
    }
    counters.received_packets.add(count);
    counters.received_bytes.add(bytes);
    queue->arrived(rte_rdtsc(), count);
    queue->more = count >= options_.full_burst;
    if (member_) member_->on_receive(count);
    in_flight_ += count;
}

void OffloadEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                           const io::ReceiveBlock& block) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < block.count; ++i) bytes += block.spots[i].length;
    counters.received_packets.add(block.count);
    counters.received_bytes.add(bytes);
    ChainQueue* const queue = failed_ ? nullptr : &queue_for(program, counters, true);
    if (block.count == 0) return;
    // A port's frames are given back in the order in which they came, whatever chain they went through. They go through
    // one, but for a change of configuration.
    for (const auto& other : queues_)
        while (other.get() != queue && other->of_blocks() && !failed_ && other->has_block_of(block.port))
            push_on(*other);
    if (failed_) return cpu_.run(program, counters, block);
    queue->add(block);
    queue->arrived(rte_rdtsc(), block.count);
    queue->more = block.count >= kMaxBlockFrames;
    if (member_) member_->on_receive(block.count);
    in_flight_ += block.count;
}

bool OffloadEngine::batch_is_due(const ChainQueue& queue, uint64_t now) const {
    if (queue.waiting() == 0 || batches_.idle() == 0) return false;
    BatchPolicy::Load load;
    load.waiting = queue.waiting();
    load.waited_ns = to_nanoseconds(now - queue.oldest());
    load.more = queue.more;
    load.free_batches = batches_.idle();
    load.in_flight = batches_.in_flight().size();
    load.packets = in_flight_;
    load.since_start = batches_.in_flight().empty() ? 0 : now - batches_.in_flight().back()->launched;
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
    if (member_ && !failed_) member_->update(now);
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
    if (member_) member_->detach();
}

/// Moves packets that wait on by whatever way is open, without waiting for more of them.
void OffloadEngine::push_on(ChainQueue& queue) {
    if (member_) member_->update(rte_rdtsc());
    if (!run_here(queue) && !start_batch(queue)) finish_front();
}

bool OffloadEngine::start_batch(ChainQueue& queue) {
    if (batches_.idle() == 0 || (member_ && !member_->begin_batch())) return false;
    const uint64_t put_from_ns = timeline_.now_ns(), begun = rte_rdtsc();
    Batch& batch = batches_.next();
    batch.begun = begun;
    batch.bytes_in = batch.bytes_back = 0;
    batch.chain = queue.chain;
    lay_out(queue, options_, batch);
    if (!batches_.begin()) {
        if (member_) member_->end_batches(1);
        batch.chain = nullptr;
        return false;
    }
    batch.order = 0;
    batch.launched = rte_rdtsc();
    timeline_.begin(queue, batch, put_from_ns);
    queue.take(batch.frames.count, batch.bursts);
    Status status = Status::ok;
    if (member_ && queue.hand_overs != member_->all().hand_overs()) {
        queue.hand_overs = member_->all().hand_overs();
        status = states_.bring(*queue.chain, queue.hand_overs, batch.stream);
    }
    write_input(batch);
    batch.laid_out = rte_rdtsc();
    batch.state.store(Batch::State::laid_out, std::memory_order_relaxed);
    if (status == Status::ok) {
        if (lane_) {
            lane_->put(&batch);
            return true;
        }
        submission_.put(batch);
        batch.count_bytes();
        status = batch.put_status;
    }
    if (status != Status::ok) fail_over(status);
    return true;
}

/// Runs some of a chain's waiting packets on the CPU, if that is where chains are; whether it did.
bool OffloadEngine::run_here(ChainQueue& queue) {
    const size_t packets = member_ ? cpu_.run_some(queue, *member_) : 0;
    in_flight_ -= packets;
    return packets > 0;
}

/// Takes in the oldest batch if it is back; whether it was.
bool OffloadEngine::finish_front() {
    if (batches_.in_flight().empty() || failed_) return false;
    Batch& batch = *batches_.in_flight().front();
    if (batch.state.load(std::memory_order_acquire) != Batch::State::back && !comes_back(batch)) return false;
    // The batch waits for room for its events, so that the worker need not.
    if (options_.events != nullptr &&
        options_.events->room() < std::min<size_t>(batch.stored_events(), EventLine::kPlaces))
        return false;
    if (!states_.restore(*batch.chain, batch.back(batch.piece.snapshot_at), batch.order_had())) {
        fail_over(Status::lost);
        return false;
    }
    take_in(batch);
    return true;
}

/// Looks whether the oldest batch is back, all of it.
bool OffloadEngine::comes_back(Batch& batch) {
    const Batch::State state = batch.state.load(std::memory_order_acquire);
    if (state == Batch::State::laid_out) {
        if (too_late(batch.launched)) fail_over(Status::lost);
        return false;
    }
    if (batch.put_status != Status::ok) {
        fail_over(batch.put_status);
        return false;
    }
    const bool on_list = batch.chain->resident != nullptr && state != Batch::State::rest;
    Status status = on_list ? batch.chain->resident->query(batch.number) : device_->query(batch.done);
    if (status == Status::pending) {
        // What it waits for may never come when another device has failed.
        const bool hopeless = batch.order != 0 && states_.broken();
        if (hopeless || too_late(batch.launched)) fail_over(Status::lost);
        return false;
    }
    const bool has_rest = batch.way_back == TransferOut::selective;
    if (status == Status::ok && state != Batch::State::rest &&
        (has_rest || batch.stored_events() > kEagerEvents || batch.left_count() > 0)) {
        batch.state.store(Batch::State::rest, std::memory_order_relaxed);
        status = completion_.fetch_rest(batch);
        if (status == Status::ok) return false;
    }
    if (status != Status::ok) {
        fail_over(status);
        return false;
    }
    batch.state.store(Batch::State::back, std::memory_order_relaxed);
    return true;
}

/// The oldest batch is back, all of it.
void OffloadEngine::take_in(Batch& batch) {
    const uint64_t back = rte_rdtsc();
    batches_.retire();
    constexpr uint64_t kSmooth = 8;
    away_ += (back - batch.launched) / kSmooth - away_ / kSmooth;
    completion_.deliver(batch, back);
    in_flight_ -= batch.frames.count;
    if (member_) member_->end_batches(1);
    batches_.end(batch);
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
    const std::vector<Batch*> in_flight = batches_.abandon();
    if (member_) {
        member_->end_batches(in_flight.size());
        member_->detach();
    }
    for (Batch* batch : in_flight) {
        cpu_.run(batch->chain->program, *batch->chain->counters, batch->mbufs);
        for (const io::ReceiveBlock& block : batch->receive_blocks)
            cpu_.run(batch->chain->program, *batch->chain->counters, block);
    }
    for (const auto& queue : queues_) cpu_.run_all(*queue);
    in_flight_ = 0;
}

/// Lets all kernels end, whatever they are at.
void OffloadEngine::stop_residents() {
    for (const auto& queue : queues_)
        if (queue->chain != nullptr && queue->chain->resident != nullptr) queue->chain->resident->stop();
    batches_.stop_residents();
}

}  // namespace millrace::exec
