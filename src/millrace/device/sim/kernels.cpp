#include "millrace/device/sim/kernels.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "millrace/base/running.hpp"
#include "millrace/chain/kernel/classifier.hpp"
#include "millrace/device/kernel/chain.hpp"
#include "millrace/device/node_counters.hpp"

namespace millrace::device::sim {
namespace {

/// The batch that functions with state per key are at, for their journal.
class Deciding {
public:
    Deciding(const BatchView& batch, uint16_t node) {
        nf::detail::in_batch = {static_cast<uint32_t>(batch.sequence), node, batch.journal};
    }
    ~Deciding() { nf::detail::in_batch = {}; }
    Deciding(const Deciding&) = delete;
    Deciding& operator=(const Deciding&) = delete;
};

class Kernel {
public:
    Kernel(const chain::Program& program, const std::vector<const void*>& tables, const Step& step,
           const BatchView& batch, const PacketWatch& watch)
        : program_(program), tables_(tables), step_(step), batch_(batch), watch_(watch),
          counters_of_node_(static_cast<uint32_t>(counters_of_node(program))) {}

    void gather(uint32_t i) {
        std::memcpy(batch_.frames + batch_.descriptors[i].offset, reinterpret_cast<const void*>(batch_.source_of(i)),
                    batch_.descriptors[i].present);
    }

    void nodes(uint32_t i) {
        if (step_.timed) last_ = std::chrono::steady_clock::now();
        if (step_.begin && batch_.staged) gather(i);
        lap(kScatterPart);
        if (step_.begin) begin(i);
        lap(kBeginPart);
        while (batch_.at[i] != kNowhere) {
            const uint16_t index = batch_.at[i];
            const size_t stage = program_.stage_of(index);
            if (stage >= step_.last) break;
            const chain::Node& node = program_.nodes[index];
            Packet& packet = batch_.packets[i];
            const Running running(node.name, program_.name);  // a watch may run the function, too
            if (step_.finds_last && stage + 1 == step_.last) {
                node.type->parts.find_with(node.lanes)(packet, tables_[index], batch_.kept_of(i));
                lap(static_cast<uint32_t>(stage));
                break;
            }
            if (watch_) watch_(program_, index, packet);
            if (node.type->emits_events) packet.set_events(batch_.events, index);
            const Decision decision = step_.judges_first && stage == step_.first
                                          ? judge(node, packet, tables_[index], batch_.kept_of(i))
                                          : node.type->process_with(node.lanes)(packet, tables_[index]);
            if (step_.hold_last && stage + 1 == step_.last) {
                batch_.decisions[i] = decision;
                lap(static_cast<uint32_t>(stage));
                break;
            }
            route(i, index, decision);
            lap(static_cast<uint32_t>(stage));
        }
        if (step_.keys_of_next) {
            const uint16_t node = batch_.at[i];
            batch_.keys[i] = is_of_stage(node, step_.last)
                                 ? program_.nodes[node].type->order_key(batch_.packets[i], tables_[node])
                                 : kNoOrderKey;
        }
        if (step_.end) end_packet(batch_, i);
        lap(kEndPart);
    }

    /// All nodes of the stage have their numbers in one array.
    void tickets(uint32_t i) {
        const uint16_t node = program_.stage(step_.first).first;
        const MutableView<uint64_t> counters = program_.nodes[node].type->tickets(tables_[node]);
        const uint32_t key = batch_.keys[i];
        if (key < counters.size()) batch_.packets[i].set_ticket(counters[key]++);
    }

    void commit(uint32_t i) {
        const uint16_t node = batch_.at[i];
        if (!is_of_stage(node, step_.first)) return;
        const nf::Type& type = *program_.nodes[node].type;
        const Running running(program_.nodes[node].name, program_.name);
        route(i, node, type.commit(batch_.packets[i], tables_[node], batch_.decisions[i]));
    }

    void keyed(uint32_t i) {
        const uint16_t node = program_.stage(step_.first).first;
        if (batch_.at[i] != node) return;
        Packet& packet = batch_.packets[i];
        const Running running(program_.nodes[node].name, program_.name);
        const nf::Type& type = *program_.nodes[node].type;
        const Deciding deciding(batch_, node);
        if (type.commits_keyed()) return route(i, node, type.commit(packet, tables_[node], batch_.decisions[i]));
        if (watch_) watch_(program_, node, packet);
        if (type.emits_events) packet.set_events(batch_.events, node);
        route(i, node, type.process_with(program_.nodes[node].lanes)(packet, tables_[node]));
    }

    void sweep() {
        const uint16_t node = program_.stage(step_.first).first;
        const nf::Type& type = *program_.nodes[node].type;
        const Deciding deciding(batch_, node);
        uint32_t buckets = kSweptBuckets;
        const uint32_t first = type.claim(tables_[node], buckets);
        for (uint32_t k = 0; k < buckets; ++k) {
            Packet teller = sweep_teller(batch_, node, k);
            type.sweep(teller, tables_[node], first + k, batch_.last_time());
        }
    }

    /// The batch's packets with all keys mixed, those of each key in order of arrival.
    std::vector<uint32_t> mixed(uint32_t seed) const {
        std::vector<uint32_t> order(batch_.count);
        std::iota(order.begin(), order.end(), 0u);
        std::shuffle(order.begin(), order.end(), std::minstd_rand(seed));
        // What stands at the places of a key is put in order there.
        std::vector<uint32_t> places(batch_.count), packets(batch_.count);
        std::iota(places.begin(), places.end(), 0u);
        std::iota(packets.begin(), packets.end(), 0u);
        const auto by_key = [this](uint32_t i) { return batch_.keys[i]; };
        std::ranges::stable_sort(places, {}, [&](uint32_t place) { return by_key(order[place]); });
        std::ranges::stable_sort(packets, {}, by_key);
        for (size_t k = 0; k < places.size(); ++k) order[places[k]] = packets[k];
        return order;
    }

    void pack(uint32_t i) { pack_packet(batch_, i, Lanes<8>{}); }

private:
    bool is_of_stage(uint16_t node, size_t number) const {
        const chain::Stage stage = program_.stage(number);
        return node >= stage.first && node < stage.first + stage.count;
    }
    void begin(uint32_t i) {
        const auto stages = static_cast<uint32_t>(program_.stage_count());
        if (program_.classifier == nullptr)
            return begin_packet(batch_, i, stages, program_.drop_malformed, program_.inner);
        const auto& tables = *static_cast<const chain::Classifier::Tables*>(tables_.back());
        begin_packet(batch_, i, stages, true, 0,
                     [&](const Packet& packet) { return chain::Classifier::entry_of(packet, tables); });
    }
    static Decision judge(const chain::Node& node, Packet& packet, const void* tables, uint32_t* kept) {
        const nf::Parts& parts = node.type->parts;
        const uint32_t candidates = parts.candidates(packet, tables, kept);
        for (uint32_t k = candidates; k-- > 0;) parts.sift(packet, tables, kept, k);
        const uint32_t sifted = parts.sifted(packet, tables, kept);
        for (uint32_t k = sifted; k-- > 0;) parts.check(packet, tables, kept, k);
        const uint32_t pieces = parts.checked(packet, tables, kept);
        for (uint32_t k = pieces; k-- > 0;) parts.judge_with(node.lanes)(packet, tables, kept, k);
        return parts.conclude(packet, tables, kept);
    }
    /// What came since the last call was `part`.
    void lap(uint32_t part) {
        if (!step_.timed) return;
        const auto now = std::chrono::steady_clock::now();
        batch_.part_times[part] += static_cast<uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count());
        last_ = now;
    }
    void route(uint32_t i, uint16_t node, Decision decision) {
        const std::vector<Target>& targets = program_.nodes[node].targets;
        route_packet(batch_, batch_.outcome_counts, i,
                     {.stage = static_cast<uint32_t>(program_.stage_of(node)),
                      .first = node,
                      .targets = targets.data(),
                      .outcomes = static_cast<uint32_t>(targets.size()),
                      .counters = counters_of_node_},
                     node, decision);
    }

    const chain::Program& program_;
    const std::vector<const void*>& tables_;
    const Step& step_;
    const BatchView& batch_;
    const PacketWatch& watch_;
    const uint32_t counters_of_node_;
    std::chrono::steady_clock::time_point last_;
};

/// An odd multiplier prime to `count` makes a permutation of [0, count).
uint32_t stride_for(uint32_t count, uint32_t seed) {
    uint32_t stride = (seed * 2654435761u | 1u) % count;
    while (stride == 0 || std::gcd(stride, count) != 1) stride = (stride + 1) % count + (count == 1 ? 1 : 0);
    return stride;
}

}  // namespace

void run_step(const chain::Program& program, const std::vector<const void*>& tables, const Step& step,
              const BatchView& batch, uint32_t seed, const PacketWatch& watch) {
    if (batch.count == 0) return;
    Kernel kernel(program, tables, step, batch, watch);
    if (step.take_states) take_states(batch, 0, 1);
    switch (step.kind) {
        case Step::Kind::gather:
            for (uint32_t i = 0; i < batch.count; ++i) kernel.gather(i);
            break;
        case Step::Kind::nodes: {
            const uint32_t stride = batch.count == 1 ? 1 : stride_for(batch.count, seed);
            uint64_t at = seed % batch.count;
            for (uint32_t k = 0; k < batch.count; ++k, at = (at + stride) % batch.count)
                kernel.nodes(static_cast<uint32_t>(at));
            break;
        }
        case Step::Kind::tickets:
            for (uint32_t i = 0; i < batch.count; ++i) kernel.tickets(i);
            break;
        case Step::Kind::commit:
            for (const uint32_t i : kernel.mixed(seed)) kernel.commit(i);
            break;
        case Step::Kind::keyed:
            for (const uint32_t i : kernel.mixed(seed)) kernel.keyed(i);
            kernel.sweep();
            break;
        case Step::Kind::group: break;  // it has no blocks
        case Step::Kind::sequence: break;
        case Step::Kind::snapshot: break;
        case Step::Kind::confined: break;  // this device runs no code of others
        case Step::Kind::pack:
            for (uint32_t i = 0; i < batch.count; ++i) kernel.pack(i);
            break;
    }
    snapshot_states(batch, step.snapshot, 0, 1);
}

}  // namespace millrace::device::sim
