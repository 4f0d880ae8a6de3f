#include "millrace/nf/switch/flow_changes.hpp"

#include "millrace/nf/switch/words.hpp"

namespace millrace::nf::flow_switch {
namespace {

using Kind = FlowChange::Kind;
using Key = classify::TernaryKey<15>;

/// Whether every packet of `inner` is one of `outer`.
bool within(const FlowMatch& inner, const FlowMatch& outer) {
    const Key value = classify::ternary_key<15>(inner.value), mask = classify::ternary_key<15>(inner.mask);
    const Key outer_value = classify::ternary_key<15>(outer.value), outer_mask = classify::ternary_key<15>(outer.mask);
    for (unsigned i = 0; i < 15; ++i)
        if ((outer_mask.words[i] & ~mask.words[i]) != 0 || (value.words[i] & outer_mask.words[i]) != outer_value.words[i]) return false;
    return true;
}

}  // namespace

FlowChange parse_change(std::string_view line, const PortNumbers& ports) {
    constexpr struct {
        const char* name;
        Kind kind;
    } kKinds[] = {{"add", Kind::add}, {"modify", Kind::modify}, {"modify_strict", Kind::modify_strict},
                  {"delete", Kind::remove}, {"delete_strict", Kind::remove_strict}};
    FlowChange change;
    size_t begin = 0;
    const std::string_view first = line.substr(0, line.find_first_of(" \t"));
    for (const auto& known : kKinds) {
        if (first != known.name) continue;
        change.kind = known.kind;
        begin = first.size();
    }
    const bool removes = change.kind == Kind::remove || change.kind == Kind::remove_strict;
    const std::string_view text = line.substr(begin);
    try {
        change.flow = removes ? parse_match(text, ports) : parse_flow(text, ports);
    } catch (WordMistake mistake) {
        mistake.offset += begin;
        throw mistake;
    }
    change.flow.text = Word{text, 0}.trimmed().text;
    return change;
}

std::string identity_of(const Flow& flow) {
    const Key value = classify::ternary_key<15>(flow.match.value), mask = classify::ternary_key<15>(flow.match.mask);
    std::string identity(reinterpret_cast<const char*>(&value), sizeof value);
    identity.append(reinterpret_cast<const char*>(&mask), sizeof mask);
    return identity + std::to_string(flow.priority);
}

FlowTable::FlowTable(std::vector<Flow> flows) : flows_(std::move(flows)), removed_(flows_.size()) {
    for (size_t i = 0; i < flows_.size(); ++i) by_identity_.emplace(identity_of(flows_[i]), i);
}

size_t FlowTable::apply(const FlowChange& change) {
    size_t touched = 0;
    const auto touch = [&](size_t i) {
        if (removed_[i]) return;
        ++touched;
        if (change.kind == Kind::remove || change.kind == Kind::remove_strict) {
            removed_[i] = true;
        } else {
            flows_[i].actions = change.flow.actions;
            flows_[i].text = change.flow.text;
            flows_[i].file = change.flow.file;
            flows_[i].line = change.flow.line;
            if (change.kind == Kind::add) flows_[i].cookie = change.flow.cookie;
        }
    };
    if (change.kind == Kind::modify || change.kind == Kind::remove) {
        for (size_t i = 0; i < flows_.size(); ++i)
            if (within(flows_[i].match, change.flow.match)) touch(i);
        return touched;
    }
    const std::string identity = identity_of(change.flow);
    const auto [first, last] = by_identity_.equal_range(identity);
    for (auto at = first; at != last; ++at) touch(at->second);
    if (change.kind == Kind::add && touched == 0) {
        by_identity_.emplace(identity, flows_.size());
        flows_.push_back(change.flow);
        removed_.push_back(false);
        ++touched;
    }
    return touched;
}

std::vector<Flow> FlowTable::take() {
    size_t kept = 0;
    for (size_t i = 0; i < flows_.size(); ++i) {
        if (removed_[i]) continue;
        if (kept != i) flows_[kept] = std::move(flows_[i]);
        ++kept;
    }
    flows_.resize(kept);
    return std::move(flows_);
}

}  // namespace millrace::nf::flow_switch
