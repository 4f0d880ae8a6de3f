// How a worker has packets of a control plane wait (control_gate.hpp).
#include <rte_cycles.h>

#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"

namespace millrace::exec {

void Worker::follow_control() {
    std::vector<bool> taps;
    for (const auto& port : runtime_.ports_) taps.push_back(port->info().kind == "tap");
    gate_.follow(*configuration_, taps);
}

/// Whether no worker has an older generation than this one.
bool Worker::all_at_work() const {
    return runtime_.at_work_.load(std::memory_order_acquire) >= configuration_->generation;
}

size_t Worker::receive_by_gate(io::Port& port) {
    if (gate_.is_full(port.index())) return 0;
    const uint64_t from = rte_rdtsc();
    const auto most = static_cast<uint16_t>(burst_.size());
    const uint16_t count = port.receive(static_cast<uint16_t>(index_), burst_.data(), most);
    if (count == 0) return 0;
    end_rest();
    const uint16_t going = gate_.keep(port.index(), {burst_.data(), count}, all_at_work());
    // As in receive_all: what an engine does that runs chains at once is the network functions' time.
    const bool at_once = engine_->runs_at_once();
    if (at_once) receive_cycles_.add(rte_rdtsc() - from);
    if (going > 0) classify(port.index(), burst_.data(), going);
    if (!at_once) receive_cycles_.add(rte_rdtsc() - from);
    return count;
}

void Worker::open_gate() {
    const bool stopping = runtime_.stopping_.load(std::memory_order_relaxed);
    if (!stopping && !gate_.opens(all_at_work(), ControlGate::Clock::now())) return;
    gate_.open([this](uint16_t port, std::span<rte_mbuf*> mbufs) {
        classify(port, mbufs.data(), static_cast<uint16_t>(mbufs.size()));
    });
}

}  // namespace millrace::exec
