// Actions, groups and buckets as device code reads them.
#pragma once

#include <algorithm>

#include "millrace/nf/switch/device.hpp"
#include "millrace/nf/switch/flow.hpp"

namespace millrace::nf::flow_switch {

/// Lists of actions side by side, with the groups that they lead to, which must be among those it is made from.
class ActionTables {
public:
    explicit ActionTables(const std::vector<Group>& from) {
        for (const Group& group : from) {
            ids_.push_back(group.id);
            const size_t first = buckets.size();
            for (const Group::Bucket& bucket : group.buckets)
                buckets.insert(buckets.end(), bucket.weight, {append(bucket.actions), static_cast<uint32_t>(bucket.actions.size())});
            groups.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(buckets.size() - first)});
        }
    }

    /// Returns where the list begins.
    uint32_t append(const std::vector<Action>& list) {
        const auto first = static_cast<uint32_t>(actions.size());
        for (Action action : list) {
            if (action.kind == ActionKind::group) action.value = static_cast<uint32_t>(std::find(ids_.begin(), ids_.end(), action.value) - ids_.begin());
            actions.push_back(action);
        }
        return first;
    }

    /// Views of what is there; no flows.
    Switch::Tables tables() const {
        Switch::Tables tables{};
        tables.actions = {actions.data(), actions.size()};
        tables.groups = {groups.data(), groups.size()};
        tables.buckets = {buckets.data(), buckets.size()};
        return tables;
    }

    std::vector<Action> actions;
    std::vector<Switch::Group> groups;
    std::vector<Switch::Bucket> buckets;

private:
    std::vector<uint32_t> ids_;
};

}  // namespace millrace::nf::flow_switch
