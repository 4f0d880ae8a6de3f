// How a worker goes over to the chains of a new generation.
#include "millrace/chain/classification/classified.hpp"
#include "millrace/chain/frames/uncut_frames.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"

namespace millrace::exec {

/// Between two bursts: from here on packets go through the new generation. What is in flight finishes
/// in the old one, whose programs it holds.
void Worker::take_generation() {
    {
        const std::lock_guard lock(runtime_.mutex_);
        configuration_ = runtime_.configuration_;
    }
    chain_counters_.clear();
    for (const auto& program : configuration_->chains) chain_counters_.push_back(&counters_for(*program));
    // A core classifies as it receives: its packets are in the cache.
    classified_counters_ = configuration_->classified != nullptr && !runtime_.devices_.empty()
                               ? &counters_for_classified(*configuration_->classified)
                               : nullptr;
    keep_room();
    keep_reassemblers();
    ask_for_uncut();
    follow_control();
    undivided_.assign(configuration_->chains.size(), nullptr);
    if (engine_ != nullptr) {
        make_chains_ready();
        follow_undivided();
    }
    {
        // Whoever waits for it has looked at all workers, or sees this one: nobody sleeps over it.
        const std::lock_guard lock(runtime_.mutex_);
        taken_generation_.store(configuration_->generation, std::memory_order_release);
    }
    runtime_.changed_.notify_all();
}

/// Has the engine load all chains before packets come. Kernels that stay are started with a chain's first packets, as
/// there is room for few of them and not every worker meets every chain; and a master's engines are its workers'.
void Worker::make_chains_ready() {
    if (runtime_.options_.offload.mode == device::Mode::persistent) return;
    if (runtime_.options_.master) return;
    for (const auto& program : chain::programs_of(*configuration_))
        engine_of(*program).submit(
            program, program->classifier != nullptr ? *classified_counters_ : *chain_counters_[program->index], nullptr,
            0);
    for (const auto& port : runtime_.ports_) {
        if (!port->receives_blocks() || !engine_->takes_blocks()) continue;
        const Taker taker = taker_of(port->index());
        if (taker.engine == engine_.get()) engine_->submit(*taker.program, *taker.counters, io::ReceiveBlock{});
    }
}

/// Sets memory aside for all packets that there can be, so that none is while they flow. What is not used costs nothing
/// but addresses.
void Worker::keep_room() {
    const size_t chains = configuration_->chains.size(), most = runtime_.options_.offload.most_waiting;
    passed_on_.resize(chains);
    classified_.resize(chains);
    for (const auto& program : configuration_->chains)
        for (const chain::Node& node : program->nodes)
            for (const chain::Target& target : node.targets)
                if (target.kind == chain::Target::Kind::chain) passed_on_[target.value].reserve(most);
    for (Classified& own : classified_) {
        own.mbufs.reserve(std::max(burst_.size(), nf::kCpuVector));
        own.verdicts.reserve(nf::kCpuVector);
    }
    visits_in_chain_.reserve(device::kMaxStages);
    passing_.reserve(most);
    chains_passed_to_.reserve(chains);
    chains_of_burst_.reserve(chains);
    egress_.queues().reserve(most);
}

ChainCounters& Worker::counters_for(const chain::Program& program) {
    const std::lock_guard lock(counters_mutex_);
    for (const auto& counters : all_counters_)
        if (counters->fits(program)) return *counters;
    all_counters_.push_back(std::make_unique<ChainCounters>(program));
    return *all_counters_.back();
}

/// The counters of a program that classifies packets, with those of its chains in this generation.
ChainCounters& Worker::counters_for_classified(const chain::Program& program) {
    std::vector<ChainCounters*> parts;
    for (size_t chain = 0; chain < program.parts.size(); ++chain)
        parts.push_back(program.parts[chain].chain != nullptr ? chain_counters_[chain] : nullptr);
    const std::lock_guard lock(counters_mutex_);
    for (const auto& counters : all_counters_)
        if (counters->chain == program.name && counters->parts == parts) return *counters;
    all_counters_.push_back(std::make_unique<ChainCounters>(program, std::move(parts)));
    return *all_counters_.back();
}

/// Ports give such frames as they are where all functions take them so.
void Worker::ask_for_uncut() {
    for (const auto& port : runtime_.ports_) {
        if (!receives_of(*port)) continue;
        const bool uncut = port->uncut_pool() != nullptr && chain::takes_uncut(*configuration_, port->index());
        port->give_uncut(static_cast<uint16_t>(index_), uncut);
        // For good: some may be under way when others are not wanted any more.
        if (uncut) egress_.expect_uncut();
    }
}

}  // namespace millrace::exec
