#include "millrace/nf/switch/control.hpp"

#include <algorithm>

#include "millrace/nf/switch/action_tables.hpp"

namespace millrace::nf::flow_switch {
namespace {

constexpr uint16_t kSendFlowRemoved = 1;  // OFPFF_SEND_FLOW_REM
constexpr auto kExpiryInterval = std::chrono::milliseconds(250);

bool leads_to(const Flow& flow, uint32_t group) {
    return std::any_of(flow.actions.begin(), flow.actions.end(), [&](const Action& action) { return action.kind == ActionKind::group && action.value == group; });
}

}  // namespace

Control::Control(PortNumbers ports, FlowSet set)
    : ports_(std::move(ports)),
      table_(std::move(set.flows),
             [this](const Flow& flow) {
                 const Counters::Counts counts = counted(identity_of(flow) + "#0");
                 return std::pair(counts.packets, counts.bytes);
             }),
      groups_(std::move(set.groups)) {
    for (Flow& flow : table_.flows()) flow.life.begin = flow.life.last_used = Clock::now();
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

std::vector<Group>::iterator Control::find_group(uint32_t id) {
    return std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) { return group.id == id; });
}

uint64_t Control::change(FlowChange change, bool check_overlap, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    for (const Action& action : change.flow.actions)
        if (action.kind == ActionKind::group && find_group(action.value) == groups_.end()) throw Refusal::no_group;
    if (change.kind == FlowChange::Kind::add) {
        if (check_overlap)
            for (const Flow& flow : table_.flows())
                if (flow.priority == change.flow.priority && overlap(flow.match, change.flow.match)) throw Refusal::overlap;
        if (table_.size() >= kMaxFlows && table_.find(identity_of(change.flow)) == nullptr) throw Refusal::table_full;
        change.flow.life.begin = change.flow.life.last_used = now;
    }
    ++version_;
    std::vector<Flow> removed;
    changed_flows_ += table_.apply(change, &removed);
    went(std::move(removed), Removal::asked, now);
    return version_;
}

uint64_t Control::add_group(Group group) {
    const std::lock_guard lock(mutex_);
    if (find_group(group.id) != groups_.end()) throw Refusal::group_exists;
    if (groups_.size() >= kMaxGroups) throw Refusal::too_many_groups;
    group.begin = Clock::now();
    groups_.push_back(std::move(group));
    return ++version_;
}

uint64_t Control::modify_group(Group group) {
    const std::lock_guard lock(mutex_);
    const auto found = find_group(group.id);
    if (found == groups_.end()) throw Refusal::no_group_to_modify;
    group.begin = found->begin;
    *found = std::move(group);
    return ++version_;
}

uint64_t Control::remove_group(std::optional<uint32_t> id) {
    const std::lock_guard lock(mutex_);
    ++version_;
    std::erase_if(groups_, [&](const Group& group) {
        if (id && group.id != *id) return false;
        std::vector<Flow> removed;
        table_.remove_if([&](const Flow& flow) { return leads_to(flow, group.id); }, removed);
        went(std::move(removed), Removal::group_removed, Clock::now());
        return true;
    });
    return version_;
}

uint64_t Control::version() const {
    const std::lock_guard lock(mutex_);
    return version_;
}

Control::Progress Control::progress(uint64_t version) const {
    const std::lock_guard lock(mutex_);
    if (version > at_work_) return Progress::waits;
    return version > refused_after_ && version <= refused_until_ ? Progress::refused : Progress::at_work;
}

Counters::Counts Control::counted(const std::string& identity) const {
    const Counters::Place* const place = counters_ ? counters_->find(identity) : nullptr;
    return place == nullptr ? Counters::Counts{} : Counters::at(*counters_->values(), *place);
}

Counters::Counts Control::since_reset(const Flow& flow, Counters::Counts counts) {
    return {counts.packets - flow.life.first_packets, counts.bytes - flow.life.first_bytes};
}

std::vector<FlowEntry> Control::flows(const FlowMatch& match, const FlowFilter& filter) const {
    const std::lock_guard lock(mutex_);
    std::vector<FlowEntry> entries;
    const std::vector<Flow>& flows = table_.flows();
    const std::vector<std::string> names = identities(flows);
    for (size_t i = 0; i < flows.size(); ++i)
        if (within(flows[i].match, match) && filter.accepts(flows[i])) entries.push_back({flows[i], since_reset(flows[i], counted(names[i]))});
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
void Control::went(std::vector<Flow> flows, Removal reason, Clock::time_point now) {
    for (Flow& flow : flows) {
        if ((flow.flags & kSendFlowRemoved) == 0) continue;
        const Counters::Place* const place = counters_ ? counters_->find(identity_of(flow) + "#0") : nullptr;
        going_.push_back({std::move(flow), reason, place ? std::optional(*place) : std::nullopt, counters_ ? counters_->values() : nullptr, version_, now});
    }
}

std::vector<RemovedFlow> Control::take_removed() {
    const std::lock_guard lock(mutex_);
    std::vector<RemovedFlow> removed;
    std::erase_if(going_, [&](const Going& going) {
        if (going.version > at_work_) return false;
        const Counters::Counts counts = going.place ? since_reset(going.flow, Counters::at(*going.values, *going.place)) : Counters::Counts{};
        removed.push_back({going.flow, going.reason, counts, going.end - going.flow.life.begin});
        return true;
    });
    return removed;
}

uint32_t Control::run(Packet& packet, const std::vector<Action>& actions) const {
    const std::vector<Group> groups = this->groups();
    for (const Action& action : actions)
        if (action.kind == ActionKind::group && std::none_of(groups.begin(), groups.end(), [&](const Group& group) { return group.id == action.value; }))
            throw Refusal::no_group;
    ActionTables made(groups);
    const uint32_t first = made.append(actions);
    return Switch::run(packet, made.tables(), first, static_cast<uint32_t>(actions.size()), Lanes<1>{});
}

void Control::at_work(uint64_t version, std::shared_ptr<const Counters> counters, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    at_work_ = std::max(at_work_, version);
    counters_ = std::move(counters);
    if (now - expired_ >= kExpiryInterval) expire(now);
}

void Control::expire(Clock::time_point now) {
    expired_ = now;
    std::vector<Flow> idle, old;
    const auto over = [&](Clock::time_point since, uint16_t seconds) { return seconds != 0 && now - since >= std::chrono::seconds(seconds); };
    table_.remove_if([&](const Flow& flow) { return over(flow.life.begin, flow.hard_timeout); }, old);
    for (Flow& flow : table_.flows()) {
        if (flow.idle_timeout == 0) continue;
        const uint64_t packets = counted(identity_of(flow) + "#0").packets;
        if (packets == flow.life.packets_seen) continue;
        flow.life.packets_seen = packets;
        flow.life.last_used = now;
    }
    table_.remove_if([&](const Flow& flow) { return over(flow.life.last_used, flow.idle_timeout); }, idle);
    if (idle.empty() && old.empty()) return;
    ++version_;
    went(std::move(old), Removal::hard_timeout, now);
    went(std::move(idle), Removal::idle_timeout, now);
}

Control::Wanted Control::wanted() const {
    const std::lock_guard lock(mutex_);
    return {table_.flows(), groups_, version_};
}

uint64_t Control::give_up(std::vector<Flow> flows, std::vector<Group> groups) {
    const std::lock_guard lock(mutex_);
    refused_after_ = at_work_;
    refused_until_ = at_work_ = version_;
    std::erase_if(going_, [&](const Going& going) { return going.version > refused_after_; });
    table_.replace(std::move(flows));
    groups_ = std::move(groups);
    return version_;
}

void Control::add_controlled(FlowSet& set) const {
    std::unordered_map<std::string, Flow*> loaded;
    for (Flow& flow : set.flows) loaded.emplace(identity_of(flow), &flow);
    std::vector<Flow> kept;
    for (const Flow& flow : table_.flows()) {
        const auto same = loaded.find(identity_of(flow));
        if (same != loaded.end()) same->second->life = flow.life;
        else if (flow.file == Flow::kFromController) kept.push_back(flow);
    }
    set.flows.insert(set.flows.end(), kept.begin(), kept.end());
    for (const Group& group : groups_)
        if (group.from_controller && std::none_of(set.groups.begin(), set.groups.end(), [&](const Group& other) { return other.id == group.id; }))
            set.groups.push_back(group);
}

uint64_t Control::keep_controlled(FlowSet& set) const {
    const std::lock_guard lock(mutex_);
    add_controlled(set);
    return version_;
}

void Control::adopt(PortNumbers ports, FlowSet set, uint64_t version) {
    const std::lock_guard lock(mutex_);
    ports_ = std::move(ports);
    if (version != version_) {
        // A controller has changed its flows while the configuration was read: as they are now.
        std::erase_if(set.flows, [](const Flow& flow) { return flow.file == Flow::kFromController; });
        std::erase_if(set.groups, [](const Group& group) { return group.from_controller; });
        add_controlled(set);
        ++version_;
    }
    table_.replace(std::move(set.flows));
    groups_ = std::move(set.groups);
}

}  // namespace millrace::nf::flow_switch
