#include "millrace/exec/offload/batch/batch_policy.hpp"

#include <algorithm>

namespace millrace::exec {

bool BatchPolicy::is_due(const Load& load) const {
    if (load.waiting == 0 || load.free_batches == 0 || load.of_chain >= depth) return false;
    const bool full = load.waiting >= most_packets;
    // Who makes the calls has not come to the last one yet, or to another worker's: the next takes what comes
    // meanwhile, instead of growing old in line. Others may be quicker each time the line gets free, so that it only
    // waits for so long.
    if (!full && (load.line == Line::own || (load.line == Line::others && load.waited_ns < 2 * max_delay_ns)))
        return false;
    // While the worker makes these calls packets wait to be received, however soon it began: it gets more done by
    // larger batches.
    if (!full && load.more && load.calls_ns > max_delay_ns &&
        load.waited_ns < std::min(kTimesCalls * load.calls_ns, kMaxDelays * max_delay_ns))
        return false;
    if (load.in_flight < idle_below && (!load.more || load.waiting >= kWorthIt)) return true;
    if (full) return true;
    if (load.in_flight > 0 && load.round_trip != 0 && load.packets <= kFew &&
        load.since_start >= load.round_trip / depth)
        return true;
    return load.waited_ns >= max_delay_ns;
}

}  // namespace millrace::exec
