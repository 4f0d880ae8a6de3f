#include "millrace/nf/switch/flow_changes.hpp"

#include <algorithm>
#include <tuple>

#include "millrace/nf/switch/words.hpp"

namespace millrace::nf::flow_switch {
namespace {

using Kind = FlowChange::Kind;
using Key = classify::TernaryKey<15>;

}  // namespace

bool within(const FlowMatch& inner, const FlowMatch& outer) {
    const Key value = classify::ternary_key<15>(inner.value), mask = classify::ternary_key<15>(inner.mask);
    const Key outer_value = classify::ternary_key<15>(outer.value), outer_mask = classify::ternary_key<15>(outer.mask);
    for (unsigned i = 0; i < 15; ++i)
        if ((outer_mask.words[i] & ~mask.words[i]) != 0 || (value.words[i] & outer_mask.words[i]) != outer_value.words[i]) return false;
    return true;
}

bool overlap(const FlowMatch& a, const FlowMatch& b) {
    const Key value_a = classify::ternary_key<15>(a.value), mask_a = classify::ternary_key<15>(a.mask);
    const Key value_b = classify::ternary_key<15>(b.value), mask_b = classify::ternary_key<15>(b.mask);
    for (unsigned i = 0; i < 15; ++i)
        if (((value_a.words[i] ^ value_b.words[i]) & mask_a.words[i] & mask_b.words[i]) != 0) return false;
    return true;
}

bool Flow::is_table_miss() const {
    const Key mask = classify::ternary_key<15>(match.mask);
    return priority == 0 && std::all_of(std::begin(mask.words), std::end(mask.words), [](uint32_t word) { return word == 0; });
}

bool FlowFilter::accepts(const Flow& flow) const {
    if ((flow.cookie & cookie_mask) != (cookie & cookie_mask)) return false;
    const auto any = [&](auto&& test) { return std::any_of(flow.actions.begin(), flow.actions.end(), test); };
    if (out_group && !any([&](const Action& action) { return action.kind == ActionKind::group && action.value == *out_group; })) return false;
    return !out_port || any([&](const Action& action) {
        switch (action.kind) {
            case ActionKind::output: return action.value == *out_port;
            case ActionKind::output_set: return *out_port < kPortSetPorts && (action.value >> *out_port & 1) != 0;
            case ActionKind::controller: return *out_port == kToController;
            default: return false;
        }
    });
}

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
        const std::string_view text = line.substr(begin);
    try {
        change.flow = change.removes() ? parse_match(text, ports) : parse_flow(text, ports);
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

std::vector<std::string> identities(const std::vector<Flow>& flows) {
    std::unordered_map<std::string, uint32_t> seen;
    std::vector<std::string> result;
    for (const Flow& flow : flows) {
        std::string identity = identity_of(flow);
        identity += "#" + std::to_string(seen[identity]++);
        result.push_back(std::move(identity));
    }
    return result;
}

FlowTable::FlowTable(std::vector<Flow> flows, Counted counted) : counted_(std::move(counted)), flows_(std::move(flows)) { index(); }

/// The flow's counters begin at 0.
void FlowTable::reset(Flow& flow) const {
    if (counted_) std::tie(flow.life.first_packets, flow.life.first_bytes) = counted_(flow);
}

void FlowTable::index() {
    removed_.assign(flows_.size(), false);
    holes_ = 0;
    by_identity_.clear();
    for (size_t i = 0; i < flows_.size(); ++i) by_identity_.emplace(identity_of(flows_[i]), i);
}

void FlowTable::remove(size_t i, std::vector<Flow>* removed) {
    removed_[i] = true;
    ++holes_;
    if (removed != nullptr) removed->push_back(flows_[i]);
}

Flow* FlowTable::find(const std::string& identity) {
    const auto [first, last] = by_identity_.equal_range(identity);
    for (auto at = first; at != last; ++at)
        if (!removed_[at->second]) return &flows_[at->second];
    return nullptr;
}

size_t FlowTable::apply(const FlowChange& change, std::vector<Flow>* removed) {
    size_t touched = 0;
    const auto touch = [&](size_t i) {
        Flow& flow = flows_[i];
        if (removed_[i] || (change.kind != Kind::add && !change.filter.accepts(flow))) return;
        ++touched;
        if (change.removes()) return remove(i, removed);
        if (change.kind == Kind::add) {
            const Flow::Life before = flow.life;
            flow = change.flow;
            flow.life.first_packets = before.first_packets;
            flow.life.first_bytes = before.first_bytes;
            if (change.reset_counts) reset(flow);
            return;
        }
        flow.actions = change.flow.actions;
        flow.instructions = change.flow.instructions;
        flow.text = change.flow.text;
        flow.file = change.flow.file;
        flow.line = change.flow.line;
        if (change.reset_counts) reset(flow);
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
        reset(flows_.back());
        removed_.push_back(false);
        ++touched;
    }
    return touched;
}

std::vector<Flow>& FlowTable::flows() {
    if (holes_ == 0) return flows_;
    size_t kept = 0;
    for (size_t i = 0; i < flows_.size(); ++i) {
        if (removed_[i]) continue;
        if (kept != i) flows_[kept] = std::move(flows_[i]);
        ++kept;
    }
    flows_.resize(kept);
    index();
    return flows_;
}

}  // namespace millrace::nf::flow_switch
