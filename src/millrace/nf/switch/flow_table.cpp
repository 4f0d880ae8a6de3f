#include "millrace/nf/switch/flow_table.hpp"

#include <algorithm>

namespace millrace::nf::flow_switch {

using Kind = FlowChange::Kind;

FlowTable::FlowTable(std::vector<Flow> flows, Counting counting) : counting_(std::move(counting)) {
    for (Flow& flow : flows)
        if (counting_.begin) counting_.begin(flow);
    replace(std::move(flows));
}

void FlowTable::index() {
    removed_.assign(flows_.size(), false);
    holes_ = 0;
    by_identity_.clear();
    keys_.clear();
    keys_.reserve(flows_.size());
    for (size_t i = 0; i < flows_.size(); ++i) {
        keys_.emplace_back(flows_[i].match);
        by_identity_.emplace(identity_of(flows_[i]), i);
    }
}

/// Notes that the flow with a number is another one, or not there any more.
void FlowTable::note(size_t i) {
    if (!noted_) return;
    const auto [at, fresh] = change_of_.try_emplace(i, changes_.size());
    if (fresh) changes_.push_back({static_cast<uint32_t>(i), nullptr});
    changes_[at->second].flow = removed_[i] ? nullptr : std::make_shared<const Flow>(flows_[i]);
    if (changes_.size() <= kMaxNoted) return;
    noted_ = false;
    changes_.clear();
    change_of_.clear();
}

void FlowTable::remove(size_t i, std::vector<Flow>* removed) {
    const auto [first, last] = by_identity_.equal_range(identity_of(flows_[i]));
    by_identity_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == i; }));
    removed_[i] = true;
    ++holes_;
    if (removed != nullptr) removed->push_back(std::move(flows_[i]));
    flows_[i] = Flow{};
    note(i);
}

const Flow* FlowTable::find(const Flow& like) const {
    const auto found = by_identity_.find(identity_of(like));
    return found == by_identity_.end() ? nullptr : &flows_[found->second];
}

bool FlowTable::overlaps(const Flow& flow) const {
    const MatchKeys keys(flow.match);
    for (size_t i = 0; i < flows_.size(); ++i)
        if (!removed_[i] && flows_[i].priority == flow.priority && keys_[i].overlap(keys)) return true;
    return false;
}

/// Does a change to a flow that it means; false where its filter leaves the flow out.
bool FlowTable::touch(size_t i, const FlowChange& change, std::vector<Flow>* removed) {
    Flow& flow = flows_[i];
    if (change.kind != Kind::add && !change.filter.accepts(flow)) return false;
    if (change.removes()) {
        remove(i, removed);
        return true;
    }
    if (change.kind == Kind::add) {
        const Flow::Life before = flow.life;
        flow = change.flow;
        flow.life.counter = before.counter;
        flow.life.packets_seen = before.packets_seen;
        flow.life.first_packets = before.first_packets;
        flow.life.first_bytes = before.first_bytes;
    } else {
        flow.actions = change.flow.actions;
        flow.instructions = change.flow.instructions;
        flow.text = change.flow.text;
        flow.file = change.flow.file;
        flow.line = change.flow.line;
    }
    if (change.reset_counts && counting_.reset) counting_.reset(flow);
    note(i);
    return true;
}

size_t FlowTable::apply(const FlowChange& change, std::vector<Flow>* removed) {
    size_t touched = 0;
    if (change.kind == Kind::modify || change.kind == Kind::remove) {
        const MatchKeys outer(change.flow.match);
        for (size_t i = 0; i < flows_.size(); ++i)
            if (!removed_[i] && keys_[i].within(outer)) touched += touch(i, change, removed);
        return touched;
    }
    if (change.flow.match.mask.table == 0 && change.kind == Kind::remove_strict) {
        // Of any table: those that differ in nothing else.
        const std::string wanted = identity_of(change.flow);
        for (size_t i = 0; i < flows_.size(); ++i) {
            if (removed_[i] || flows_[i].priority != change.flow.priority) continue;
            Flow like;
            like.match = flows_[i].match;
            like.priority = flows_[i].priority;
            like.match.mask.table = like.match.value.table = 0;
            if (identity_of(like) == wanted) touched += touch(i, change, removed);
        }
        return touched;
    }
    std::string identity = identity_of(change.flow);
    const auto [first, last] = by_identity_.equal_range(identity);
    std::vector<size_t> same;
    for (auto at = first; at != last; ++at) same.push_back(at->second);
    for (const size_t i : same) touched += touch(i, change, removed);
    if (change.kind != Kind::add || touched != 0) return touched;
    by_identity_.emplace(std::move(identity), flows_.size());
    flows_.push_back(change.flow);
    keys_.emplace_back(change.flow.match);
    removed_.push_back(false);
    if (counting_.begin) counting_.begin(flows_.back());
    note(flows_.size() - 1);
    return 1;
}

std::vector<Flow> FlowTable::take() {
    renumber();
    return std::move(flows_);
}

const std::vector<Flow>& FlowTable::renumber() {
    if (holes_ > 0) {
        size_t kept = 0;
        for (size_t i = 0; i < flows_.size(); ++i) {
            if (removed_[i]) continue;
            if (kept != i) flows_[kept] = std::move(flows_[i]);
            ++kept;
        }
        flows_.resize(kept);
        index();
    }
    noted_ = true;
    changes_.clear();
    change_of_.clear();
    return flows_;
}

void FlowTable::replace(std::vector<Flow> flows, bool known) {
    flows_ = std::move(flows);
    index();
    renumber();
    noted_ = known;
}

void FlowTable::restore(std::vector<Flow> numbered, std::vector<NumberedChange> changes) {
    size_t count = numbered.size();
    for (const NumberedChange& change : changes) count = std::max<size_t>(count, change.number + size_t{1});
    std::vector<bool> gone(count);
    std::fill(gone.begin() + static_cast<ptrdiff_t>(numbered.size()), gone.end(), true);
    numbered.resize(count);
    for (const NumberedChange& change : changes) {
        gone[change.number] = change.flow == nullptr;
        numbered[change.number] = change.flow == nullptr ? Flow{} : *change.flow;
    }
    replace(std::move(numbered));
    std::vector<Flow> nowhere;
    for (size_t i = 0; i < count; ++i)
        if (gone[i]) remove(i, &nowhere);
    noted_ = true;
    change_of_.clear();
    changes_ = std::move(changes);
    for (size_t i = 0; i < changes_.size(); ++i) change_of_.emplace(changes_[i].number, i);
}

}  // namespace millrace::nf::flow_switch
