// A chain ready to run: its network functions in order, their tables, and where each outcome leads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/chain/frames/field_plan.hpp"
#include "millrace/chain/frames/reassembly.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/packet/target.hpp"
#include "millrace/schedule/gpu_share.hpp"

namespace millrace::chain {

using millrace::Target;

/// One NF in a chain.
struct Node {
    std::string name;  ///< unique in its chain
    const nf::Type* type = nullptr;
    std::shared_ptr<nf::NetworkFunction> nf;  ///< this generation's host half
    std::vector<Target> targets;              ///< by the NF's outcome; nodes only lead forward
    unsigned lanes = 1;
    Location where;

    Fields reads() const { return nf->reads(type->reads); }
    Fields writes() const { return nf->writes(type->writes); }
    /// Whether its device half changes state without having asked for an order.
    bool changes_state_in_no_order() const;
    /// Where an outcome leads, and its name; also of kUndeclaredOutcome and whatever else is not declared.
    Target target(uint32_t outcome) const {
        return outcome < targets.size() ? targets[outcome] : Target{Target::Kind::drop, 0};
    }
    std::string_view outcome_name(uint32_t outcome) const {
        return outcome < type->outcomes.size() ? std::string_view(type->outcomes[outcome].name)
                                               : kUndeclaredOutcomeName;
    }
    nf::Growth growth() const { return nf->growth({type->head_growth, type->tail_growth}); }
    /// Whether it tells the same of a packet when it is asked again, as it is where events find no room; what is told
    /// once of state per key (Packet::emit_once, Packet::emit_note) set aside.
    bool tells_again() const {
        return (!type->ordered() || type->commits_keyed() || type->note_bytes > 0) &&
               (type->writes | type->cpu_writes) == field::none && !changes_state_in_no_order();
    }
};

class ClassificationTable;
struct Program;

/// A chain in a program that classifies packets. Its nodes are each `stride` behind the one before it.
struct Part {
    std::shared_ptr<const Program> chain;  ///< null: no packet gets there by classification
    uint16_t first = 0;                    ///< its first node is this one of the program's
    uint16_t stride = 1;

    /// Which of the chain's a node of the program is.
    uint16_t node_of_chain(uint16_t node) const { return static_cast<uint16_t>((node - first) / stride); }
};

/// Neighbouring nodes that are one and the same code on a device and differ in their tables only: those of chains that
/// have the same functions. Their targets that are nodes lie equally far behind each of them.
struct Stage {
    uint16_t first = 0, count = 1;
};

/// One chain of one generation, or several behind a classification (classified.hpp). Constant once made; shared by all
/// workers.
struct Program : std::enable_shared_from_this<Program> {
    std::string name;
    std::string whole;        ///< the chain of the file that this is, or is a part of (parts.hpp)
    bool is_tenants = false;  ///< its one function is a tenant's, and runs in that one's process (tenant.hpp)
    /// Of a chain's first part: all of it in one piece, for a device that all its tenants' functions run on; null: it
    /// goes through its parts only (parts.hpp).
    std::shared_ptr<const Program> undivided;
    uint16_t index = 0;  ///< among the chains of its configuration
    uint64_t generation = 0;
    std::vector<Node> nodes;
    std::vector<uint16_t> inputs;  ///< ports whose packets come here without classification
    uint16_t output = kNoPort;     ///< port for packets that reach the end; kNoPort: they are dropped as "no-output"
    uint16_t punt_port = kNoPort;  ///< port for punted packets; kNoPort: `taps` say
    /// By port number: the tap that takes what is punted of the packets that came in there. Null: none does.
    std::shared_ptr<const std::vector<uint16_t>> taps;
    bool drop_malformed = true;
    std::optional<Reassembly> reassembly;  ///< of fragments before its functions; nothing: they see them as they are
    std::chrono::nanoseconds max_delay{100'000};
    uint32_t max_batch = 16384;
    schedule::GpuShare gpu_share;  ///< where devices have partitions: by the plan that is at work
    uint32_t inner = 0;            ///< kinds of tunnels (millrace::tunnel) whose inner headers its functions judge
    FieldPlan plan;
    std::shared_ptr<const std::vector<std::string>> port_names;  ///< by port number, of the whole configuration
    Location where;
    /// Finds each packet's chain; null: all packets begin at the first node.
    std::shared_ptr<const ClassificationTable> classifier;
    std::vector<Part> parts;              ///< then: by the chains' numbers
    std::vector<uint16_t> chain_of_node;  ///< then: the number of each node's chain
    std::vector<Stage> stages;            ///< then: of all nodes, in their order

    uint32_t head_growth() const;  ///< most bytes that a packet can grow at its head in this chain
    uint32_t tail_growth() const;
    /// In a program of one chain each node is a stage of its own.
    size_t stage_count() const { return parts.empty() ? nodes.size() : stages.size(); }
    Stage stage(size_t number) const {
        return parts.empty() ? Stage{static_cast<uint16_t>(number), 1} : stages[number];
    }
    size_t stage_of(uint16_t node) const;
    /// Where a packet that came in by this port goes when it is punted; kNoPort: it is dropped as "no-punt-port".
    uint16_t punt_port_of(uint16_t in_port) const {
        if (punt_port != kNoPort || taps == nullptr) return punt_port;
        return in_port < taps->size() ? (*taps)[in_port] : kNoPort;
    }
    bool emits_events() const { return emitters() > 0; }
    unsigned emitters() const { return emitters_from(0); }  ///< NFs that emit events
    unsigned emitters_from(size_t node) const;              ///< those of them from that node on
    size_t first_changed() const;  ///< the first node whose packets an NF before it may have changed; nodes.size():
                                   ///< none
    bool ordered() const;          ///< whether any NF needs the packets' order
    bool keyed() const;            ///< whether any NF has state per key
    bool reads_time() const;       ///< whether any NF looks at Packet::time_ns
};

inline bool Node::changes_state_in_no_order() const {
    if (type->ordered() || nf == nullptr) return false;
    for (const nf::Image::Array& array : nf->image().arrays())
        if (array.changing_bytes > 0) return true;
    return false;
}
inline uint32_t Program::head_growth() const {
    uint32_t bytes = 0, most = 0;
    for (const Node& node : nodes) bytes += node.growth().head;
    // A packet goes through one of the chains.
    for (const Part& part : parts) most = std::max(most, part.chain != nullptr ? part.chain->head_growth() : 0);
    return parts.empty() ? bytes : most;
}
inline uint32_t Program::tail_growth() const {
    uint32_t bytes = 0, most = 0;
    for (const Node& node : nodes) bytes += node.growth().tail;
    for (const Part& part : parts) most = std::max(most, part.chain != nullptr ? part.chain->tail_growth() : 0);
    return parts.empty() ? bytes : most;
}
inline size_t Program::stage_of(uint16_t node) const {
    if (parts.empty()) return node;
    const auto behind = std::upper_bound(stages.begin(), stages.end(), node,
                                         [](uint16_t number, const Stage& stage) { return number < stage.first; });
    return static_cast<size_t>(behind - stages.begin()) - 1;
}
inline unsigned Program::emitters_from(size_t node) const {
    unsigned count = 0;
    for (size_t i = 0; i < stage_count(); ++i) {
        // A packet meets one node of a stage.
        const Stage own = stage(i);
        if (own.first + own.count > node) count += nodes[own.first].type->emits_events;
    }
    return count;
}
inline size_t Program::first_changed() const {
    for (size_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].writes() != field::none) return i + 1;
    return nodes.size();
}
inline bool Program::keyed() const {
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.type->is_keyed(); });
}
inline bool Program::reads_time() const {
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.type->reads_time; });
}
inline bool Program::ordered() const {
    for (const Node& node : nodes)
        if (node.type->ordered()) return true;
    return false;
}

}  // namespace millrace::chain
