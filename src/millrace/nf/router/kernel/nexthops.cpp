// The kernel's nexthop objects: hops and groups of them by number, which routes name. A route by an object has that
// object's way, so that a change of the object concerns targets only, however many routes name it.
#include <algorithm>
#include <unordered_set>

#include "millrace/nf/router/kernel/kernel_table.hpp"

namespace millrace::nf::router {

Way KernelTable::way_of_object(uint32_t id) const {
    const auto found = objects_.find(id);
    if (found == objects_.end()) return {Way::Kind::kernel};
    const NexthopMessage& told = found->second.told;
    if (told.blackhole) return {Way::Kind::blackhole};
    if (told.group.empty()) return way_by({told.hop}, told.encapsulated);
    std::vector<RouteHop> hops;
    for (const NexthopMessage::Member& member : told.group) {
        const auto its = objects_.find(member.id);
        if (its == objects_.end() || !its->second.told.group.empty()) continue;
        const NexthopMessage& one = its->second.told;
        if (one.blackhole) return {Way::Kind::blackhole};  // the kernel has it be the only one
        if (one.encapsulated) return {Way::Kind::kernel};
        hops.push_back(one.hop);
        hops.back().weight = member.weight;
    }
    return way_by(std::move(hops), false);
}

Way KernelTable::followed(const Way& way) const {
    return way.kind == Way::Kind::object ? way_of_object(way.object) : way;
}

void KernelTable::on_nexthop(const NexthopMessage& message) {
    if (message.gone) return drop_objects([&](const Object& object) { return object.told.id == message.id; });
    const auto [at, is_new] = objects_.try_emplace(message.id);
    at->second.stamp = stamp_;
    if (!is_new && at->second.told == message) return;
    at->second.told = message;
    ++version_;
    place_neighbours_of_objects();
}

/// With the objects go their routes and what groups have of them, and groups that have no other; the kernel does not
/// tell of the routes, and of the rest only when it was asked to remove an object.
void KernelTable::drop_objects(const std::function<bool(const Object&)>& goes) {
    std::unordered_set<uint32_t> gone;
    for (const auto& [id, object] : objects_)
        if (goes(object)) gone.insert(id);
    if (gone.empty()) return;
    for (auto& [id, object] : objects_) {
        std::vector<NexthopMessage::Member>& group = object.told.group;
        const bool has_lost = std::erase_if(group, [&](const auto& member) { return gone.contains(member.id); }) > 0;
        if (has_lost && group.empty()) gone.insert(id);
    }
    for (const uint32_t id : gone) objects_.erase(id);
    ++version_;
    place_neighbours_of_objects();
    const bool is_used = std::ranges::any_of(
        gone, [&](uint32_t id) { return ways_.find({Way::Kind::object, {}, id}).has_value(); });
    if (is_used) drop_routes([&](const Route& route) { return route.object != 0 && gone.contains(route.object); });
}

/// What is connected may be so by an object, or by a group that is left with one.
void KernelTable::place_neighbours_of_objects() {
    if (ways_.objects() == 0) return;
    for (auto& [key, neighbour] : neighbours_) place_neighbour(key, neighbour);
}

/// As the kernel does when an interface goes down or loses its carrier.
void KernelTable::drop_objects_on(uint32_t interface) {
    const size_t before = objects_.size();
    drop_objects([&](const Object& object) {
        return object.told.group.empty() && !object.told.blackhole && object.told.hop.interface == interface;
    });
    wants_resync_ |= objects_.size() != before;
}

}  // namespace millrace::nf::router
