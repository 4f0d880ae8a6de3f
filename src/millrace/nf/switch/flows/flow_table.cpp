#include "millrace/nf/switch/flows/flow_table.hpp"

#include <algorithm>

namespace millrace::nf::flow_switch {

using Kind = FlowChange::Kind;

FlowTable::FlowTable(std::vector<Flow> flows, Counting counting) : counting_(std::move(counting)) {
    for (Flow& flow : flows)
        if (counting_.begin) counting_.begin(flow);
    replace(std::move(flows));
}

/// A flow is in the indexes; or is not any more.
void FlowTable::enter(const Flow& flow, uint32_t number) {
    index_.add(flow, number);
    if (flow.idle_timeout != 0 || flow.hard_timeout != 0)
        timed_.try_emplace(number, Use{flow.life.last_used, flow.life.packets_seen});
    for (const Action& action : flow.actions)
        if (action.kind == ActionKind::group || action.kind == ActionKind::meter)
            naming_[{action.kind, action.value}].insert(number);
}

void FlowTable::leave(const Flow& flow, uint32_t number) {
    index_.remove(flow, number);
    timed_.erase(number);
    for (const Action& action : flow.actions) {
        if (action.kind != ActionKind::group && action.kind != ActionKind::meter) continue;
        const auto found = naming_.find({action.kind, action.value});
        if (found == naming_.end()) continue;
        found->second.erase(number);
        if (found->second.empty()) naming_.erase(found);
    }
}

/// The flow with a number is this one from now on; null: there is none.
void FlowTable::set(uint32_t number, FlowPointer flow) {
    FlowPointer& place = flows_[number];
    if (undo_) {
        const auto use = timed_.find(number);
        undo_->push_back({number, place, use == timed_.end() ? std::nullopt : std::optional(use->second)});
    }
    if (place != nullptr) leave(*place, number);
    if ((place == nullptr) != (flow == nullptr)) holes_ += place == nullptr ? size_t(-1) : 1;
    place = std::move(flow);
    if (place != nullptr) enter(*place, number);
    noted_.push_back({number, place});
    if (noted_.size() > kMaxNoted) forget_all();
}

void FlowTable::undo() {
    const std::vector<Before> all = std::move(*undo_);
    undo_.reset();
    for (auto before = all.rbegin(); before != all.rend(); ++before) {
        set(before->number, before->flow);
        if (before->use) timed_[before->number] = *before->use;
    }
}

/// Nobody knows what has changed so far.
void FlowTable::forget_all() {
    noted_from_ = position() + 1;
    noted_.clear();
}

const Flow* FlowTable::find(const Flow& like) const {
    const std::vector<uint32_t> same = index_.same(flows_, like.match, like.priority);
    return same.empty() ? nullptr : flows_[same.front()].get();
}

std::vector<uint32_t> FlowTable::meant_by(const FlowChange& change) const {
    if (change.kind == Kind::modify || change.kind == Kind::remove) return index_.within(flows_, change.flow.match);
    std::vector<uint32_t> numbers = index_.same(flows_, change.flow.match, change.flow.priority);
    if (change.kind != Kind::remove_strict || change.flow.match.mask.table != 0) return numbers;
    // Of any table: those that differ in nothing else.
    Flow like;
    like.match = change.flow.match;
    for (unsigned table = 0; table < Flow::kTables; ++table) {
        like.set_table(static_cast<uint8_t>(table));
        const auto more = index_.same(flows_, like.match, change.flow.priority);
        numbers.insert(numbers.end(), more.begin(), more.end());
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

/// Makes the flow with a number the one that a change says, which does not remove it.
void FlowTable::change_one(uint32_t number, const FlowChange& change) {
    const Flow& before = *flows_[number];
    std::optional<Use> use;
    if (const auto found = timed_.find(number); found != timed_.end()) use = found->second;
    Flow flow = change.kind == Kind::add ? change.flow : before;
    if (change.kind == Kind::add) {
        flow.life.counter = before.life.counter;
        flow.life.packets_seen = use ? use->packets : before.life.packets_seen;
        flow.life.first_packets = before.life.first_packets;
        flow.life.first_bytes = before.life.first_bytes;
    } else {
        if (use) flow.life.last_used = use->last;
        if (use) flow.life.packets_seen = use->packets;
        flow.actions = change.flow.actions;
        flow.instructions = change.flow.instructions;
        flow.text = change.flow.text;
        flow.file = change.flow.file;
        flow.line = change.flow.line;
    }
    if (change.reset_counts && counting_.reset) counting_.reset(flow);
    set(number, std::make_shared<const Flow>(std::move(flow)));
}

size_t FlowTable::apply(const FlowChange& change, std::vector<FlowPointer>* removed) {
    size_t touched = 0;
    for (const uint32_t number : meant_by(change)) {
        if (change.kind != Kind::add && !change.filter.accepts(*flows_[number])) continue;
        ++touched;
        if (!change.removes()) {
            change_one(number, change);
            continue;
        }
        if (removed != nullptr) removed->push_back(flows_[number]);
        set(number, nullptr);
    }
    if (change.kind != Kind::add || touched != 0) return touched;
    Flow flow = change.flow;
    if (counting_.begin) counting_.begin(flow);
    flows_.emplace_back();
    ++holes_;
    set(static_cast<uint32_t>(flows_.size() - 1), std::make_shared<const Flow>(std::move(flow)));
    return 1;
}

void FlowTable::remove_naming(ActionKind kind, uint32_t id, std::vector<FlowPointer>& removed) {
    const auto found = naming_.find({kind, id});
    if (found == naming_.end()) return;
    for (const uint32_t number : std::set<uint32_t>(found->second)) {
        removed.push_back(flows_[number]);
        set(number, nullptr);
    }
}

size_t FlowTable::count_naming(ActionKind kind, uint32_t id) const {
    const auto found = naming_.find({kind, id});
    return found == naming_.end() ? 0 : found->second.size();
}

void FlowTable::expire(Clock::time_point now, const std::function<uint64_t(const Flow&)>& packets,
                       std::vector<FlowPointer>& old, std::vector<FlowPointer>& idle) {
    const auto over = [&](Clock::time_point since, uint16_t seconds) {
        return seconds != 0 && now - since >= std::chrono::seconds(seconds);
    };
    std::vector<uint32_t> gone;
    for (auto& [number, use] : timed_) {
        const Flow& flow = *flows_[number];
        if (over(flow.life.begin, flow.hard_timeout)) {
            old.push_back(flows_[number]);
            gone.push_back(number);
            continue;
        }
        if (flow.idle_timeout == 0) continue;
        if (const uint64_t counted = packets(flow); counted != use.packets) use = {now, counted};
        if (!over(use.last, flow.idle_timeout)) continue;
        idle.push_back(flows_[number]);
        gone.push_back(number);
    }
    for (const uint32_t number : gone) set(number, nullptr);
}

std::vector<Flow> FlowTable::copies() const {
    std::vector<Flow> copies;
    copies.reserve(size());
    for (uint32_t number = 0; number < flows_.size(); ++number) {
        if (flows_[number] == nullptr) continue;
        Flow& copy = copies.emplace_back(*flows_[number]);
        const auto use = timed_.find(number);
        if (use == timed_.end()) continue;
        copy.life.last_used = use->second.last;
        copy.life.packets_seen = use->second.packets;
    }
    return copies;
}

std::vector<NumberedFlow> FlowTable::numbered() const {
    std::vector<NumberedFlow> all;
    all.reserve(size());
    for (uint32_t number = 0; number < flows_.size(); ++number)
        if (flows_[number] != nullptr) all.push_back({number, flows_[number]});
    return all;
}

void FlowTable::renumber() {
    if (holes_ == 0) return;
    replace(copies());
}

void FlowTable::replace(std::vector<Flow> flows) {
    flows_.clear();
    index_.clear();
    timed_.clear();
    naming_.clear();
    holes_ = 0;
    flows_.reserve(flows.size());
    for (Flow& flow : flows) {
        flows_.push_back(std::make_shared<const Flow>(std::move(flow)));
        enter(*flows_.back(), static_cast<uint32_t>(flows_.size() - 1));
    }
    forget_all();
}

void FlowTable::restore(const std::vector<NumberedFlow>& flows) {
    const auto uses = std::move(timed_);
    replace({});
    for (const auto& [number, flow] : flows) {
        flows_.resize(number + size_t{1});
        flows_[number] = flow;
        enter(*flow, number);
        const auto use = uses.find(number);
        const auto timed = timed_.find(number);
        if (use != uses.end() && timed != timed_.end()) timed->second = use->second;
    }
    holes_ = flows_.size() - flows.size();
}

std::optional<std::span<const NumberedFlow>> FlowTable::changes_since(uint64_t position) const {
    if (position < noted_from_ || position > this->position()) return std::nullopt;
    return std::span(noted_).subspan(position - noted_from_);
}

void FlowTable::forget_before(uint64_t position) {
    constexpr size_t kAtOnce = 1024;  // what is left moves to the front
    if (position < noted_from_ + std::max(kAtOnce, noted_.size() / 2) || position > this->position()) return;
    noted_.erase(noted_.begin(), noted_.begin() + static_cast<ptrdiff_t>(position - noted_from_));
    noted_from_ = position;
}

}  // namespace millrace::nf::flow_switch
