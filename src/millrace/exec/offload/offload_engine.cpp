#include "millrace/exec/offload/offload_engine.hpp"

#include <rte_cycles.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace millrace::exec {

namespace {
/// A result buffer counts its packets in 16 bits.
constexpr uint32_t kMaxPackets = 65535;
}  // namespace

OffloadEngine::OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch,
                             OffloadOptions options)
    : device_(std::move(device)), options_(std::move(options)),
      member_(options_.placement != nullptr ? std::make_unique<Placement::Member>(options_.placement) : nullptr),
      cpu_(delivery, options_.frames, options_),
      device_path_(device_, delivery, queues_, cpu_, member_.get(), std::min(max_batch, kMaxPackets), options_),
      queues_(options_.most_waiting) {}

std::string OffloadEngine::describe() const {
    return failed_over() ? "cpu, taken over from a failed device (" + device_->describe() + ")" : device_->describe();
}

/// Null once the device is gone.
ChainQueue* OffloadEngine::queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                                     bool of_blocks) {
    if (failed_over()) return nullptr;
    if (ChainQueue* const found = queues_.find(program.get(), of_blocks); found != nullptr) return found;
    // A new generation of the chain: what waits belongs to the old one and goes first.
    ChainQueue& queue = queues_.named(program->name, of_blocks);
    while (queue.waiting() > 0 && !failed_over()) push_on(queue);
    if (!failed_over()) device_path_.load(program, counters, queue);
    return failed_over() ? nullptr : &queue;
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
    while (!failed_over()) {
        ChainQueue* const other = queues_.with_run_of(block.port, queue);
        if (other == nullptr) break;
        push_on(*other);
    }
    if (failed_over()) return cpu_.run(program, counters, block);
    queue->add(block);
    received(*queue, block.count, block.count >= kMaxBlockFrames);
}

/// Packets that are in the queue now. `more`: there are more of them to be received.
void OffloadEngine::received(ChainQueue& queue, size_t packets, bool more) {
    queue.arrived(rte_rdtsc(), packets);
    queue.more = more;
    if (member_) member_->on_receive(packets);
    device_path_.received(packets);
}

void OffloadEngine::poll() {
    if (failed_over()) return;
    while (device_path_.finish_front()) {
    }
    const uint64_t now = rte_rdtsc();
    if (member_ && !failed_over()) member_->update(now);
    for (size_t i = 0; i < queues_.size() && !failed_over(); ++i) {
        ChainQueue& queue = queues_[i];
        while (run_here(queue)) {
        }
        device_path_.launch_due(queue, now);
        queue.more = false;
    }
}

void OffloadEngine::drain() {
    while (in_flight() > 0 && !failed_over()) {
        for (size_t i = 0; i < queues_.size(); ++i)
            if (queues_[i].waiting() > 0) push_on(queues_[i]);
        // Devices that have threads of this machine at work for them may want the core.
        if (!device_path_.finish_front()) std::this_thread::yield();
    }
    if (member_) member_->detach();
}

size_t OffloadEngine::in_flight_of(const chain::Program& program) const {
    size_t packets = device_path_.in_batches_of(program);
    for (size_t i = 0; i < queues_.size(); ++i)
        if (queues_[i].chain != nullptr && queues_[i].chain->program->name == program.name)
            packets += queues_[i].waiting();
    return packets;
}

/// Moves packets that wait on by whatever way is open, without waiting for more of them.
void OffloadEngine::push_on(ChainQueue& queue) {
    if (member_) member_->update(rte_rdtsc());
    if (!run_here(queue) && !device_path_.launch(queue)) device_path_.finish_front();
}

/// Runs some of a chain's waiting packets on the CPU, if that is where chains are; whether it did.
bool OffloadEngine::run_here(ChainQueue& queue) {
    return member_ && device_path_.run_on_cpu(queue, cpu_, *member_) > 0;
}

}  // namespace millrace::exec
