// The router's tables, made of what the kernel tells and kept as it changes. Opens nothing and reads no clock.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "millrace/nf/router/kernel/ways.hpp"
#include "millrace/nf/prefixes/lpm.hpp"
#include "millrace/nf/shown.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::router {

/// What of the kernel is followed.
struct KernelOptions {
    uint32_t table = 254;                                      ///< beside 255, the local one
    std::vector<std::pair<std::string, uint16_t>> interfaces;  ///< name → number of the port that it stands for
    friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

/// An address that may be a neighbour's, on one interface.
struct NeighbourKey {
    IpAddress address;
    uint32_t interface = 0;
    auto operator<=>(const NeighbourKey&) const = default;
};

/// Of the routes to a prefix the one of table 255 wins, then that with the least metric, then the kernel's first. What
/// it can't do it leaves to the kernel: packets are then punted. Not safe for use by several threads.
class KernelTable {
public:
    /// Told of limits that were met, once each: what happened, and what would mend it.
    using Warn = std::function<void(const std::string& message, const std::string& hint)>;
    KernelTable(KernelOptions options, Warn warn);

    void on_route(const RouteMessage& message);
    void on_nexthop(const NexthopMessage& message);
    void on_neighbour(const NeighbourMessage& message);
    void on_link(const LinkMessage& message);
    /// The kernel may have changed routes in silence.
    void on_hidden_change() { wants_resync_ = true; }

    /// Everything is told again from here on; at the end what was not told has gone.
    void begin_resync() { ++stamp_; }
    void end_resync();
    /// Whether only a resync can tell what has changed; asking says that one is made.
    bool take_resync_wanted() { return std::exchange(wants_resync_, false); }

    /// What the lookup tables' targets are now.
    struct Forwarding {
        std::vector<Target> targets;
        std::vector<uint16_t> members;
        std::vector<NextHop> next_hops;
        std::vector<PortMac> port_macs;  ///< by port, as far as they are known
        std::vector<std::string> names;  ///< of the next hops: "192.0.2.1 on lan0"
    };
    Forwarding forwarding();
    const Ipv4Lpm& lpm4() const { return lpm4_; }
    const Ipv6Lpm& lpm6() const { return lpm6_; }
    /// Grows with everything that changes what is above.
    uint64_t version() const { return version_ + lpm4_.version() + lpm6_.version(); }
    /// Grows with what changes `forwarding`.
    uint64_t forwarding_version() const { return version_; }

    /// Neighbours that the kernel is to be asked about: gateways whose MAC address isn't known, and those that it has
    /// not heard of for long. Each at most once in `kAskAgain` seconds. `now` in seconds.
    std::vector<NeighbourKey> questions(uint64_t now, size_t most);
    static constexpr uint64_t kAskAgain = 5;

    /// All routes and neighbours that the kernel has told of, those that are not used included.
    ShownTable show_routes(size_t most) const;
    ShownTable show_neighbours(size_t most) const;

    size_t routes() const { return routes_count_; }
    size_t resolved_neighbours() const;

private:
    struct Link {
        LinkMessage told;
        uint16_t port = kNoPort;
        uint32_t stamp = 0;
        /// Of a port's interface, whether it has a carrier as well: Linux keeps its routes without one, but leaves
        /// them out (ignore_routes_with_linkdown). The others are Linux' to send by.
        bool is_up() const { return told.up && (told.carrier || port == kNoPort); }
        /// Whether packets may be sent there by a port.
        bool usable() const { return is_up() && told.has_mac && port != kNoPort; }
    };
    struct Route {
        uint32_t metric = 0;
        uint32_t object = 0;  // that it names
        uint16_t way = 0;
        uint8_t type = 0;
        bool local_table = false;
        uint32_t stamp = 0;
        auto rank() const { return std::pair(!local_table, metric); }
        /// Whether they may be the same: what a route by an object is called changes with the object.
        bool is_alike(const Route& other) const {
            return other.rank() == rank() && other.object == object && (object != 0 || other.type == type);
        }
    };
    struct Object {
        NexthopMessage told;
        uint32_t stamp = 0;
    };
    struct Neighbour {
        std::array<uint8_t, 6> mac{};
        bool usable = false;
        bool stale = false;
        uint16_t way = 0;  // that packets to it take; 0: the route's
        uint32_t stamp = 0;
    };
    struct PrefixHash {
        size_t operator()(const Prefix& prefix) const;
    };
    using Routes = std::unordered_map<Prefix, std::vector<Route>, PrefixHash>;

    Way way_of(const RouteMessage& message) const;
    bool follows_object(const RouteMessage& message) const;
    static Route route_of(const RouteMessage& message);
    Way way_of_object(uint32_t id) const;
    Way followed(const Way& way) const;
    void add(const RouteMessage& message);
    void remove(const RouteMessage& message);
    void leave_out(const RouteMessage& message);
    bool lacks_carrier(const RouteMessage& message) const;
    void drop_routes_of_links_that_are_down();
    void drop_routes(const std::function<bool(const Route&)>& goes);
    void drop_objects(const std::function<bool(const Object&)>& goes);
    void drop_objects_on(uint32_t interface);

    void refresh(const Prefix& prefix);
    uint16_t way_to(const Prefix& prefix) const;
    bool write(const Prefix& prefix, uint16_t way);
    bool is_connected(const NeighbourKey& key) const;
    void place_neighbour(const NeighbourKey& key, Neighbour& neighbour);
    void place_neighbours_in(const Prefix& prefix);
    void place_neighbours_on(uint32_t interface);
    void place_neighbours_of_objects();
    void forget(const NeighbourKey& key, Neighbour& neighbour);
    uint16_t take(const Way& way);

    std::string name_of(uint32_t interface) const;
    std::string text_of(const Way& way) const;
    bool is_up(uint32_t interface) const;
    const Link* usable_link(uint32_t interface) const;
    const Neighbour* usable_neighbour(const NeighbourKey& key) const;
    class Resolver;
    void warn_once(const std::string& message, const std::string& hint);

    KernelOptions options_;
    Warn warn_;
    std::set<std::string> warned_;
    std::map<uint32_t, Link> links_;
    std::unordered_map<uint32_t, Object> objects_;  // by id
    std::map<NeighbourKey, Neighbour> neighbours_;
    std::map<NeighbourKey, uint64_t> asked_;  // when
    Routes routes_;
    size_t routes_count_ = 0;
    Ways ways_;
    Ipv4Lpm lpm4_;
    Ipv6Lpm lpm6_;
    std::set<uint32_t> left_out_;  // /24s with longer prefixes beyond the limit
    uint64_t version_ = 1;
    uint32_t stamp_ = 0;
    bool wants_resync_ = false;
};

}  // namespace millrace::nf::router
