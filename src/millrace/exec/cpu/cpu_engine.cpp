#include "millrace/exec/cpu/cpu_engine.hpp"

#include <rte_cycles.h>

#include <algorithm>
#include <optional>

#include "millrace/base/running.hpp"
#include "millrace/chain/classification/classification_table.hpp"
#include "millrace/exec/cpu/run_function.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::exec {
namespace {

constexpr size_t kVector = nf::kCpuVector;
constexpr uint16_t kDone = 0xffff;
constexpr size_t kEventsPerVector = kVector * 16;

}  // namespace

struct CpuEngine::Halves {
    std::shared_ptr<const chain::Program> program;
    std::vector<std::unique_ptr<nf::CpuHalf>> by_node;  // null: the device half runs
    std::optional<Teller> teller;                       // where an NF emits events
    bool reads_time = false;                            // an NF looks at when packets came
    const std::string* chain_name = nullptr;            // for the timeline, and the nodes'
    std::vector<const std::string*> node_names;
};

CpuEngine::CpuEngine(Delivery& delivery, CpuOptions options)
    : delivery_(delivery), options_(options), packets_(kVector), verdicts_(kVector), at_(kVector), active_(kVector),
      decisions_(kVector), event_storage_(kEventsPerVector), left_storage_(kVector),
      parsing_name_(name_in(options_.track, "parsing")), vector_name_(name_in(options_.track, "on the cpu")) {
    events_.events = event_storage_.data();
    events_.capacity = static_cast<uint32_t>(event_storage_.size());
    events_.left = left_storage_.data();
    events_.left_capacity = static_cast<uint32_t>(left_storage_.size());
    if (delivery_.wants_visits()) visits_.resize(kVector);
}

CpuEngine::~CpuEngine() = default;

CpuEngine::Halves& CpuEngine::halves_for(const std::shared_ptr<const chain::Program>& program) {
    if (last_halves_ != nullptr && last_halves_->program == program) return *last_halves_;
    std::unique_ptr<Halves>& halves = halves_[program->name];
    if (!halves || halves->program != program) {
        // Once for each generation, between two vectors.
        halves = std::make_unique<Halves>();
        halves->program = program;
        for (const chain::Node& node : program->nodes) {
            const Running running(node.name, program->name, Call::making);
            halves->by_node.push_back(options_.use_cpu_halves ? node.nf->make_cpu_half() : nullptr);
        }
        halves->reads_time = program->reads_time();
        if (program->emits_events()) halves->teller.emplace(program, options_.events);
        halves->chain_name = name_in(options_.track, program->name);
        for (const chain::Node& node : program->nodes) halves->node_names.push_back(name_in(options_.track, node.name));
    }
    last_halves_ = halves.get();
    return *halves;
}

void CpuEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                       rte_mbuf* const* mbufs, size_t count) {
    Halves& halves = halves_for(program);
    for (size_t i = 0; i < count; i += kVector) {
        const size_t n = std::min(kVector, count - i);
        const uint64_t start = rte_rdtsc();
        uint64_t bytes = 0;
        for (size_t k = 0; k < n; ++k) bytes += mbufs[i + k]->data_len;
        counters.received_packets.add(n);
        counters.received_bytes.add(bytes);
        run_vector(*program, counters, halves, mbufs + i, n);
        counters.latency.record(to_nanoseconds(rte_rdtsc() - start), n);
        delivery_.deliver(*program, counters, mbufs + i, verdicts_.data(), n);
    }
}

void CpuEngine::decide(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                       rte_mbuf* const* mbufs, size_t count, Verdict* verdicts) {
    run_vector(*program, counters, halves_for(program), mbufs, count);
    std::copy_n(verdicts_.begin(), count, verdicts);
}

/// A chain without NFs: nobody looks at the packets.
void CpuEngine::pass_through(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                             size_t count) {
    std::fill_n(verdicts_.begin(), count, Verdict{{chain::Target::Kind::output, 0}, kNoNode, kNoPort, {}});
    if (delivery_.wants_visits())
        for (size_t i = 0; i < count; ++i) delivery_.visits(program, mbufs[i], {}, verdicts_[i]);
    counters.batches.add(1);
}

CpuEngine::Active CpuEngine::parse(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                                   size_t count, bool reads_time) {
    Active active;
    for (size_t i = 0; i < count; ++i) {
        if (i + 4 < count) __builtin_prefetch(rte_pktmbuf_mtod(mbufs[i + 4], void*));
        Packet& packet = packets_[i];
        attach_mbuf(packet, mbufs[i]);
        packet.set_index(static_cast<uint32_t>(i));
        packet.set_ticket(0);
        if (reads_time) packet.set_time_ns(io::packet_timestamp_ns(mbufs[i]));
        packet.parse();
        if (program.inner != 0) enter_tunnels(packet, program.inner);
        const Malformed malformed = packet.layers().malformed;
        chain::Entry entry{0, 0, program.drop_malformed};
        if (program.classifier != nullptr) {
            entry = program.classifier->entry_of(packet);
            counters.classified(entry.chain, 1, packet.length());
        }
        const uint32_t detail = program.classifier != nullptr ? entry.chain : kNoDetail;
        if (entry.chain == chain::kNoChain) {
            verdicts_[i] = Verdict{{chain::Target::Kind::drop, 0}, kNoChainNode, kNoPort, {detail, 0}};
            at_[i] = kDone;
        } else if (malformed != Malformed::no && entry.drop_malformed) {
            verdicts_[i] = Verdict{
                {chain::Target::Kind::drop, 0}, kParserNode, kNoPort, {detail, static_cast<uint32_t>(malformed)}};
            at_[i] = kDone;
            counters.of_chain(entry.chain).malformed[static_cast<size_t>(malformed)].add(1);
        } else if (entry.node == chain::kNowhere) {
            verdicts_[i] = Verdict{{chain::Target::Kind::output, 0}, kNoNode, kNoPort, {detail, 0}};
            at_[i] = kDone;
        } else if (entry.node > 0) {
            at_[i] = entry.node;
            ++active.elsewhere;
        } else {
            active_[active.count++] = &packet;
            active.bytes += packet.length();
        }
    }
    return active;
}

void CpuEngine::run_node(const chain::Program& program, size_t index, Halves& halves, size_t active) {
    const chain::Node& node = program.nodes[index];
    const Running running(node.name, program.name);
    if (node.type->emits_events)
        for (size_t i = 0; i < active; ++i) active_[i]->set_events(&events_, static_cast<uint16_t>(index));
    run_function(node, halves.by_node[index].get(), std::span<Packet* const>(active_.data(), active),
                 decisions_.data());
}

/// Notes where a packet goes that does not go on to the next node. (Field by field: a verdict that is put together
/// first and then copied has to wait for its parts.)
inline void CpuEngine::leave(const Packet& packet, rte_mbuf* const* mbufs, chain::Target target, uint16_t node,
                             const Decision& decision) {
    const size_t number = packet.index();
    Verdict& verdict = verdicts_[number];
    verdict.target = target;
    verdict.node = node;
    verdict.out_port = packet.out_port();
    verdict.decision = decision;
    at_[number] = target.kind == chain::Target::Kind::node ? target.value : kDone;
    // A dropped packet stays what it was, as it does when a device drops it.
    if (target.kind != chain::Target::Kind::node && target.kind != chain::Target::Kind::drop)
        update_mbuf(mbufs[number], packet);
}

/// Sends the packets that node `index` has decided on their way; `active_` keeps those that the next node is for.
CpuEngine::Active CpuEngine::route(const chain::Program& program, size_t index, ChainCounters& counters,
                                   rte_mbuf* const* mbufs, const Active& active) {
    const chain::Node& node = program.nodes[index];
    const chain::Target* targets = node.targets.data();
    const size_t outcomes = node.targets.size();
    const chain::Target next_node{chain::Target::Kind::node, static_cast<uint16_t>(index + 1)};
    NodeCounters& node_counters = *counters.nodes[index];
    const bool wants_visits = delivery_.wants_visits();
    Active next;
    next.elsewhere = active.elsewhere;
    uint64_t bytes_left = 0;
    // Runs of equal outcomes are counted together.
    size_t run_outcome = 0, run_begin = 0;
    for (size_t i = 0; i < active.count; ++i) {
        // An outcome that the NF did not declare would index past its targets.
        const size_t outcome = std::min<size_t>(decisions_[i].outcome, outcomes);
        if (outcome == outcomes) decisions_[i].outcome = kUndeclaredOutcome;
        const chain::Target target = outcome == outcomes ? chain::Target{chain::Target::Kind::drop, 0}
                                                         : targets[outcome];
        if (outcome != run_outcome) {
            node_counters.by_outcome[run_outcome].add(i - run_begin);
            run_outcome = outcome;
            run_begin = i;
        }
        Packet* packet = active_[i];
        if (wants_visits) visits_[packet->index()].push_back({static_cast<uint16_t>(index), decisions_[i]});
        // Most go on to the next node, and nothing is noted of them until they leave.
        if (target == next_node) {
            active_[next.count++] = packet;
            continue;
        }
        bytes_left += packet->length();
        if (target.kind == chain::Target::Kind::node) ++next.elsewhere;
        leave(*packet, mbufs, target, static_cast<uint16_t>(index), decisions_[i]);
    }
    node_counters.by_outcome[run_outcome].add(active.count - run_begin);
    if (!(node.type->writes | node.type->cpu_writes).contains(field::length)) next.bytes = active.bytes - bytes_left;
    else
        for (size_t i = 0; i < next.count; ++i) next.bytes += active_[i]->length();
    return next;
}

/// Collects the packets of a node that some came to by leaps, in order of arrival: `from_before`, which come from the
/// node before, and those of the vector's `count` that wait for it.
CpuEngine::Active CpuEngine::gather(size_t index, size_t count, const Active& from_before) {
    for (size_t i = 0; i < from_before.count; ++i) at_[active_[i]->index()] = static_cast<uint16_t>(index);
    const size_t waiting = from_before.count + from_before.elsewhere;
    Active active;
    for (size_t i = 0; i < count; ++i) {
        if (at_[i] != index) continue;
        active_[active.count++] = &packets_[i];
        active.bytes += packets_[i].length();
    }
    active.elsewhere = waiting - active.count;
    return active;
}

void CpuEngine::run_vector(const chain::Program& program, ChainCounters& counters, Halves& halves,
                           rte_mbuf* const* mbufs, size_t count) {
    if (program.nodes.empty() && program.classifier == nullptr) return pass_through(program, counters, mbufs, count);
    const bool wants_visits = delivery_.wants_visits();
    if (wants_visits)
        for (size_t i = 0; i < count; ++i) visits_[i].clear();
    WorkTrace trace(options_.track, halves.chain_name);
    Active active = parse(program, counters, mbufs, count, halves.reads_time);
    const uint64_t bytes = active.bytes;
    trace.step(parsing_name_, count, bytes);
    uint64_t cycles = rte_rdtsc();
    for (size_t index = 0; index < program.nodes.size() && active.count + active.elsewhere > 0; ++index) {
        if (active.elsewhere > 0) active = gather(index, count, active);
        if (active.count == 0) continue;
        NodeCounters& node_counters = *counters.nodes[index];
        node_counters.packets.add(active.count);
        node_counters.bytes.add(active.bytes);
        const Active before = active;
        run_node(program, index, halves, active.count);
        active = route(program, index, counters, mbufs, active);
        if (events_.count + events_.left_count > 0) report_events(halves, counters, mbufs, active.count);
        const uint64_t now = rte_rdtsc();
        node_counters.cycles.add(now - cycles);
        cycles = now;
        trace.step(halves.node_names[index], before.count, before.bytes);
    }
    if (wants_visits)
        for (size_t i = 0; i < count; ++i) delivery_.visits(program, mbufs[i], visits_[i], verdicts_[i]);
    counters.batches.add(1);
    trace.whole(vector_name_, count, bytes);
}

/// Hands on the events of the node that has just run, behind which `active` packets go on.
void CpuEngine::report_events(Halves& halves, ChainCounters& counters, rte_mbuf* const* mbufs, size_t active) {
    for (size_t i = 0; i < active; ++i) verdicts_[active_[i]->index()] = {};
    const EventPackets packets{verdicts_.data(), [&](uint32_t i) { return origin_of(mbufs[i]); },
                               [&](const LeftEvents& left) { return packets_[left.packet]; }};
    halves.teller->deliver({event_storage_.data(), std::min(events_.count, events_.capacity)},
                           {left_storage_.data(), events_.left_count}, counters, packets);
    events_.count = events_.left_count = 0;
}

uint64_t to_nanoseconds(uint64_t cycles) {
    static const double nanoseconds_per_cycle = 1e9 / static_cast<double>(rte_get_tsc_hz());
    return static_cast<uint64_t>(static_cast<double>(cycles) * nanoseconds_per_cycle);
}

}  // namespace millrace::exec
