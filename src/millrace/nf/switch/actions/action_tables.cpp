#include "millrace/nf/switch/actions/action_tables.hpp"

#include <algorithm>

#include "millrace/nf/switch/actions/instructions.hpp"

namespace millrace::nf::flow_switch {

GroupTables::GroupTables(std::vector<Group> groups, const std::vector<bool>& down, uint16_t ports)
    : groups_(std::move(groups)), down_(down) {
    std::vector<Switch::Group> by_slot;
    std::vector<Switch::Bucket> buckets;
    std::vector<Action> actions;
    for (const Group& group : groups_) {
        slots_.emplace(group.id, group.slot);
        if (by_slot.size() <= group.slot) by_slot.resize(group.slot + size_t{1}, {0, 0});
        const size_t first = buckets.size();
        for (const Group::Bucket& bucket : buckets_of(group, ports))
            buckets.insert(buckets.end(), bucket.weight,
                           {append(actions, bucket.actions), static_cast<uint32_t>(bucket.actions.size())});
        by_slot[group.slot] = {static_cast<uint32_t>(first), static_cast<uint32_t>(buckets.size() - first)};
    }
    by_slot_ = std::make_shared<const std::vector<Switch::Group>>(std::move(by_slot));
    buckets_ = std::make_shared<const std::vector<Switch::Bucket>>(std::move(buckets));
    actions_ = std::make_shared<const std::vector<Action>>(std::move(actions));
}

/// The buckets that packets choose from by their hash.
std::vector<Group::Bucket> GroupTables::buckets_of(const Group& group, uint16_t ports) const {
    if (group.type == Group::Type::all) {
        // Whoever made the group has seen to it that they can be merged.
        if (group.buckets.empty()) return {};
        return {{1, merge_buckets(group, ports)}};
    }
    if (group.type != Group::Type::fast_failover) return group.buckets;
    const std::optional<size_t> live = live_bucket(group);
    if (!live) return {};
    return {{1, group.buckets[*live].actions}};
}

std::optional<size_t> GroupTables::live_bucket(const Group& group) const {
    for (size_t i = 0; i < group.buckets.size(); ++i)
        if (is_live(group.buckets[i], 0)) return i;
    return std::nullopt;
}

bool GroupTables::is_live(const Group::Bucket& bucket, unsigned depth) const {
    if (bucket.watch_port) return *bucket.watch_port >= down_.size() || !down_[*bucket.watch_port];
    if (!bucket.watch_group) return true;
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const Group& group) { return group.id == *bucket.watch_group; });
    return found != groups_.end() && is_live(*found, depth + 1);
}

bool GroupTables::is_live(const Group& group, unsigned depth) const {
    constexpr unsigned kMaxDepth = 8;  // groups may watch each other
    return depth < kMaxDepth && std::any_of(
                                    group.buckets.begin(), group.buckets.end(),
                                    [&](const Group::Bucket& bucket) { return is_live(bucket, depth); });
}

uint32_t GroupTables::append(std::vector<Action>& actions, const std::vector<Action>& list,
                             const MeterTables* meters) const {
    const auto first = static_cast<uint32_t>(actions.size());
    for (Action action : list) {
        if (action.kind == ActionKind::group) action.value = slots_.at(action.value);
        if (action.kind == ActionKind::meter)
            action.value = meters == nullptr ? 0xffffffffu : meters->slot_of(action.value);
        actions.push_back(action);
    }
    return first;
}

void GroupTables::view(Switch::Tables& tables) const {
    tables.groups = {by_slot_->data(), by_slot_->size()};
    tables.buckets = {buckets_->data(), buckets_->size()};
    tables.group_actions = {actions_->data(), actions_->size()};
}

void GroupTables::attach(Image& image, Switch::Tables& tables) const {
    if (!by_slot_->empty()) image.attach(tables.groups, by_slot_);
    if (!buckets_->empty()) image.attach(tables.buckets, buckets_);
    if (!actions_->empty()) image.attach(tables.group_actions, actions_);
}

}  // namespace millrace::nf::flow_switch
