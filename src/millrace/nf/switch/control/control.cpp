#include "millrace/nf/switch/control/control.hpp"

#include <algorithm>
#include <unordered_map>

#include "millrace/nf/switch/text/match_field.hpp"
#include "millrace/nf/switch/pipeline.hpp"

namespace millrace::nf::flow_switch {
namespace {

constexpr uint16_t kSendFlowRemoved = 1;  // OFPFF_SEND_FLOW_REM
constexpr auto kExpiryInterval = std::chrono::milliseconds(250);

/// Gives groups the slots in order; the tables of flows are to be made anew.
void number_groups(std::vector<Group>& groups) {
    for (size_t i = 0; i < groups.size(); ++i) groups[i].slot = static_cast<uint32_t>(i);
}

}  // namespace

namespace {

std::vector<Flow> begun(std::vector<Flow> flows) {
    const Control::Clock::time_point now = Control::Clock::now();
    for (Flow& flow : flows) flow.life.begin = flow.life.last_used = now;
    return flows;
}

}  // namespace

Control::Control(PortNumbers ports, FlowSet set, size_t max_flows, size_t room, bool pipeline)
    : ports_(std::move(ports)), max_flows_(max_flows), pipeline_(pipeline), counters_(std::max(room, set.flows.size())),
      table_(begun(std::move(set.flows)),
             {[this](Flow& flow) { begin_counting(flow); },
              [this](Flow& flow) {
                  const Counters::Counts counts = counted(flow);
                  gone_matched_[flow.table()] += since_reset(flow, counters_at_work_).packets;
                  flow.life.first_packets = counts.packets;
                  flow.life.first_bytes = counts.bytes;
              }}),
      groups_(std::move(set.groups)) {
    number_groups(groups_);
    groups_changed();
    table_.for_each([this](const Flow& flow) { count_misses_of(flow); });
    for (Meter& meter : set.meters) meters_.put(std::move(meter), Clock::now());
}

uint64_t Control::changed_flows_or_groups() { return flow_version_ = ++version_; }

/// Gives a flow a place for its counters, which begin at 0.
void Control::begin_counting(Flow& flow) {
    flow.life.counter = counters_.take(at_work_);
    const Counters::Counts counts = Counters::at(*counters_.values(), flow.life.counter);
    flow.life.first_packets = flow.life.packets_seen = counts.packets;
    flow.life.first_bytes = counts.bytes;
}

PortNumbers Control::ports() const {
    const std::lock_guard lock(mutex_);
    return ports_;
}

Control::Address Control::address() const {
    const std::lock_guard lock(mutex_);
    return address_;
}

void Control::set_address(Address address) {
    const std::lock_guard lock(mutex_);
    address_ = std::move(address);
}

void Control::set_max_flows(size_t most) {
    const std::lock_guard lock(mutex_);
    max_flows_ = most;
}

size_t Control::max_flows() const {
    const std::lock_guard lock(mutex_);
    return max_flows_;
}

std::vector<Group>::iterator Control::find_group(uint32_t id) {
    const auto found = group_index_.find(id);
    return found == group_index_.end() ? groups_.end() : groups_.begin() + static_cast<ptrdiff_t>(found->second);
}

void Control::index_groups() {
    group_index_.clear();
    for (size_t i = 0; i < groups_.size(); ++i) group_index_.emplace(groups_[i].id, i);
}

uint64_t Control::change_now(FlowChange change, bool check_overlap, Clock::time_point now) {
    if (!pipeline_ && needs_pipeline(change.flow)) throw Refusal::no_pipeline;
    for (const Action& action : change.flow.actions)
        if (action.kind == ActionKind::group && find_group(action.value) == groups_.end()) throw Refusal::no_group;
        else if (action.kind == ActionKind::meter && !meters_.has(action.value)) throw Refusal::no_meter;
    if (change.kind == FlowChange::Kind::add) {
        if (check_overlap && table_.overlaps(change.flow)) throw Refusal::overlap;
        if (table_.size() >= max_flows_ && table_.find(change.flow) == nullptr) throw Refusal::table_full;
        change.flow.life.begin = change.flow.life.last_used = now;
    }
    changed_flows_or_groups();
    if (!change.removes()) count_misses_of(change.flow);
    std::vector<FlowPointer> removed;
    changed_flows_ += table_.apply(change, &removed);
    went(removed, Removal::asked, now);
    return version_;
}

uint64_t Control::add_now(Group group) {
    if (!pipeline_ && needs_pipeline(group)) throw Refusal::no_pipeline;
    if (find_group(group.id) != groups_.end()) throw Refusal::group_exists;
    if (groups_.size() >= kMaxGroups) throw Refusal::too_many_groups;
    std::vector<bool> taken(groups_.size() + 1);
    for (const Group& other : groups_)
        if (other.slot < taken.size()) taken[other.slot] = true;
    group.slot = static_cast<uint32_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
    group.begin = Clock::now();
    groups_.push_back(std::move(group));
    groups_changed();
    return changed_flows_or_groups();
}

uint64_t Control::modify_now(Group group) {
    if (!pipeline_ && needs_pipeline(group)) throw Refusal::no_pipeline;
    const auto found = find_group(group.id);
    if (found == groups_.end()) throw Refusal::no_group_to_modify;
    group.begin = found->begin;
    group.slot = found->slot;
    *found = std::move(group);
    groups_changed();
    return changed_flows_or_groups();
}

uint64_t Control::remove_group_now(std::optional<uint32_t> id) {
    changed_flows_or_groups();
    std::erase_if(groups_, [&](const Group& group) {
        if (id && group.id != *id) return false;
        std::vector<FlowPointer> removed;
        table_.remove_naming(ActionKind::group, group.id, removed);
        went(removed, Removal::group_removed, Clock::now());
        return true;
    });
    groups_changed();
    return version_;
}

uint64_t Control::version() const {
    const std::lock_guard lock(mutex_);
    return version_;
}

std::pair<uint64_t, uint64_t> Control::versions() const {
    const std::lock_guard lock(mutex_);
    return {version_, flow_version_};
}

Control::Progress Control::progress(uint64_t version) const {
    const std::lock_guard lock(mutex_);
    if (version > at_work_) return Progress::waits;
    return version > refused_after_ && version <= refused_until_ ? Progress::refused : Progress::at_work;
}

/// What stands where the generation at work counts a flow.
Counters::Counts Control::counted(const Flow& flow) const {
    return counters_at_work_ == nullptr ? Counters::Counts{} : Counters::at(*counters_at_work_, flow.life.counter);
}

/// What a flow has counted. A generation with more room for counters may begin with less than the one before had at
/// last.
Counters::Counts Control::since_reset(const Flow& flow, const Values& values) {
    if (values == nullptr) return {};
    const Counters::Counts counts = Counters::at(*values, flow.life.counter);
    return {counts.packets - std::min(counts.packets, flow.life.first_packets),
            counts.bytes - std::min(counts.bytes, flow.life.first_bytes)};
}

std::vector<FlowEntry> Control::flows(const FlowMatch& match, const FlowFilter& filter) const {
    const std::lock_guard lock(mutex_);
    std::vector<FlowEntry> entries;
    table_.for_each_within(match, [&](const Flow& flow) {
        if (filter.accepts(flow)) entries.push_back({flow, since_reset(flow, counters_at_work_)});
    });
    return entries;
}

size_t Control::flow_count() const {
    const std::lock_guard lock(mutex_);
    return table_.size();
}

uint64_t Control::changed_flows() const {
    const std::lock_guard lock(mutex_);
    return changed_flows_;
}

std::vector<Group> Control::groups() const {
    const std::lock_guard lock(mutex_);
    return groups_;
}

/// Notes flows that have gone: they count until the generation without them is at work.
void Control::went(const std::vector<FlowPointer>& flows, Removal reason, Clock::time_point now) {
    for (const FlowPointer& flow : flows) {
        gone_matched_[flow->table()] += since_reset(*flow, counters_at_work_).packets;
        counters_.leave(flow->life.counter, version_);
        if ((flow->flags & kSendFlowRemoved) != 0) going_.push_back({flow, reason, counters_at_work_, version_, now});
    }
}

std::vector<RemovedFlow> Control::take_removed() {
    const std::lock_guard lock(mutex_);
    std::vector<RemovedFlow> removed;
    std::erase_if(going_, [&](const Going& going) {
        if (going.version > at_work_) return false;
        removed.push_back(
            {*going.flow, going.reason, since_reset(*going.flow, going.values), going.end - going.flow->life.begin});
        return true;
    });
    return removed;
}

uint32_t Control::run(Packet& packet, const std::vector<Action>& actions) const {
    std::shared_ptr<const GroupTables> groups;
    {
        const std::lock_guard lock(mutex_);
        groups = groups_made();
    }
    for (const Action& action : actions)
        if (action.kind == ActionKind::group && !groups->has(action.value)) throw Refusal::no_group;
    std::vector<Action> list;
    groups->append(list, actions);
    Switch::Tables tables{};
    groups->view(tables);
    return Pipeline::run(packet, tables, {list.data(), list.size()}, Lanes<1>{});
}

void Control::on_progress(std::function<void()> f) {
    const std::lock_guard lock(mutex_);
    on_progress_ = std::move(f);
}

void Control::at_work(uint64_t version, Values counters, Clock::time_point now, uint64_t position) {
    const std::lock_guard lock(mutex_);
    const bool progress = version > at_work_;
    at_work_ = std::max(at_work_, version);
    counters_at_work_ = std::move(counters);
    table_.forget_before(position);
    if (now - expired_ >= kExpiryInterval) expire(now);
    if (progress && on_progress_) on_progress_();
}

void Control::expire(Clock::time_point now) {
    expired_ = now;
    std::vector<FlowPointer> idle, old;
    table_.expire(now, [this](const Flow& flow) { return counted(flow).packets; }, old, idle);
    if (idle.empty() && old.empty()) return;
    changed_flows_or_groups();
    went(old, Removal::hard_timeout, now);
    went(idle, Removal::idle_timeout, now);
}

const std::shared_ptr<const GroupTables>& Control::groups_made() const {
    if (group_tables_ == nullptr) group_tables_ = std::make_shared<const GroupTables>(groups_, down_, ports_.count());
    return group_tables_;
}

Control::Around Control::around() const {
    if (misses_ == nullptr && !miss_places_.empty()) {
        std::vector<uint32_t> places(Flow::kTables, miss_places_.begin()->second);
        for (const auto& [table, place] : miss_places_) places[table] = place;
        misses_ = std::make_shared<const std::vector<uint32_t>>(std::move(places));
    }
    return {groups_made(),
            meters_.empty() ? nullptr : meters_.tables(),
            misses_,
            counters_.values(),
            counters_.in_use(),
            version_,
            flow_version_,
            table_.position()};
}

Control::Wanted Control::wanted(bool renumber) {
    const std::lock_guard lock(mutex_);
    if (strange_counters_) keep_only_own_counters();
    if (renumber || table_.sparse()) table_.renumber();
    return {around(), table_.numbered()};
}

std::optional<Control::Wanted> Control::changed(uint64_t position) const {
    const std::lock_guard lock(mutex_);
    const auto changes = table_.changes_since(position);
    if (!changes) return std::nullopt;
    return Wanted{around(), {changes->begin(), changes->end()}};
}

std::pair<uint64_t, uint64_t> Control::give_up(const std::vector<NumberedFlow>& flows, std::vector<Group> groups) {
    const std::lock_guard lock(mutex_);
    refused_after_ = at_work_;
    refused_until_ = at_work_ = version_;
    std::erase_if(going_, [&](const Going& going) { return going.version > refused_after_; });
    table_.restore(flows);
    groups_ = std::move(groups);
    groups_changed();
    keep_only_own_counters();
    if (on_progress_) on_progress_();
    return {version_, table_.position()};
}

/// Takes back the counters of flows that are not there.
void Control::keep_only_own_counters() {
    strange_counters_ = false;
    std::vector<uint32_t> places;
    places.reserve(table_.size() + miss_places_.size());
    for (const auto& [table, place] : miss_places_) places.push_back(place);
    table_.for_each([&](const Flow& flow) { places.push_back(flow.life.counter); });
    counters_.keep_only(places, version_);
}

void Control::add_controlled(FlowSet& set) {
    std::unordered_map<std::string, Flow*> loaded;
    for (Flow& flow : set.flows) loaded.emplace(identity_of(flow), &flow);
    std::vector<Flow> kept;
    for (Flow& flow : table_.copies()) {
        const auto same = loaded.find(identity_of(flow));
        if (same != loaded.end()) {
            same->second->life = flow.life;
            loaded.erase(same);  // of several with one identity the first counts
        } else if (flow.file == Flow::kFromController) {
            kept.push_back(std::move(flow));
        }
    }
    for (Flow& flow : set.flows) {
        if (flow.life.counter != Flow::kNoCounter) continue;
        begin_counting(flow);
        flow.life.begin = flow.life.last_used = Clock::now();
    }
    set.flows.insert(set.flows.end(), kept.begin(), kept.end());
    for (const Group& group : groups_)
        if (group.from_controller && std::none_of(set.groups.begin(), set.groups.end(),
                                                  [&](const Group& other) { return other.id == group.id; }))
            set.groups.push_back(group);
    number_groups(set.groups);
}

Control::Around Control::keep_controlled(FlowSet& set, bool pipeline) {
    const std::lock_guard lock(mutex_);
    pipeline_ = pipeline_ || pipeline;
    strange_counters_ = true;
    add_controlled(set);
    for (const Flow& flow : set.flows) count_misses_of(flow);
    // Meters of files are as these say; they begin to count anew.
    for (const Meter& meter : meters_.meters())
        if (!meter.from_controller) meters_.remove(meter.id);
    for (const Meter& meter : set.meters) meters_.put(meter, Clock::now());
    Around made = around();
    made.groups = std::make_shared<const GroupTables>(set.groups, down_, ports_.count());
    return made;
}

std::optional<uint64_t> Control::adopt(PortNumbers ports, FlowSet set, uint64_t version) {
    const std::lock_guard lock(mutex_);
    ports_ = std::move(ports);
    const bool known = version == version_;
    if (!known) {
        // A controller has changed its flows while the configuration was read: as they are now.
        std::erase_if(set.flows, [](const Flow& flow) { return flow.file == Flow::kFromController; });
        std::erase_if(set.groups, [](const Group& group) { return group.from_controller; });
        add_controlled(set);
        changed_flows_or_groups();
    }
    table_.replace(std::move(set.flows));
    groups_ = std::move(set.groups);
    groups_changed();
    keep_only_own_counters();
    return known ? std::optional(table_.position()) : std::nullopt;
}

}  // namespace millrace::nf::flow_switch
