#include "millrace/chain/classification/classified.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

#include "millrace/chain/classification/classification_table.hpp"

namespace millrace::chain {
namespace {

/// The chains that packets of ports reach whose headers decide, by number.
std::vector<bool> chains_behind(const Classification& classification, uint16_t ports, size_t chains) {
    std::vector<bool> reached(chains);
    for (uint16_t port = 0; port < ports; ++port) {
        if (!classification.uses_port(port) || classification.chain_of_port(port) != kNoChain) continue;
        for (const ClassificationRule& rule : classification.rules())
            if (rule.port == kNoPort || rule.port == port) reached[rule.chain] = true;
    }
    return reached;
}

/// Whether functions may be neighbours in a stage: the same code for whatever tables. Batches number packets for a
/// whole stage at once, by keys that all of its functions have in one array.
bool differ_in_tables_only(const Node& one, const Node& other) {
    if (one.changes_state_in_no_order() || other.changes_state_in_no_order()) return false;
    const nf::Type& type = *one.type;
    if (!type.ordered()) return type.commit == nullptr;
    return type.numbered() && one.nf->commits() == other.nf->commits() &&
           type.tickets(one.nf->image().tables()).data() == type.tickets(other.nf->image().tables()).data();
}

/// Whether functions have the very same tables. A padding byte that differs says no, which costs a stage.
bool have_same_tables(const nf::NetworkFunction& one, const nf::NetworkFunction& other) {
    const nf::Image &a = one.image(), &b = other.image();
    const auto is_same = [](const nf::Image::Array& x, const nf::Image::Array& y) {
        return x.data == y.data && x.count == y.count && x.member_offset == y.member_offset;
    };
    return a.tables_bytes() == b.tables_bytes() && std::memcmp(a.tables(), b.tables(), a.tables_bytes()) == 0 &&
           std::ranges::equal(a.arrays(), b.arrays(), is_same);
}

/// Whether chains can share all of their stages.
bool are_alike(const Program& one, const Program& other) {
    return std::ranges::equal(one.nodes, other.nodes, [](const Node& a, const Node& b) {
        // A block keeps tables in its memory, of all packets that it has.
        const bool in_block = a.type->block_bytes > 0 && !a.type->block_is_constant;
        return a.type == b.type && a.lanes == b.lanes && a.targets == b.targets && differ_in_tables_only(a, b) &&
               (!in_block || have_same_tables(*a.nf, *b.nf));
    });
}

/// Whether functions of different stages have state in the same array: batches go through each stage with an order on
/// its own.
bool have_state_in_common(const std::vector<std::vector<std::shared_ptr<const Program>>>& kinds) {
    std::set<const void*> known;
    for (const auto& alike : kinds)
        for (size_t at = 0; at < alike.front()->nodes.size(); ++at) {
            std::set<const void*> own;
            for (const auto& chain : alike)
                for (const nf::Image::Array& array : chain->nodes[at].nf->image().arrays())
                    if (array.is_state()) own.insert(array.data);
            for (const void* const array : own)
                if (!known.insert(array).second) return true;
        }
    return false;
}

/// Appends chains that are alike: all of their first nodes, then all of their second ones, and so on.
void append(Program& program, const std::vector<std::shared_ptr<const Program>>& alike, std::vector<Entry>& entries) {
    const auto first = static_cast<uint16_t>(program.nodes.size()), count = static_cast<uint16_t>(alike.size());
    const size_t length = alike.front()->nodes.size();
    for (uint16_t k = 0; k < count; ++k) {
        const std::shared_ptr<const Program>& chain = alike[k];
        Entry& entry = entries[chain->index];
        entry.chain = chain->index;
        if (length > 0) {
            entry.node = static_cast<uint16_t>(first + k);
            // A chain without functions looks into no packet, so none is malformed to it.
            entry.drop_malformed = chain->drop_malformed;
        }
        program.parts[chain->index] = {chain, static_cast<uint16_t>(first + k), count};
        program.max_delay = std::min(program.max_delay, chain->max_delay);
        program.max_batch = std::max(program.max_batch, chain->max_batch);
    }
    for (size_t at = 0; at < length; ++at) {
        program.stages.push_back({static_cast<uint16_t>(program.nodes.size()), count});
        for (uint16_t k = 0; k < count; ++k) {
            Node node = alike[k]->nodes[at];
            for (Target& target : node.targets)
                if (target.kind == Target::Kind::node)
                    target.value = static_cast<uint16_t>(first + target.value * count + k);
            program.nodes.push_back(std::move(node));
            program.chain_of_node.push_back(alike[k]->index);
        }
    }
}

/// Whether packets may come to a chain without a classification: from a port, from another chain, from a controller.
bool is_entered_by_itself(const Configuration& configuration, const Program& chain) {
    const auto ports = static_cast<uint16_t>(configuration.port_names.size());
    for (uint16_t port = 0; port < ports; ++port)
        if (configuration.classification.chain_of_port(port) == chain.index) return true;
    for (const Node& node : chain.nodes)
        if (node.nf->punt_taker() != nullptr) return true;
    const Target to_chain{Target::Kind::chain, chain.index};
    return std::ranges::any_of(configuration.chains, [&](const auto& other) {
        return std::ranges::any_of(other->nodes, [&](const Node& node) {
            return std::ranges::find(node.targets, to_chain) != node.targets.end();
        });
    });
}

}  // namespace

std::vector<std::shared_ptr<const Program>> programs_of(const Configuration& configuration) {
    if (configuration.classified == nullptr) return configuration.chains;
    std::vector<std::shared_ptr<const Program>> programs = {configuration.classified};
    std::ranges::copy_if(configuration.chains, std::back_inserter(programs),
                         [&](const auto& chain) { return is_entered_by_itself(configuration, *chain); });
    return programs;
}

std::shared_ptr<const Program> make_classified(const Configuration& configuration) {
    const Classification& classification = configuration.classification;
    if (classification.table() == nullptr) return nullptr;
    const auto ports = static_cast<uint16_t>(configuration.port_names.size());
    const std::vector<bool> reached = chains_behind(classification, ports, configuration.chains.size());
    size_t nodes = 0, stages = 0;
    std::set<const void*> states;
    std::vector<std::vector<std::shared_ptr<const Program>>> kinds;  // chains that are alike
    for (const auto& chain : configuration.chains) {
        if (!reached[chain->index]) continue;
        // Fragments are put together by workers, behind the classification, and tunnels entered behind it. Tenants'
        // functions run elsewhere.
        if (chain->reassembly || chain->inner != 0 || chain->is_tenants) return nullptr;
        nodes += chain->nodes.size();
        for (const Node& node : chain->nodes)
            for (const nf::Image::Array& array : node.nf->image().arrays())
                if (array.changing_bytes > 0) states.insert(array.data);
        const auto kind = std::ranges::find_if(kinds,
                                               [&](const auto& other) { return are_alike(*other.front(), *chain); });
        if (kind != kinds.end()) {
            kind->push_back(chain);
            continue;
        }
        kinds.push_back({chain});
        stages += chain->nodes.size();
    }
    if (nodes > kMaxNodes || stages > kMaxStages || states.size() > kMaxStateArrays) return nullptr;
    if (have_state_in_common(kinds)) return nullptr;

    auto program = std::make_shared<Program>();
    program->name = kClassifiedName;
    program->index = kNoChain;
    program->generation = configuration.generation;
    program->max_delay = std::chrono::nanoseconds::max();
    program->max_batch = 1;
    program->drop_malformed = false;  // as each chain says
    program->port_names = std::make_shared<const std::vector<std::string>>(configuration.port_names);
    program->parts.resize(configuration.chains.size());
    std::vector<Entry> entries(configuration.chains.size());
    // Whatever one chain brings across, all packets bring.
    FieldPlan::Step crossing{Classifier::reads | field::parsed, {}};
    for (const auto& alike : kinds) {
        append(*program, alike, entries);
        for (const auto& chain : alike) {
            crossing.to_device = crossing.to_device | chain->plan.to_device_total();
            crossing.to_host = crossing.to_host | chain->plan.to_host_total();
        }
    }
    program->plan.before = {{crossing.to_device, {}}};
    program->plan.at_end = crossing.to_host;
    program->classifier = std::make_shared<const ClassificationTable>(*classification.table(), std::move(entries));
    return program;
}

}  // namespace millrace::chain
