#include "millrace/exec/offload/finish/completion.hpp"

#include <rte_cycles.h>
#include <rte_eal.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/exec/tenants.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::exec {

Completion::Completion(Delivery& delivery, FrameDelivery* frames, CpuPath& cpu, const BatchTimeline& timeline,
                       uint32_t max_packets)
    : delivery_(delivery), frame_delivery_(frames), cpu_(cpu), timeline_(timeline), verdicts_(max_packets) {
    carriers_.emplace();
    retries_.reserve(max_packets);
    visits_.reserve(device::kMaxStages);
    if (frames == nullptr) return;
    listed_.resize(frames->port_count() + 1);
    lists_.resize(listed_.size() * kFramesAtOnce);
}

void Completion::keep_room(const chain::Program& program) {
    tallies_.resize(std::max(tallies_.size(), program.parts.size() + 1));
}

Verdict Completion::verdict_of(const chain::Program& program, const device::PacketResult& result) {
    const bool known = result.node() < program.nodes.size(), classified = program.classifier != nullptr;
    return {target_of(program, result),
            result.node(),
            result.out_port,
            {known        ? detail_of(result.detail)
             : classified ? result.detail
                          : kNoDetail,
             result.outcome()}};
}

void Completion::deliver(Batch& batch, uint64_t back) {
    const BatchInput& input = batch.input();
    const BatchRecord& record = batch.record();
    const uint64_t applied_from_ns = timeline_.now_ns();
    const size_t n = input.frames.count;
    ChainCounters& counters = *input.chain->counters;
    count(batch);
    counters.batches.add(1);
    batch.count_bytes();
    // Kernels write it straight to the host.
    const nf::Journal& journal = batch.results().head().journal();
    counters.bytes_to_host.add(std::min(journal.used, journal.capacity));
    counters.batches_in[static_cast<size_t>(input.transfer)].add(1);
    counters.batches_back[static_cast<size_t>(input.way_back)].add(1);
    ResultBuffer* fresh = input.receive_blocks.empty() ? lend_buffer(batch) : nullptr;
    // A few packets at a time go on, while the CPU has them in its nearest caches; all at once where others are told of
    // them.
    constexpr size_t kAtOnce = Carriers::kAtOnce;
    const size_t share = batch.buffers().visits() != nullptr ? n : kAtOnce;
    const Return way = fresh != nullptr                            ? Return::lent
                       : input.prefixes.back == chain::kWholeFrame ? Return::home
                       : input.prefixes.back != 0                  ? Return::heads
                                                                   : Return::nothing;
    if (batch.results().stored_events() + batch.results().left_count() > 0) tell_events(batch);
    if (!input.receive_blocks.empty()) pass_on_frames(batch);
    else if (way == Return::lent && input.pool != nullptr && batch.buffers().visits() == nullptr &&
             !input.chain->program->reassembly)  // what was put together is marked in its mbuf
        for (size_t first = 0; first < n; first += share) pass_on_carried(batch, first, std::min(first + share, n));
    else
        for (size_t first = 0; first < n; first += share) pass_on(batch, first, std::min(share, n - first), way);
    const uint64_t now = rte_rdtsc();
    counters.add(BatchStage::waiting, input.begun - input.bursts.front().arrival);
    counters.add(BatchStage::layout, input.laid_out - input.begun);
    counters.add(BatchStage::in_line, record.submit_begin - std::min(input.laid_out, record.submit_begin));
    counters.add(BatchStage::calls, record.calls);
    counters.add(BatchStage::round_trip, back - std::min(record.submitted, back));
    counters.add(BatchStage::results, now - back);
    for (const auto& [arrival, packets] : input.bursts) counters.latency.record(to_nanoseconds(now - arrival), packets);
    timeline_.end(batch, applied_from_ns);
    if (fresh != nullptr) batch.buffers().renew_buffer(*fresh);
}

/// Hands on the batch's events, while the packets are still as they were received.
void Completion::tell_events(const Batch& batch) {
    const BatchInput& input = batch.input();
    const BatchBuffers& buffers = batch.buffers();
    const BatchResults results = batch.results();
    for (size_t i = 0; i < input.frames.count; ++i)
        verdicts_[i] = verdict_of(*input.chain->program, results.packets()[i]);
    EventPackets packets{verdicts_.data(), [&](uint32_t i) { return input.origin_of(i); }, {}};
    // Two references, which a std::function holds without memory of its own.
    packets.as_seen = [&input, &buffers](const LeftEvents& left) {
        Packet packet;
        uint8_t* const frame = left.offset != LeftEvents::kNotKept
                                   ? buffers.kept() + left.offset
                                   : reinterpret_cast<uint8_t*>(input.source_of(left.packet));
        packet.attach(frame, left.length, left.present, 0, 0);
        packet.set_in_port(buffers.descriptors()[left.packet].in_port);
        packet.parse();
        if (const uint32_t inner = input.chain->program->inner; inner != 0) enter_tunnels(packet, inner);
        return packet;
    };
    input.chain->teller->deliver({results.events(), results.stored_events()}, {buffers.left(), results.left_count()},
                                 *input.chain->counters, packets);
}

/// Tells what every NF decided on each packet of the batch.
void Completion::tell_visits(const Batch& batch) {
    const BatchInput& input = batch.input();
    const chain::Program& program = *input.chain->program;
    const device::PacketResult* const packets = batch.results().packets();
    const size_t n = input.frames.count;
    for (size_t i = 0; i < n; ++i) {
        const uint16_t last = packets[i].node();
        if (last == device::kHostDecides) continue;
        visits_.clear();
        const chain::Part whole, &part = program.parts.empty() || last >= program.nodes.size()
                                             ? whole
                                             : program.parts[program.chain_of_node[last]];
        for (uint32_t node = part.first; last < program.nodes.size() && node <= last; node += part.stride) {
            const auto number = static_cast<uint16_t>(node);
            const Decision decision = batch.buffers().visits()[program.stage_of(number) * n + i];
            if (decision.outcome != device::kNotVisited) visits_.push_back({number, decision});
        }
        if (!visits_.empty()) verdicts_[i].decision.detail = visits_.back().decision.detail;
        delivery_.visits(program, input.mbufs[i], visits_, verdicts_[i]);
    }
}

/// Adds up what the batch's packets met.
void Completion::count(const Batch& batch) {
    const BatchInput& input = batch.input();
    if (input.tenants != nullptr) input.tenants->leave(input.tenants_place, batch.results().head().outcomes());
    ChainCounters& counters = *input.chain->counters;
    const size_t each = input.chain->counters_of_node;
    for (size_t node = 0; node < counters.nodes.size(); ++node) {
        const uint32_t* outcomes = batch.results().head().outcomes() + node * each;
        NodeCounters& into = *counters.nodes[node];
        const size_t declared = into.by_outcome.size() - 1;
        for (size_t outcome = 0; outcome <= declared; ++outcome) {
            const uint32_t packets = outcomes[outcome < declared ? outcome : each - 1];
            into.by_outcome[outcome].add(packets);
            into.packets.add(packets);
        }
    }
    // Those of receive blocks are counted by their verdicts.
    if (input.chain->program->classifier != nullptr && input.receive_blocks.empty()) count_classified(batch);
}

/// Counts each packet to its chain, but for those that the host decides on: there they are counted.
void Completion::count_classified(const Batch& batch) {
    const BatchInput& input = batch.input();
    const device::PacketResult* const results = batch.results().packets();
    const device::FrameDescriptor* const descriptors = batch.buffers().descriptors();
    const chain::Program& program = *input.chain->program;
    const size_t none = tallies_.size() - 1;
    for (size_t i = 0; i < input.frames.count; ++i) {
        if (results[i].node() == device::kHostDecides) continue;
        const uint16_t chain = chain_of(program, results[i]);
        Tally& own = tallies_[chain == chain::kNoChain ? none : chain];
        ++own.packets;
        own.bytes += descriptors[i].length;
    }
    ChainCounters& counters = *input.chain->counters;
    for (size_t chain = 0; chain <= none; ++chain) {
        const Tally own = std::exchange(tallies_[chain], {});
        if (own.packets == 0) continue;
        counters.classified(chain == none ? chain::kNoChain : static_cast<uint16_t>(chain), own.packets, own.bytes);
    }
}

}  // namespace millrace::exec
