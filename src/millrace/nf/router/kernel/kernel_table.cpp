#include "millrace/nf/router/kernel/kernel_table.hpp"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <string_view>

namespace millrace::nf::router {
namespace {

constexpr uint32_t kLocalTable = RT_TABLE_LOCAL;
constexpr uint16_t kUsableStates = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;

template <size_t Bytes>
std::array<uint8_t, Bytes> first_bytes(const std::array<uint8_t, 16>& bytes) {
    std::array<uint8_t, Bytes> result;
    std::copy_n(bytes.begin(), Bytes, result.begin());
    return result;
}

bool covers(const Prefix& prefix, const IpAddress& address) {
    if (prefix.ipv6 != address.ipv6) return false;
    for (unsigned bit = 0; bit < prefix.length; bit += 8) {
        const unsigned bits = std::min(8u, prefix.length - bit);
        if (((prefix.bytes[bit / 8] ^ address.bytes[bit / 8]) >> (8 - bits)) != 0) return false;
    }
    return true;
}

bool is_group(const IpAddress& address) { return address.ipv6 ? address.bytes[0] == 0xff : address.bytes[0] >= 224; }

/// Packets for it are not forwarded.
bool is_link_local(const IpAddress& address) {
    const uint8_t first = address.bytes[0], second = address.bytes[1];
    return address.ipv6 ? first == 0xfe && (second & 0xc0) == 0x80 : first == 169 && second == 254;
}

template <class Table>
std::optional<uint16_t> covering(const Table& table, const auto& address) {
    const auto route = table.rib().covering(address, static_cast<unsigned>(8 * address.size()));
    if (!route) return std::nullopt;
    return route->value;
}

}  // namespace

size_t KernelTable::PrefixHash::operator()(const Prefix& prefix) const {
    const std::string_view bytes(reinterpret_cast<const char*>(prefix.bytes.data()), prefix.ipv6 ? 16 : 4);
    return std::hash<std::string_view>{}(bytes) ^ (prefix.length * 0x9e3779b97f4a7c15ull);
}

KernelTable::KernelTable(KernelOptions options, Warn warn) : options_(std::move(options)), warn_(std::move(warn)) {}

void KernelTable::warn_once(const std::string& message, const std::string& hint) {
    if (warned_.insert(message).second) warn_(message, hint);
}

// --- routes ---

Way KernelTable::way_of(const RouteMessage& message) const {
    using enum Way::Kind;
    if (follows_object(message)) return {object, {}, message.nexthop_object};
    switch (message.type) {
        case RTN_LOCAL:
        case RTN_BROADCAST:
        case RTN_ANYCAST: return {local};
        case RTN_BLACKHOLE: return {blackhole};
        case RTN_UNICAST: return way_by(message.hops, message.encapsulated);
        default: return {kernel};
    }
}

/// Whether a route by an object goes where that says. The kernel calls routes by a blackhole so themselves; others may
/// be one whatever they name.
bool KernelTable::follows_object(const RouteMessage& message) const {
    if (message.nexthop_object == 0) return false;
    if (message.type != RTN_BLACKHOLE) return message.type == RTN_UNICAST;
    return !objects_.contains(message.nexthop_object) ||
           way_of_object(message.nexthop_object).kind == Way::Kind::blackhole;
}

void KernelTable::on_route(const RouteMessage& message) {
    if (message.table != kLocalTable && message.table != options_.table) return;
    // Those to groups do not concern the router; those for one type of service would concern few packets.
    if (message.type == RTN_MULTICAST) return;
    if (message.tos != 0)
        return warn_once("routes for one type of service (tos) are left out", "routes without it are followed");
    if (message.gone) remove(message);
    else if (lacks_carrier(message)) leave_out(message);
    else add(message);
}

uint16_t KernelTable::take(const Way& way) {
    const uint64_t made = ways_.made();
    const uint16_t number = ways_.take(way);
    if (ways_.made() != made) ++version_;
    if (number == Ways::kKernel && way.kind != Way::Kind::kernel)
        warn_once("there are more than " + std::to_string(kMaxTargets - Ways::kFixed) +
                      " different gateways, groups of them and neighbours: packets to others are punted",
                  "use fewer, or several routers");
    return number;
}

KernelTable::Route KernelTable::route_of(const RouteMessage& message) {
    return {.metric = message.metric,
            .object = message.nexthop_object,
            .type = message.type,
            .local_table = message.table == kLocalTable};
}

void KernelTable::add(const RouteMessage& message) {
    const Way way = way_of(message);
    Route route = route_of(message);
    route.way = take(way);
    route.stamp = stamp_;
    std::vector<Route>& routes = routes_[message.prefix];
    // The kernel may tell twice, and tells of an IPv6 route as a whole when a hop comes to it.
    const auto grows = [&](const Route& other) {
        const std::vector<RouteHop>& hops = ways_.at(other.way).hops;
        return message.prefix.ipv6 && !hops.empty() && hops.size() < way.hops.size() &&
               std::ranges::all_of(hops, [&](const RouteHop& hop) { return std::ranges::count(way.hops, hop) > 0; });
    };
    auto at = std::ranges::find_if(routes, [&](const Route& other) {
        return route.is_alike(other) && (route.object != 0 || other.way == route.way || grows(other));
    });
    if (message.place == RouteMessage::Place::replace)
        at = std::ranges::find_if(routes, [&](const Route& other) { return other.rank() == route.rank(); });
    if (at != routes.end()) {
        std::swap(*at, route);
        ways_.release(route.way);
    } else {
        const auto is_behind = [&](const Route& other) {
            return message.place == RouteMessage::Place::back ? other.rank() > route.rank()
                                                              : other.rank() >= route.rank();
        };
        routes.insert(std::ranges::find_if(routes, is_behind), route);
        ++routes_count_;
    }
    refresh(message.prefix);
}

/// Whether it leads only to interfaces of ports that have no carrier. When one gets it, all routes are told again.
bool KernelTable::lacks_carrier(const RouteMessage& message) const {
    return !message.hops.empty() && std::ranges::all_of(message.hops, [&](const RouteHop& hop) {
        const auto link = links_.find(hop.interface);
        return link != links_.end() && link->second.told.up && !link->second.is_up();
    });
}

/// A route that does not count takes the place of another one, maybe.
void KernelTable::leave_out(const RouteMessage& message) {
    const auto entry = routes_.find(message.prefix);
    if (entry == routes_.end() || message.place != RouteMessage::Place::replace) return;
    std::vector<Route>& routes = entry->second;
    const auto rank = std::pair(message.table != kLocalTable, message.metric);
    const auto at = std::ranges::find_if(routes, [&](const Route& other) { return other.rank() == rank; });
    if (at == routes.end()) return;
    const uint16_t before = at->way;
    routes.erase(at);
    --routes_count_;
    if (routes.empty()) routes_.erase(entry);
    refresh(message.prefix);
    ways_.release(before);
}

void KernelTable::remove(const RouteMessage& message) {
    const auto entry = routes_.find(message.prefix);
    if (entry == routes_.end()) return;
    std::vector<Route>& routes = entry->second;
    Route gone = route_of(message);
    const Way way = way_of(message);
    gone.way = ways_.find(way).value_or(Ways::kKernel);
    const auto is_of = [&](const RouteHop& hop) { return std::ranges::count(way.hops, hop) > 0; };
    auto at = std::ranges::find_if(routes, [&](const Route& other) {
        return gone.is_alike(other) && (gone.object != 0 || other.way == gone.way);
    });
    if (at == routes.end() && message.prefix.ipv6)  // one hop of several
        at = std::ranges::find_if(routes, [&](const Route& other) {
            return gone.is_alike(other) && std::ranges::any_of(ways_.at(other.way).hops, is_of);
        });
    if (at == routes.end()) return;
    Way rest = ways_.at(at->way);
    std::erase_if(rest.hops, is_of);
    const uint16_t before = at->way;
    if (rest.hops.empty()) {
        routes.erase(at);
        --routes_count_;
        if (routes.empty()) routes_.erase(entry);
    } else {
        at->way = take(rest);
    }
    refresh(message.prefix);
    ways_.release(before);
}

/// Drops routes for which `goes(route)`.
void KernelTable::drop_routes(const std::function<bool(const Route&)>& goes) {
    std::vector<Prefix> changed;
    std::vector<uint16_t> ways;
    for (auto entry = routes_.begin(); entry != routes_.end();) {
        std::vector<Route>& routes = entry->second;
        const size_t before = ways.size();
        std::erase_if(routes, [&](const Route& route) {
            if (!goes(route)) return false;
            ways.push_back(route.way);
            return true;
        });
        if (ways.size() > before) changed.push_back(entry->first);
        entry = routes.empty() ? routes_.erase(entry) : std::next(entry);
    }
    routes_count_ -= ways.size();
    for (const Prefix& prefix : changed) refresh(prefix);
    for (const uint16_t way : ways) ways_.release(way);
}

void KernelTable::drop_routes_of_links_that_are_down() {
    std::vector<bool> is_down(ways_.numbers());
    for (uint32_t number = Ways::kFixed; number < is_down.size(); ++number) {
        const std::vector<RouteHop>& hops = ways_.at(static_cast<uint16_t>(number)).hops;
        is_down[number] = !hops.empty() &&
                          std::ranges::none_of(hops, [&](const RouteHop& hop) { return is_up(hop.interface); });
    }
    if (std::ranges::count(is_down, true) > 0) drop_routes([&](const Route& route) { return is_down[route.way]; });
}

void KernelTable::end_resync() {
    std::erase_if(links_, [&](const auto& link) { return link.second.stamp != stamp_; });
    for (auto at = neighbours_.begin(); at != neighbours_.end();) {
        const bool goes = at->second.stamp != stamp_;
        if (goes) forget(at->first, at->second);
        at = goes ? neighbours_.erase(at) : std::next(at);
    }
    drop_objects([&](const Object& object) { return object.stamp != stamp_; });
    drop_routes([&](const Route& route) { return route.stamp != stamp_; });
    ++version_;
}

// --- the lookup tables ---

/// Writes where a prefix leads now, and what follows for the neighbours in it.
void KernelTable::refresh(const Prefix& prefix) {
    if ((write(prefix, way_to(prefix)) || prefix.is_host()) && !neighbours_.empty()) place_neighbours_in(prefix);
}

uint16_t KernelTable::way_to(const Prefix& prefix) const {
    if (prefix.length == 24 && !prefix.ipv6 && left_out_.contains(prefix.ipv4() >> 8)) return Ways::kKernel;
    if (prefix.is_host()) {
        const IpAddress address{prefix.bytes, prefix.ipv6};
        for (auto at = neighbours_.lower_bound({address, 0}); at != neighbours_.end() && at->first.address == address;
             ++at)
            if (at->second.way != 0) return at->second.way;
    }
    const auto routes = routes_.find(prefix);
    return routes != routes_.end() ? routes->second.front().way : uint16_t{0};
}

/// True when the tables did not say so before.
bool KernelTable::write(const Prefix& prefix, uint16_t way) {
    const auto write_to = [&](auto& table, const auto& address) {
        if (way == 0) return table.erase(address, prefix.length);
        if (table.rib().find(address, prefix.length) == way) return false;
        table.insert(address, prefix.length, way);
        return true;
    };
    if (prefix.ipv6) return write_to(lpm6_, prefix.bytes);
    try {
        return write_to(lpm4_, first_bytes<4>(prefix.bytes));
    } catch (const std::length_error&) {
        warn_once("there are more than " + std::to_string(kIpv4Group) +
                      " /24s with longer prefixes and neighbours in them: packets to further ones are punted",
                  "summarise routes, or use several routers");
        left_out_.insert(prefix.ipv4() >> 8);
        Prefix around = prefix;
        around.length = 24;
        around.bytes[3] = 0;
        refresh(around);
        return false;
    }
}

// --- neighbours ---

/// Whether the route to an address says that it is a neighbour on this interface.
bool KernelTable::is_connected(const NeighbourKey& key) const {
    const IpAddress& address = key.address;
    std::optional<uint16_t> number;
    if (const auto own = routes_.find(address.host()); own != routes_.end()) number = own->second.front().way;
    else number = address.ipv6 ? covering(lpm6_, address.bytes) : covering(lpm4_, first_bytes<4>(address.bytes));
    if (!number) return false;
    const Way way = followed(ways_.at(*number));
    return way.kind == Way::Kind::connected && way.hops[0].interface == key.interface;
}

/// Gives a neighbour a route of its own if packets to it may go there at once.
void KernelTable::place_neighbour(const NeighbourKey& key, Neighbour& neighbour) {
    const bool wanted = neighbour.usable && !is_link_local(key.address) && usable_link(key.interface) != nullptr &&
                        is_connected(key);
    if (wanted == (neighbour.way != 0)) return;
    const uint16_t before = neighbour.way;
    neighbour.way = wanted ? take({Way::Kind::gateways, {{key.interface, true, key.address, 1}}}) : uint16_t{0};
    const Prefix host = key.address.host();
    write(host, way_to(host));
    ways_.release(before);
}

void KernelTable::place_neighbours_in(const Prefix& prefix) {
    const IpAddress first{prefix.bytes, prefix.ipv6};
    for (auto at = neighbours_.lower_bound({first, 0}); at != neighbours_.end() && covers(prefix, at->first.address);
         ++at)
        place_neighbour(at->first, at->second);
}

void KernelTable::place_neighbours_on(uint32_t interface) {
    for (auto& [key, neighbour] : neighbours_)
        if (key.interface == interface) place_neighbour(key, neighbour);
}

/// Takes away what a neighbour is good for, before it is erased.
void KernelTable::forget(const NeighbourKey& key, Neighbour& neighbour) {
    neighbour.usable = neighbour.stale = false;
    place_neighbour(key, neighbour);
    ++version_;
}

void KernelTable::on_neighbour(const NeighbourMessage& message) {
    if (is_group(message.address)) return;
    const NeighbourKey key{message.address, message.interface};
    if (message.gone) {
        const auto at = neighbours_.find(key);
        if (at == neighbours_.end()) return;
        forget(key, at->second);
        neighbours_.erase(at);
        return;
    }
    Neighbour& neighbour = neighbours_[key];
    neighbour.stamp = stamp_;
    neighbour.stale = message.state == NUD_STALE;
    const bool usable = message.has_mac && (message.state & kUsableStates) != 0;
    if (usable == neighbour.usable && (!usable || neighbour.mac == message.mac)) return;
    neighbour.usable = usable;
    neighbour.mac = message.mac;
    ++version_;
    place_neighbour(key, neighbour);
}

// --- links ---

bool KernelTable::is_up(uint32_t interface) const {
    const auto link = links_.find(interface);
    return link != links_.end() && link->second.is_up();
}

void KernelTable::on_link(const LinkMessage& message) {
    Link& link = links_[message.index];
    const Link before = link;
    link = {message, kNoPort, stamp_};
    for (const auto& [name, port] : options_.interfaces)
        if (name == message.name) link.port = port;
    if (message.gone) link.told.up = false;
    if (!link.told.up || !(link.told.carrier || link.told.lower_up)) drop_objects_on(message.index);
    const bool is_same = before.port == link.port && before.is_up() == link.is_up() &&
                         before.told.has_mac == link.told.has_mac && before.told.mac == link.told.mac &&
                         before.told.mtu == link.told.mtu;
    if (!is_same) {
        ++version_;
        const bool follows = link.port != kNoPort || before.port != kNoPort;
        wants_resync_ |= follows && before.told.index != 0 && before.is_up() != link.is_up();
        if (before.is_up() && !link.is_up()) drop_routes_of_links_that_are_down();
        place_neighbours_on(message.index);
    }
    if (message.gone) links_.erase(message.index);
}

}  // namespace millrace::nf::router
