#include "millrace/exec/offload/chains/chain_loader.hpp"

#include <algorithm>

namespace millrace::exec {

void ChainLoader::load(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                       ChainQueue& queue) {
    queue.chain = std::make_shared<const LoadedChain>(program, counters, device_, *gate_, options_);
    const bool persistent = options_.mode == device::Mode::persistent;
    queue.policy = {.most_packets = std::min(program->max_batch, max_packets_),
                    .max_delay_ns = static_cast<uint64_t>(program->max_delay.count()),
                    .depth = options_.depth,
                    .idle_below = persistent ? std::min<size_t>(options_.depth, device::kMaxTeams) : 1};
    queue.returns = 0;
    cpu_.prepare(program);
    states_.expect(*queue.chain);
}

}  // namespace millrace::exec
