// Control of what OpenFlow 1.3 has beyond flows and groups: meters, links that groups watch, what each table misses.
#include <algorithm>

#include "millrace/nf/switch/control/control.hpp"

namespace millrace::nf::flow_switch {

/// Groups have come, gone or become others.
void Control::groups_changed() {
    group_tables_.reset();
    index_groups();
    watches_links_ = std::any_of(groups_.begin(), groups_.end(),
                                 [](const Group& group) { return group.type == Group::Type::fast_failover; });
}

uint64_t Control::add_now(Meter meter) {
    if (meters_.has(meter.id)) throw Refusal::meter_exists;
    if (meters_.size() >= Meter::kMaxMeters) throw Refusal::too_many_meters;
    meters_.put(std::move(meter), Clock::now());
    return ++version_;
}

uint64_t Control::modify_now(Meter meter) {
    if (!meters_.has(meter.id)) throw Refusal::no_meter_to_modify;
    meters_.put(std::move(meter), Clock::now());
    return ++version_;
}

uint64_t Control::remove_meter_now(std::optional<uint32_t> id) {
    changed_flows_or_groups();
    for (const Meter& meter : meters_.meters()) {
        if (id && meter.id != *id) continue;
        std::vector<FlowPointer> removed;
        table_.remove_naming(ActionKind::meter, meter.id, removed);
        went(removed, Removal::asked, Clock::now());
        meters_.remove(meter.id);
    }
    return version_;
}

void Control::refill_meters(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (meters_.refill(now)) ++version_;
}

void Control::set_down(std::vector<bool> down) {
    const std::lock_guard lock(mutex_);
    if (down == down_) return;
    down_ = std::move(down);
    if (!watches_links()) return;
    group_tables_.reset();
    changed_flows_or_groups();
}

std::vector<Meter> Control::meters() const {
    const std::lock_guard lock(mutex_);
    return meters_.meters();
}

MeterCounts Control::meter_counts(uint32_t id) const {
    const std::lock_guard lock(mutex_);
    return meters_.counts(id);
}

MeterCounts Control::band_counts(uint32_t id, size_t band) const {
    const std::lock_guard lock(mutex_);
    return meters_.band_counts(id, band);
}

size_t Control::flows_of_meter(uint32_t id) const {
    const std::lock_guard lock(mutex_);
    return table_.count_naming(ActionKind::meter, id);
}

bool Control::pipeline() const {
    const std::lock_guard lock(mutex_);
    return pipeline_;
}

std::map<uint8_t, TableCounts> Control::table_counts() const {
    const std::lock_guard lock(mutex_);
    std::map<uint8_t, TableCounts> all;
    for (const auto& [table, place] : miss_places_) {
        const uint64_t misses = counters_at_work_ == nullptr ? 0 : Counters::at(*counters_at_work_, place).packets;
        all[table].lookups = misses - std::min(misses, first_misses_.at(table));
    }
    for (const auto& [table, packets] : gone_matched_) all[table].matched += packets;
    table_.for_each([&](const Flow& flow) {
        TableCounts& counts = all[flow.table()];
        ++counts.flows;
        counts.matched += since_reset(flow, counters_at_work_).packets;
    });
    for (auto& [table, counts] : all) counts.lookups += counts.matched;
    return all;
}

/// Sees to it that what is not found in the tables of a flow, and where it leads, is counted.
void Control::count_misses_of(const Flow& flow) {
    if (!pipeline_) return;
    const auto count = [&](uint8_t table) {
        const auto [place, fresh] = miss_places_.try_emplace(table, 0);
        if (!fresh) return;
        place->second = counters_.take(at_work_);
        first_misses_[table] = Counters::at(*counters_.values(), place->second).packets;
        misses_.reset();
    };
    count(0);
    count(flow.table());
    for (const Action& action : flow.actions)
        if (action.kind == ActionKind::go_to) count(static_cast<uint8_t>(action.value));
}

}  // namespace millrace::nf::flow_switch
