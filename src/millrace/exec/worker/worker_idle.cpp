// What a worker does when there is nothing to do.
#include <rte_pause.h>

#include <thread>

#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"

namespace millrace::exec {

/// Nothing came: as long as nothing is on its way either, nobody has to wait for this worker, which may not run for a
/// while where there are more threads than cores.
void Worker::begin_rest() {
    if (rests_ || in_flight() > 0 || egress_.queues().unsent() > 0 || fragments_held() > 0 || runtime_.options_.master)
        return;
    rests_ = true;
    at_rest_.store(true, std::memory_order_release);
}

/// Packets have come, and no chain has been chosen for them. Whoever has seen this worker at rest has stored the
/// generation before that, which is seen here then: both sides store, and then load what the other has stored. One that
/// has other chains waits for every worker.
void Worker::end_rest() {
    if (!rests_) return;
    rests_ = false;
    at_rest_.store(false, std::memory_order_seq_cst);
    if (runtime_.generation_.load(std::memory_order_seq_cst) == configuration_->generation) return;
    if (runtime_.other_chains_since_.load(std::memory_order_seq_cst) > configuration_->generation) return;
    take_generation();
}

/// Whether an iteration has left something for the next.
bool Worker::has_work() const {
    return in_flight() > 0 || egress_.queues().unsent() > 0 || fragments_held() > 0 ||
           (index_ == 0 && !runtime_.injections_.empty()) ||
           runtime_.generation_.load(std::memory_order_acquire) != configuration_->generation;
}

/// After an iteration without packets.
void Worker::wait() {
    const bool polls = configuration_->idle == chain::Idle::poll || runtime_.options_.master.has_value();
    if (has_work()) sleeper_.busy();
    else if (!polls && sleeper_.is_tired() && engine_->may_sleep() && !events_.crowded()) return sleep();
    // A tenant's process may have to have this core.
    if (tenants_ != nullptr && tenants_->in_flight() > 0) std::this_thread::yield();
    rte_pause();
}

void Worker::sleep() {
    io::WakeUps& wake_ups = sleeper_.begin();
    for (const auto& port : runtime_.ports_)
        if (receives_of(*port)) port->begin_sleep(static_cast<uint16_t>(index_), wake_ups);
    // What came before this wakes nobody.
    if (iterate() > 0 || has_work()) sleeper_.busy();
    else if (!runtime_.stopping_.load(std::memory_order_acquire) && !inputs_exhausted()) sleeper_.sleep();
    for (const auto& port : runtime_.ports_)
        if (receives_of(*port)) port->end_sleep(static_cast<uint16_t>(index_));
    sleeper_.end();
}

}  // namespace millrace::exec
