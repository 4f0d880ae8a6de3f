#include "millrace/exec/egress/send_queues.hpp"

#include <rte_cycles.h>

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"

namespace millrace::exec {
namespace {

constexpr size_t kMaxOffered = 512;  // packets at once

uint64_t bytes_of(std::span<rte_mbuf* const> mbufs) {
    uint64_t bytes = 0;
    for (const rte_mbuf* mbuf : mbufs) bytes += mbuf->data_len;
    return bytes;
}

}  // namespace

SendQueues::SendQueues(const std::vector<std::unique_ptr<io::Port>>& ports,
                       const std::vector<std::unique_ptr<SpinLock>>& locks, unsigned worker, size_t burst)
    : ports_(ports), locks_(locks), worker_(worker), burst_(burst), queues_(ports.size()) {}

SendQueues::~SendQueues() {
    for (Queue& queue : queues_) queue.drop();
}

void SendQueues::reserve(size_t packets) {
    for (Queue& queue : queues_) {
        queue.mbufs.reserve(packets);
        queue.runs.reserve(packets);
    }
}

void SendQueues::add(uint16_t port, std::span<rte_mbuf* const> mbufs, ChainCounters* sender) {
    Queue& queue = queues_[port];
    queue.mbufs.insert(queue.mbufs.end(), mbufs.begin(), mbufs.end());
    if (!queue.runs.empty() && queue.runs.back().sender == sender) queue.runs.back().count += mbufs.size();
    else queue.runs.push_back({sender, mbufs.size()});
}

void SendQueues::send_full() {
    const auto ports = static_cast<uint16_t>(queues_.size());
    for (uint16_t port = 0; port < ports; ++port)
        if (queues_[port].mbufs.size() >= burst_) send(port);
}

void SendQueues::send_all() {
    unsent_ = 0;
    const auto ports = static_cast<uint16_t>(queues_.size());
    for (uint16_t port = 0; port < ports; ++port) {
        if (queues_[port].mbufs.empty()) continue;
        send(port);
        unsent_ = std::max(unsent_, queues_[port].mbufs.size());
    }
}

size_t SendQueues::send_frames(uint16_t port_index, const io::ReceiveBlock& block,
                               std::span<const io::FramePieces> frames) {
    Queue& queue = queues_[port_index];
    if (!queue.mbufs.empty()) send(port_index);  // those came first
    if (!queue.mbufs.empty()) return 0;
    io::Port& port = *ports_[port_index];
    const std::unique_lock<SpinLock> shared_queue = lock(port_index);
    size_t all = 0;
    while (all < frames.size()) {
        const size_t sent = port.send_frames(send_queue(port), block, frames.subspan(all));
        if (sent == 0) break;
        all += sent;
        queue.stuck_since = 0;
    }
    return all;
}

bool SendQueues::gives_up(uint16_t port_index) {
    const io::Port& port = *ports_[port_index];
    if (!port.can_send()) return true;
    Queue& queue = queues_[port_index];
    const uint64_t now = rte_rdtsc();
    if (queue.stuck_since == 0) queue.stuck_since = now;
    return to_nanoseconds(now - queue.stuck_since) > static_cast<uint64_t>(port.send_patience().count());
}

void SendQueues::Queue::remove(size_t count) {
    mbufs.erase(mbufs.begin(), mbufs.begin() + static_cast<ptrdiff_t>(count));
    size_t whole = 0;
    for (; count > 0 && runs[whole].count <= count; ++whole) count -= runs[whole].count;
    if (count > 0) runs[whole].count -= count;
    runs.erase(runs.begin(), runs.begin() + static_cast<ptrdiff_t>(whole));
}

void SendQueues::Queue::drop() {
    for (const Run& run : runs)
        if (run.sender != nullptr) run.sender->exit_drops[static_cast<size_t>(ExitDrop::transmit_full)].add(run.count);
    if (!mbufs.empty()) rte_pktmbuf_free_bulk(mbufs.data(), static_cast<unsigned>(mbufs.size()));
    mbufs.clear();
    runs.clear();
}

/// Offers a port what waits for it until it takes no more.
void SendQueues::send(uint16_t port_index) {
    Queue& queue = queues_[port_index];
    io::Port& port = *ports_[port_index];
    size_t taken = 0;
    {
        const std::unique_lock<SpinLock> shared_queue = lock(port_index);
        for (const Queue::Run& run : queue.runs) {
            const size_t of_run = offer(port, std::span(queue.mbufs).subspan(taken, run.count), run.sender);
            taken += of_run;
            if (of_run < run.count) break;
        }
    }
    if (taken == queue.mbufs.size()) {
        queue.mbufs.clear();
        queue.runs.clear();
        queue.stuck_since = 0;
    } else if (taken > 0) {
        queue.remove(taken);
        queue.stuck_since = 0;
    } else if (gives_up(port_index)) {
        queue.drop();
    }
}

/// How many of them the port takes.
size_t SendQueues::offer(io::Port& port, std::span<rte_mbuf* const> mbufs, ChainCounters* sender) const {
    if (!port.can_send()) return 0;
    const uint16_t queue = send_queue(port);
    size_t all = 0;
    while (all < mbufs.size()) {
        // The port owns what it takes, so bytes are counted before.
        const auto asked = mbufs.subspan(all, std::min(mbufs.size() - all, kMaxOffered));
        const uint64_t bytes = bytes_of(asked);
        const uint16_t taken = port.send(queue, const_cast<rte_mbuf**>(asked.data()),
                                         static_cast<uint16_t>(asked.size()));
        if (taken == 0) break;
        if (sender != nullptr) {
            sender->sent_packets.add(taken);
            sender->sent_bytes.add(bytes - bytes_of(asked.subspan(taken)));
        }
        all += taken;
    }
    return all;
}

/// Of a port's queue, where workers share it.
std::unique_lock<SpinLock> SendQueues::lock(uint16_t port) const {
    return locks_[port] != nullptr ? std::unique_lock(*locks_[port]) : std::unique_lock<SpinLock>();
}

uint16_t SendQueues::send_queue(const io::Port& port) const {
    return static_cast<uint16_t>(port.info().send_queues == 0 ? 0 : worker_ % port.info().send_queues);
}

}  // namespace millrace::exec
