#include "millrace/chain/frames/uncut_frames.hpp"

#include <algorithm>

namespace millrace::chain {
namespace {

/// The chains that packets of a port may be classified into.
std::vector<uint16_t> chains_of(const Configuration& configuration, uint16_t port) {
    const Classification& lines = configuration.classification;
    if (lines.chain_of_port(port) != kNoChain) return {lines.chain_of_port(port)};
    std::vector<uint16_t> chains;
    for (const ClassificationRule& line : lines.rules())
        if (line.port == port || line.port == kNoPort) chains.push_back(line.chain);
    return chains;
}

}  // namespace

const Node* first_to_want_segments(const Program& program) {
    const auto found = std::ranges::find_if(program.nodes, [](const Node& node) { return !node.nf->takes_uncut(); });
    return found == program.nodes.end() ? nullptr : &*found;
}

bool takes_uncut(const Configuration& configuration, uint16_t port) {
    std::vector<uint16_t> chains = chains_of(configuration, port);
    std::vector<bool> seen(configuration.chains.size());
    while (!chains.empty()) {
        const uint16_t number = chains.back();
        chains.pop_back();
        if (seen[number]) continue;
        seen[number] = true;
        const Program& program = *configuration.chains[number];
        if (first_to_want_segments(program) != nullptr) return false;
        for (const Node& node : program.nodes)
            for (const Target& target : node.targets)
                if (target.kind == Target::Kind::chain) chains.push_back(target.value);
    }
    return true;
}

}  // namespace millrace::chain
