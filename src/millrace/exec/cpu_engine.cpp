#include "millrace/exec/cpu_engine.hpp"

#include <rte_cycles.h>

#include <algorithm>
#include <mutex>

#include "millrace/io/metadata.hpp"

namespace millrace::exec {
namespace {

constexpr size_t kVector = nf::kCpuVector;
constexpr uint16_t kDone = 0xffff;
constexpr size_t kEventsPerVector = kVector * 16;

/// Commits of one NF must not run side by side; workers that share an NF take turns, once a vector.
std::mutex& commit_mutex(const nf::NetworkFunction* nf) {
    static std::mutex mutexes[64];
    return mutexes[(reinterpret_cast<uintptr_t>(nf) >> 6) % 64];
}

/// Events reach the host halves one worker at a time.
std::mutex& event_mutex() {
    static std::mutex mutex;
    return mutex;
}

}  // namespace

struct CpuEngine::Halves {
    std::shared_ptr<const chain::Program> program;
    std::vector<std::unique_ptr<nf::CpuHalf>> by_node;  // null: the device half runs
};

CpuEngine::CpuEngine(Delivery& delivery, CpuOptions options)
    : delivery_(delivery),
      options_(options),
      packets_(kVector),
      fates_(kVector),
      at_(kVector),
      active_(kVector),
      decisions_(kVector),
      event_storage_(kEventsPerVector) {
    events_.events = event_storage_.data();
    events_.capacity = static_cast<uint32_t>(event_storage_.size());
    if (delivery_.wants_visits()) visits_.resize(kVector);
}

CpuEngine::~CpuEngine() = default;

CpuEngine::Halves& CpuEngine::halves_for(const std::shared_ptr<const chain::Program>& program) {
    std::unique_ptr<Halves>& halves = halves_[program->name];
    if (!halves || halves->program != program) {
        // Once for each generation, between two vectors.
        halves = std::make_unique<Halves>();
        halves->program = program;
        for (const chain::Node& node : program->nodes)
            halves->by_node.push_back(options_.use_cpu_halves ? node.nf->make_cpu_half() : nullptr);
    }
    return *halves;
}

void CpuEngine::submit(std::shared_ptr<const chain::Program> program, ChainCounters& counters, rte_mbuf* const* mbufs, size_t count) {
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
        delivery_.deliver(*program, counters, mbufs + i, fates_.data(), n);
    }
}

void CpuEngine::decide(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                       size_t count, Fate* fates) {
    run_vector(*program, counters, halves_for(program), mbufs, count);
    std::copy_n(fates_.begin(), count, fates);
}

size_t CpuEngine::parse(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs, size_t count) {
    size_t well_formed = 0;
    const chain::Target first = program.nodes.empty() ? chain::Target{chain::Target::Kind::output, 0}
                                                      : chain::Target{chain::Target::Kind::node, 0};
    for (size_t i = 0; i < count; ++i) {
        if (i + 4 < count) __builtin_prefetch(rte_pktmbuf_mtod(mbufs[i + 4], void*));
        Packet& packet = packets_[i];
        attach_mbuf(packet, mbufs[i]);
        packet.set_index(static_cast<uint32_t>(i));
        packet.set_ticket(0);
        fates_[i] = Fate{first, kNoNode, kNoPort, {}};
        at_[i] = first.kind == chain::Target::Kind::node ? 0 : kDone;
        if (program.nodes.empty()) continue;
        packet.parse();
        const Malformed malformed = packet.layers().malformed;
        if (malformed != Malformed::no && program.drop_malformed) {
            fates_[i] = Fate{{chain::Target::Kind::drop, 0}, kParserNode, kNoPort, {kNoDetail, static_cast<uint32_t>(malformed)}};
            at_[i] = kDone;
            counters.malformed[static_cast<size_t>(malformed)].add(1);
        } else {
            ++well_formed;
        }
    }
    return well_formed;
}

void CpuEngine::run_node(const chain::Program& program, size_t index, Halves& halves, size_t active) {
    const chain::Node& node = program.nodes[index];
    const nf::Type& type = *node.type;
    const void* tables = node.nf->image().tables();
    std::unique_lock<std::mutex> ordered_section;
    if (type.commit != nullptr) ordered_section = std::unique_lock(commit_mutex(node.nf.get()));
    if (nf::CpuHalf* half = halves.by_node[index].get()) {
        half->process(std::span<Packet* const>(active_.data(), active), decisions_.data());
        return;
    }
    if (type.ordered()) {
        const MutableView<uint64_t> tickets = type.tickets(tables);
        for (size_t i = 0; i < active; ++i) {
            const uint32_t key = type.order_key(*active_[i], tables);
            if (key < tickets.size()) active_[i]->set_ticket(__atomic_fetch_add(&tickets[key], 1, __ATOMIC_RELAXED));
        }
    }
    const nf::ProcessFunction process = type.process_with(node.lanes);
    for (size_t i = 0; i < active; ++i) decisions_[i] = process(*active_[i], tables);
    if (type.commit != nullptr)
        for (size_t i = 0; i < active; ++i) decisions_[i] = type.commit(*active_[i], tables, decisions_[i]);
}

/// Sends the packets that node `index` has decided on their way; returns how many leave the chain.
size_t CpuEngine::route(const chain::Program& program, size_t index, ChainCounters& counters, size_t active) {
    const std::vector<chain::Target>& targets = program.nodes[index].targets;
    NodeCounters& node_counters = *counters.nodes[index];
    const bool wants_visits = delivery_.wants_visits();
    size_t left = 0;
    // Runs of equal outcomes are counted together.
    uint32_t run_outcome = 0, run = 0;
    for (size_t i = 0; i < active; ++i) {
        const size_t packet = active_[i]->index();
        // An outcome that the NF did not declare would index past its targets.
        if (decisions_[i].outcome >= targets.size()) decisions_[i].outcome = 0;
        const Decision decision = decisions_[i];
        const chain::Target target = targets[decision.outcome];
        if (decision.outcome != run_outcome) {
            node_counters.by_outcome[run_outcome].add(run);
            run_outcome = decision.outcome;
            run = 0;
        }
        ++run;
        fates_[packet] = Fate{target, static_cast<uint16_t>(index), kNoPort, decision};
        at_[packet] = target.kind == chain::Target::Kind::node ? target.value : kDone;
        left += target.kind != chain::Target::Kind::node;
        if (wants_visits) visits_[packet].push_back({static_cast<uint16_t>(index), decision});
    }
    node_counters.by_outcome[run_outcome].add(run);
    return left;
}

void CpuEngine::run_vector(const chain::Program& program, ChainCounters& counters, Halves& halves, rte_mbuf* const* mbufs, size_t count) {
    size_t waiting = parse(program, counters, mbufs, count);
    const bool wants_visits = delivery_.wants_visits();
    if (wants_visits)
        for (size_t i = 0; i < count; ++i) visits_[i].clear();
    uint64_t cycles = rte_rdtsc();
    for (size_t index = 0; index < program.nodes.size() && waiting > 0; ++index) {
        size_t active = 0;
        uint64_t bytes = 0;
        const bool emits = program.nodes[index].type->emits_events;
        for (size_t i = 0; i < count; ++i) {
            if (at_[i] != index) continue;
            bytes += packets_[i].length();
            if (emits) packets_[i].set_events(&events_, static_cast<uint16_t>(index));
            active_[active++] = &packets_[i];
        }
        if (active == 0) continue;
        events_.count = 0;
        run_node(program, index, halves, active);
        waiting -= route(program, index, counters, active);
        if (events_.count > 0) report_events(program, counters, mbufs);
        counters.nodes[index]->packets.add(active);
        counters.nodes[index]->bytes.add(bytes);
        const uint64_t now = rte_rdtsc();
        counters.nodes[index]->cycles.add(now - cycles);
        cycles = now;
    }
    for (size_t i = 0; i < count; ++i) {
        fates_[i].out_port = packets_[i].out_port();
        // A dropped packet stays what it was, as it does when a device drops it.
        if (!program.nodes.empty() && fates_[i].target.kind != chain::Target::Kind::drop) update_mbuf(mbufs[i], packets_[i]);
        if (wants_visits) delivery_.visits(program, mbufs[i], visits_[i], fates_[i]);
    }
    counters.batches.add(1);
}

void CpuEngine::report_events(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs) {
    const uint32_t stored = std::min(events_.count, events_.capacity);
    counters.events_lost.add(events_.count - stored);
    deliver_events(program, std::span(event_storage_.data(), stored), counters, mbufs, fates_.data());
    events_.count = 0;
}

uint64_t to_nanoseconds(uint64_t cycles) {
    static const double nanoseconds_per_cycle = 1e9 / static_cast<double>(rte_get_tsc_hz());
    return static_cast<uint64_t>(static_cast<double>(cycles) * nanoseconds_per_cycle);
}

void deliver_events(const chain::Program& program, std::span<Event> events, ChainCounters& counters,
                    rte_mbuf* const* mbufs, const Fate* fates) {
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return a.packet != b.packet ? a.packet < b.packet : a.node != b.node ? a.node < b.node : a.order < b.order;
    });
    const std::lock_guard lock(event_mutex());
    for (const Event& event : events) {
        const rte_mbuf* mbuf = mbufs[event.packet];
        nf::PacketInfo info;
        info.number = io::packet_number(mbuf);
        info.timestamp_ns = io::packet_timestamp_ns(mbuf);
        if (mbuf->port < program.port_names->size()) info.in_port = (*program.port_names)[mbuf->port];
        info.dropped = fates[event.packet].target.kind == chain::Target::Kind::drop && fates[event.packet].node == event.node;
        program.nodes[event.node].nf->on_event(event, info);
    }
    counters.events.add(events.size());
}

}  // namespace millrace::exec
