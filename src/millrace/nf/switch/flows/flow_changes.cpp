#include "millrace/nf/switch/flows/flow_changes.hpp"

#include <algorithm>

#include "millrace/nf/switch/actions/action_list.hpp"
#include "millrace/nf/switch/text/words.hpp"

namespace millrace::nf::flow_switch {
namespace {

using Kind = FlowChange::Kind;

}  // namespace

bool MatchKeys::within(const MatchKeys& outer) const {
    for (unsigned i = 0; i < kWords; ++i)
        if ((outer.mask.words[i] & ~mask.words[i]) != 0 ||
            (value.words[i] & outer.mask.words[i]) != outer.value.words[i])
            return false;
    return true;
}

bool MatchKeys::overlap(const MatchKeys& other) const {
    for (unsigned i = 0; i < kWords; ++i)
        if (((value.words[i] ^ other.value.words[i]) & mask.words[i] & other.mask.words[i]) != 0) return false;
    return true;
}

bool Flow::is_table_miss() const {
    classify::WideFields fields = match.mask;
    fields.table = 0;
    const auto mask = classify::ternary_key<MatchKeys::kWords>(fields);
    return priority == 0 &&
           std::all_of(std::begin(mask.words), std::end(mask.words), [](uint32_t word) { return word == 0; });
}

bool FlowFilter::accepts(const Flow& flow) const {
    if ((flow.cookie & cookie_mask) != (cookie & cookie_mask)) return false;
    const auto any = [&](auto&& test) { return std::any_of(flow.actions.begin(), flow.actions.end(), test); };
    if (out_group &&
        !any([&](const Action& action) { return action.kind == ActionKind::group && action.value == *out_group; }))
        return false;
    return !out_port || any([&](const Action& action) {
        switch (action.kind) {
            case ActionKind::output: return action.value == *out_port;
            case ActionKind::output_set:
                if (*out_port == kInPort) return action.high != 0;
                if (*out_port == kFlood) return (action.low & WrittenOutputs::kFlood) != 0;
                if (*out_port == kAll) return (action.low & WrittenOutputs::kAll) != 0;
                return *out_port < kPortSetPorts && (action.low >> *out_port & 1) != 0;
            case ActionKind::controller: return *out_port == kToController;
            default: return false;
        }
    });
}

FlowChange parse_change(std::string_view line, const PortNumbers& ports) {
    constexpr struct {
        const char* name;
        Kind kind;
    } kKinds[] = {{"add", Kind::add},
                  {"modify", Kind::modify},
                  {"modify_strict", Kind::modify_strict},
                  {"delete", Kind::remove},
                  {"delete_strict", Kind::remove_strict}};
    FlowChange change;
    size_t begin = 0;
    const std::string_view first = line.substr(0, line.find_first_of(" \t"));
    for (const auto& known : kKinds) {
        if (first != known.name) continue;
        change.kind = known.kind;
        begin = first.size();
    }
    const std::string_view text = line.substr(begin);
    try {
        change.flow = change.removes() ? parse_match(text, ports) : parse_flow(text, ports);
        if (change.kind == Kind::remove_strict && change.flow.match.mask.table == 0) change.flow.set_table(0);
    } catch (WordMistake mistake) {
        mistake.offset += begin;
        throw mistake;
    }
    change.flow.text = Word{text, 0}.trimmed().text;
    return change;
}

std::string identity_of(const Flow& flow) {
    const MatchKeys keys(flow.match);
    // Most words ask for nothing.
    uint32_t asked[2 * MatchKeys::kWords + 1], count = 1;
    asked[0] = 0;
    for (unsigned i = 0; i < MatchKeys::kWords; ++i) {
        if (keys.mask.words[i] == 0) continue;
        asked[0] |= 1u << i;
        asked[count++] = keys.mask.words[i];
        asked[count++] = keys.value.words[i];
    }
    std::string identity(reinterpret_cast<const char*>(asked), count * sizeof *asked);
    return identity.append(reinterpret_cast<const char*>(&flow.priority), sizeof flow.priority);
}

}  // namespace millrace::nf::flow_switch
