// Control of changes: one by one, and several at once.
#include <utility>

#include "millrace/nf/switch/control/control.hpp"

namespace millrace::nf::flow_switch {

uint64_t Control::change(FlowChange change, bool check_overlap, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    return change_now(std::move(change), check_overlap, now);
}

uint64_t Control::add_group(Group group) {
    const std::lock_guard lock(mutex_);
    return add_now(std::move(group));
}

uint64_t Control::modify_group(Group group) {
    const std::lock_guard lock(mutex_);
    return modify_now(std::move(group));
}

uint64_t Control::remove_group(std::optional<uint32_t> id) {
    const std::lock_guard lock(mutex_);
    return remove_group_now(id);
}

uint64_t Control::add_meter(Meter meter) {
    const std::lock_guard lock(mutex_);
    return add_now(std::move(meter));
}

uint64_t Control::remove_meter(std::optional<uint32_t> id) {
    const std::lock_guard lock(mutex_);
    return remove_meter_now(id);
}

uint64_t Control::make_now(Change change) {
    if (auto* const flow = std::get_if<AskedFlowChange>(&change))
        return change_now(std::move(flow->change), flow->check_overlap, Clock::now());
    if (auto* const group = std::get_if<GroupChange>(&change)) {
        if (group->kind == TableChange::remove) return remove_group_now(group->id);
        return group->kind == TableChange::add ? add_now(std::move(group->group)) : modify_now(std::move(group->group));
    }
    auto& meter = std::get<MeterChange>(change);
    if (meter.kind == TableChange::remove) return remove_meter_now(meter.id);
    return meter.kind == TableChange::add ? add_now(std::move(meter.meter)) : modify_now(std::move(meter.meter));
}

uint64_t Control::make(Change change) {
    const std::lock_guard lock(mutex_);
    return make_now(std::move(change));
}

/// What there was before several changes. Flows are not among it: their table knows itself what it has been.
struct Control::Before {
    std::vector<Group> groups;
    std::optional<MeterRates> meters;
    bool has_groups = false;
    std::map<uint8_t, uint64_t> gone_matched;
    size_t going;
    uint64_t changed_flows;
};

uint64_t Control::make_all(std::vector<Change> changes) {
    const std::lock_guard lock(mutex_);
    Before before{.groups = {},
                  .meters = {},
                  .gone_matched = gone_matched_,
                  .going = going_.size(),
                  .changed_flows = changed_flows_};
    table_.begin_undo();
    for (size_t i = 0; i < changes.size(); ++i) {
        // Copies are made of what may change only.
        if (std::holds_alternative<GroupChange>(changes[i]) && !std::exchange(before.has_groups, true))
            before.groups = groups_;
        if (std::holds_alternative<MeterChange>(changes[i]) && !before.meters) before.meters = meters_;
        try {
            make_now(std::move(changes[i]));
        } catch (const Refusal& refusal) {
            take_back(std::move(before));
            throw RefusedChange{i, refusal};
        }
    }
    table_.end_undo();
    return version_;
}

void Control::take_back(Before before) {
    table_.undo();
    if (before.has_groups) {
        groups_ = std::move(before.groups);
        groups_changed();
    }
    if (before.meters) meters_ = std::move(*before.meters);
    gone_matched_ = std::move(before.gone_matched);
    going_.erase(going_.begin() + static_cast<ptrdiff_t>(before.going), going_.end());
    changed_flows_ = before.changed_flows;
    keep_only_own_counters();
}

}  // namespace millrace::nf::flow_switch
