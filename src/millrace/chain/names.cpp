#include "millrace/chain/names.hpp"

#include <algorithm>

namespace millrace::chain {
namespace {

constexpr size_t kMaxNameBytes = 256;

}  // namespace

/// Names are shown on terminals and in logs.
std::string name_of(const Config& config, const char* what) {
    const std::string name = config.text();
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (name.empty()) config.fail(std::string(what) + " needs a name");
    if (name.size() > kMaxNameBytes) config.fail("this name has more than " + std::to_string(kMaxNameBytes) + " bytes");
    if (std::any_of(name.begin(), name.end(), is_control))
        config.fail("this name holds a control character", "use letters, digits, '-' and '_'");
    return name;
}

void check_name(const Program& program, const std::string& name, const Config& where) {
    for (const Node& other : program.nodes)
        if (other.name == name)
            where.fail("two network functions of this chain are named '" + name + "'", "give one of them a 'name:'");
    if (name == "next" || name == "output" || name == "drop" || name == "punt" || name.starts_with("port ") ||
        name.starts_with("chain "))
        where.fail("'" + name + "' can't be a network function's name", "under 'on:' it means something else");
}

uint16_t index_of(const Config& value, const std::string& name, const std::string& what,
                  const std::vector<std::string>& known) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) value.fail("there is no " + what + " '" + name + "'", near_or_all(name, known));
    return static_cast<uint16_t>(found - known.begin());
}

std::string near_or_all(const std::string& word, const std::vector<std::string>& known) {
    const std::string found = closest_word(word, known);
    if (!found.empty()) return "did you mean '" + found + "'?";
    std::string all;
    for (const std::string& name : known) all += (all.empty() ? "there is " : ", ") + name;
    return all;
}

Target read_target(const Program& program, size_t index, const Config& where, Target next, const KnownNames& names) {
    const std::string text = where.text();
    const auto behind = [&](const char* word) { return text.substr(std::string(word).size()); };
    if (text == "next") return next;
    if (text == "output") return {Target::Kind::output, 0};
    if (text == "drop") return {Target::Kind::drop, 0};
    if (text == "punt") return {Target::Kind::punt, 0};
    if (text.starts_with("port ")) return {Target::Kind::port, index_of(where, behind("port "), "port", names.ports)};
    if (text.starts_with("chain "))
        return {Target::Kind::chain, index_of(where, behind("chain "), "chain", names.chains)};
    for (size_t i = 0; i < program.nodes.size(); ++i) {
        if (program.nodes[i].name != text) continue;
        if (i <= index)
            where.fail("'" + text + "' comes before '" + program.nodes[index].name + "' in this chain",
                       "a packet can only go on to a later one");
        return {Target::Kind::node, static_cast<uint16_t>(i)};
    }
    where.fail("'" + text + "' leads nowhere",
               "next, output, drop, punt, 'port NAME', 'chain NAME', or the name of a later network function");
}

}  // namespace millrace::chain
