#include "millrace/nf/switch/action_tables.hpp"

#include <algorithm>

namespace millrace::nf::flow_switch {

GroupTables::GroupTables(std::vector<Group> groups) : groups_(std::move(groups)) {
    std::vector<Switch::Group> by_slot;
    std::vector<Switch::Bucket> buckets;
    std::vector<Action> actions;
    for (const Group& group : groups_) {
        slots_.emplace(group.id, group.slot);
        if (by_slot.size() <= group.slot) by_slot.resize(group.slot + size_t{1}, {0, 0});
        const size_t first = buckets.size();
        for (const Group::Bucket& bucket : group.buckets)
            buckets.insert(buckets.end(), bucket.weight,
                           {append(actions, bucket.actions), static_cast<uint32_t>(bucket.actions.size())});
        by_slot[group.slot] = {static_cast<uint32_t>(first), static_cast<uint32_t>(buckets.size() - first)};
    }
    by_slot_ = std::make_shared<const std::vector<Switch::Group>>(std::move(by_slot));
    buckets_ = std::make_shared<const std::vector<Switch::Bucket>>(std::move(buckets));
    actions_ = std::make_shared<const std::vector<Action>>(std::move(actions));
}

uint32_t GroupTables::append(std::vector<Action>& actions, const std::vector<Action>& list) const {
    const auto first = static_cast<uint32_t>(actions.size());
    for (Action action : list) {
        if (action.kind == ActionKind::group) action.value = slots_.at(action.value);
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
