#include "millrace/exec/offload/offload_engine.hpp"

#include <rte_cycles.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace millrace::exec {

using device::Status;

namespace {
/// A result buffer counts its packets in 16 bits.
constexpr uint32_t kMaxPackets = 65535;
}  // namespace

OffloadEngine::OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch,
                             OffloadOptions options)
    : device_(std::move(device)), options_(std::move(options)), max_batch_(std::min(max_batch, kMaxPackets)),
      gate_(options_.gate != nullptr ? options_.gate : device_->order_gate()),
      member_(options_.placement != nullptr ? std::make_unique<Placement::Member>(options_.placement) : nullptr),
      states_(device_, gate_, options_.patience), timeline_(options_.track, device_),
      batches_(device_, options_, max_batch_, delivery.wants_visits()), cpu_(delivery, options_.frames, options_),
      queues_(options_.most_waiting), loader_(device_, gate_, states_, cpu_, options_, max_batch_),
      launcher_(device_, gate_, batches_, states_, timeline_, member_.get(), options_),
      arrivals_(device_, states_, timeline_, options_.events, options_.patience),
      completion_(delivery, options_.frames, cpu_, timeline_, max_batch_),
      fail_over_(device_, states_, launcher_, batches_, queues_, cpu_, member_.get()) {}

std::string OffloadEngine::describe() const {
    return failed_ ? "cpu, taken over from a failed device (" + device_->describe() + ")" : device_->describe();
}

/// Null once the device is gone.
ChainQueue* OffloadEngine::queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                                     bool of_blocks) {
    if (failed_) return nullptr;
    if (ChainQueue* const found = queues_.find(program.get(), of_blocks); found != nullptr) return found;
    // A new generation of the chain: what waits belongs to the old one and goes first.
    ChainQueue& queue = queues_.named(program->name, of_blocks);
    while (queue.waiting() > 0 && !failed_) push_on(queue);
    if (!failed_) load(program, counters, queue);
    return failed_ ? nullptr : &queue;
}

/// Loads a chain, and sees to it that the packet ring has room for what its batches need.
void OffloadEngine::load(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                         ChainQueue& queue) {
    try {
        completion_.keep_room(*program);
        loader_.load(program, counters, queue);
        if (batches_.fits(queue.chain->needs)) return;
        finish_all();
        if (!failed_) batches_.fit(queue.chain->needs);
    } catch (const device::DeviceError& e) {
        spdlog::error("chain '{}': {}", program->name, e.what());
        finish_all();  // the device still works: its batches may come back
        fail_over(Status::failed);
    }
}

void OffloadEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                           rte_mbuf* const* mbufs, size_t count) {
    submit(program, counters, mbufs, count, {});
}

void OffloadEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                           rte_mbuf* const* mbufs, size_t count, const io::BurstNotes& notes) {
    ChainQueue* const queue = queue_for(program, counters, false);
    if (queue == nullptr) {
        for (size_t i = 0; i < count && !notes.written; ++i)
            io::set_packet_metadata(mbufs[i], notes.timestamp_ns(i), notes.number(i));
        return cpu_.submit(program, counters, mbufs, count);
    }
    if (count == 0) return;
    const uint64_t bytes = queue->add({mbufs, count}, notes);
    counters.received_packets.add(count);
    counters.received_bytes.add(bytes);
    received(*queue, count, count >= options_.full_burst);
}

void OffloadEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                           const io::ReceiveBlock& block) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < block.count; ++i) bytes += block.spots[i].length;
    counters.received_packets.add(block.count);
    counters.received_bytes.add(bytes);
    ChainQueue* const queue = queue_for(program, counters, true);
    if (block.count == 0) return;
    // A port's frames are given back in the order in which they came, whatever chain they went through. They go through
    // one, but for a change of configuration.
    while (!failed_) {
        ChainQueue* const other = queues_.with_run_of(block.port, queue);
        if (other == nullptr) break;
        push_on(*other);
    }
    if (failed_) return cpu_.run(program, counters, block);
    queue->add(block);
    received(*queue, block.count, block.count >= kMaxBlockFrames);
}

/// Packets that are in the queue now. `more`: there are more of them to be received.
void OffloadEngine::received(ChainQueue& queue, size_t packets, bool more) {
    queue.arrived(rte_rdtsc(), packets);
    queue.more = more;
    if (member_) member_->on_receive(packets);
    in_flight_ += packets;
}

void OffloadEngine::poll() {
    if (failed_) return;
    while (finish_front()) {
    }
    const uint64_t now = rte_rdtsc();
    if (member_ && !failed_) member_->update(now);
    for (size_t i = 0; i < queues_.size() && !failed_; ++i) {
        ChainQueue& queue = queues_[i];
        while (run_here(queue)) {
        }
        while (!failed_ && launcher_.is_due(queue, now, in_flight_, arrivals_.round_trip()) && launch(queue)) {
        }
        queue.more = false;
    }
}

void OffloadEngine::drain() {
    while (in_flight_ > 0 && !failed_) {
        for (size_t i = 0; i < queues_.size(); ++i)
            if (queues_[i].waiting() > 0) push_on(queues_[i]);
        finish_front();
    }
    if (member_) member_->detach();
}

/// Moves packets that wait on by whatever way is open, without waiting for more of them.
void OffloadEngine::push_on(ChainQueue& queue) {
    if (member_) member_->update(rte_rdtsc());
    if (!run_here(queue) && !launch(queue)) finish_front();
}

/// Launches a batch, if there is room for one; whether there was.
bool OffloadEngine::launch(ChainQueue& queue) {
    const std::optional<Status> status = launcher_.launch(queue);
    if (status && *status != Status::ok) fail_over(*status);
    return status.has_value();
}

/// Runs some of a chain's waiting packets on the CPU, if that is where chains are; whether it did.
bool OffloadEngine::run_here(ChainQueue& queue) {
    const bool may = member_ && batches_.idle() > 0;
    const size_t packets = may ? cpu_.run_some(queue, *member_, states_, batches_.next().stream()) : 0;
    in_flight_ -= packets;
    return packets > 0;
}

/// Takes in the oldest batch if it is back; whether it was.
bool OffloadEngine::finish_front() {
    if (batches_.in_flight().empty() || failed_) return false;
    Batch& batch = *batches_.in_flight().front();
    const Status status = arrivals_.poll(batch);
    if (status == Status::pending) return false;
    if (status != Status::ok) {
        fail_over(status);
        return false;
    }
    batches_.retire();
    completion_.deliver(batch, rte_rdtsc());
    in_flight_ -= batch.input().frames.count;
    if (member_) member_->end_batches(1);
    batches_.end(batch);
    return true;
}

void OffloadEngine::finish_all() {
    while (!batches_.in_flight().empty() && !failed_) finish_front();
}

/// The device is gone.
void OffloadEngine::fail_over(Status status) {
    if (failed_.exchange(true)) return;
    fail_over_.run(status, in_flight_);
    in_flight_ = 0;
}

}  // namespace millrace::exec
