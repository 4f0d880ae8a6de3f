#include "millrace/chain/inner.hpp"

#include <iterator>

#include "millrace/packet/tunnels.hpp"

namespace millrace::chain {

void read_inner(const Config& kinds, Program& program) {
    std::vector<std::string> words(std::begin(tunnel::kNames), std::end(tunnel::kNames));
    words.emplace_back("any");
    for (const Config& kind : kinds.items()) {
        const size_t which = kind.choice(words);
        program.inner |= which < tunnel::kCount ? 1u << which : tunnel::kAny;
    }
    for (const Node& node : program.nodes)
        if (node.writes() != field::none)
            kinds.fail("'" + node.name + "' changes packets, and would do so within tunnels",
                       "put it into a chain of its own: 'on: {permit: chain NAME}'");
}

Fields fields_of_inner(const Program& program) { return program.inner != 0 ? field::payload : field::none; }

std::string inner_text(uint32_t kinds) {
    std::string text;
    for (unsigned i = 0; i < tunnel::kCount; ++i)
        if ((kinds >> i & 1) != 0) text += (text.empty() ? "" : ", ") + std::string(tunnel::kNames[i]);
    return text;
}

}  // namespace millrace::chain
