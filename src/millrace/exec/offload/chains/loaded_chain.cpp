#include "millrace/exec/offload/chains/loaded_chain.hpp"

#include <algorithm>

#include "millrace/chain/classification/classified.hpp"
#include "millrace/device/node_counters.hpp"

namespace millrace::exec {

static_assert(chain::kMaxStateArrays == device::kMaxStateArrays);

RingNeeds RingNeeds::with(const RingNeeds& other) const {
    return {std::max(state_bytes, other.state_bytes),
            std::max(emitters, other.emitters),
            std::max(keepers, other.keepers),
            std::max(counters, other.counters),
            work.with(other.work),
            journal.with(other.journal)};
}

std::vector<device::Step> steps_of(const chain::Program& program, const OffloadOptions& options) {
    const uint32_t back = prefixes_of(program.plan).back;
    const bool gather = options.pinned && (options.transfer_in != TransferIn::packed || options.blocks);
    return device::plan_steps(program,
                              {options.mode, gather, back != 0 && back != chain::kWholeFrame, options.gate != nullptr});
}

LoadedChain::LoadedChain(std::shared_ptr<const chain::Program> of, ChainCounters& its_counters,
                         const std::shared_ptr<device::Device>& device, device::OrderGate& gate,
                         const OffloadOptions& options)
    : program(std::move(of)), counters(&its_counters), prefixes(prefixes_of(program->plan)),
      plain_prefixes(program->inner == 0 ? plain_prefixes_of(program->plan) : prefixes),
      growth{program->head_growth(), program->tail_growth()}, name(name_in(options.track, program->name)) {
    if (program->stage_count() > device::kMaxStages)
        throw device::DeviceError("chain '" + program->name + "' has more than " + std::to_string(device::kMaxStages) +
                                  " network functions");
    if (program->keyed() && options.gate != nullptr)
        throw device::DeviceError("chain '" + program->name +
                                  "' keeps state per key, which one device has at a time: run it on one");
    const std::vector<uint16_t> ordered = device::sequences_of(*program);
    if (ordered.size() > device::kMaxSequences)
        throw device::DeviceError("chain '" + program->name + "' has more than " +
                                  std::to_string(device::kMaxSequences) + " network functions with state");
    for (const uint16_t node : ordered) sequences.push_back(gate.sequence_of(program->nodes[node].nf->image()));
    loaded = device->load(program, steps_of(*program, options));
    const std::vector<device::Step>& steps = loaded->steps();
    const auto is_ordered = [](const device::Step& step) { return step.in_order(); };
    ordered_from = static_cast<size_t>(std::find_if(steps.begin(), steps.end(), is_ordered) - steps.begin());
    ordered_to = static_cast<size_t>(std::find_if(steps.rbegin(), steps.rend(), is_ordered).base() - steps.begin());
    ordered_to = std::max(ordered_from, ordered_to);
    if (options.mode == device::Mode::persistent) resident = device->start_resident(loaded, options.depth);
    for (const device::Step& step : steps)
        step_names.push_back(name_in(options.track, device::step_text(*program, step)));
    for (const device::StateArray& state : loaded->states()) {
        needs.state_bytes += state.bytes;
        shared_states.push_back(options.gate != nullptr ? gate.share(device, state) : nullptr);
    }
    needs.counters = device::counters_of(*program);
    counters_of_node = device::counters_of_node(*program);
    needs.work = device::WorkNeeds::of(
        *program, std::ranges::any_of(steps, [](const device::Step& step) { return step.finds_last; }));
    for (const chain::Node& node : program->nodes) {
        auto* const keeps = dynamic_cast<nf::KeepsJournal*>(node.nf.get());
        journals.push_back(keeps != nullptr && keeps->keeps_journal() ? keeps : nullptr);
        if (journals.back() == nullptr) continue;
        needs.journal.of_packet += static_cast<uint32_t>(node.type->journal_bytes);
        needs.journal.of_sweep += device::kSweptBuckets * nf::kKeyedWays * nf::JournalRecord::bytes_with(0);
    }
    reads_time = program->reads_time();
    constexpr size_t kFewest = 64, kOfFunction = 4;  // most outcomes of most functions are rare
    verdicts = std::make_unique<VerdictTable>(std::max(kFewest, kOfFunction * program->nodes.size()));
    needs.emitters = program->emitters();
    needs.keepers = program->emitters_from(program->first_changed());
    if (program->emits_events()) teller = std::make_unique<Teller>(program, options.events);
}

}  // namespace millrace::exec
