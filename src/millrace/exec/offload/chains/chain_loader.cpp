#include "millrace/exec/offload/chains/chain_loader.hpp"

#include <algorithm>

namespace millrace::exec {

namespace {

/// Batches in flight of a chain, all workers' together, that change state per key one after the other. More wait for
/// each other alone, and what they wait with takes the room of what is at work in a GPU's cache.
constexpr size_t kKeyedInFlight = 12;

/// Those of one worker.
size_t most_in_flight(const chain::Program& program, const OffloadOptions& options) {
    if (!program.keyed()) return options.depth;
    return std::min<size_t>(options.depth, (kKeyedInFlight + options.workers - 1) / options.workers);
}

}  // namespace

void ChainLoader::load(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                       ChainQueue& queue) {
    queue.chain = std::make_shared<const LoadedChain>(program, counters, device_, *gate_, options_);
    const bool by_teams = options_.mode == device::Mode::persistent && !program->keyed();
    queue.policy = {.most_packets = std::min(program->max_batch, max_packets_),
                    .max_delay_ns = static_cast<uint64_t>(program->max_delay.count()),
                    .depth = most_in_flight(*program, options_),
                    .idle_below = by_teams ? std::min<size_t>(options_.depth, device::kMaxTeams) : 1};
    queue.returns = 0;
    cpu_.prepare(program);
    states_.expect(*queue.chain);
}

}  // namespace millrace::exec
