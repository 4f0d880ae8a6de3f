// The table under thousands of random changes, against a model that works everything out anew for each question.
#include <map>
#include <random>

#include "nf/router/kernel/table_tester.hpp"

namespace millrace::nf::router {
namespace {

using Place = RouteMessage::Place;

/// What the kernel has: a list of routes for each prefix, and which neighbours and links there are. Small numbers
/// stand for everything: prefixes in one /24 and one /120, gateways 0 to 7 on interfaces 1 to 3.
struct Model {
    struct Route {
        uint32_t metric;
        uint8_t type;
        uint32_t table;
        std::vector<RouteHop> hops;
        uint32_t object;  // in place of hops; 0: none
        bool operator==(const Route&) const = default;
    };
    static Route route_of(const RouteMessage& m) { return {m.metric, m.type, m.table, m.hops, m.nexthop_object}; }
    static RouteMessage message_of(const std::pair<std::array<uint8_t, 17>, uint8_t>& key, const Route& route) {
        RouteMessage message;
        std::copy_n(key.first.begin() + 1, 16, message.prefix.bytes.begin());
        message.prefix.length = key.second;
        message.prefix.ipv6 = key.first[0] != 0;
        message.metric = route.metric;
        message.type = route.type;
        message.table = route.table;
        message.hops = route.hops;
        message.nexthop_object = route.object;
        return message;
    }
    std::map<std::pair<std::array<uint8_t, 17>, uint8_t>, std::vector<Route>> routes;  // by family, address, length
    std::map<std::pair<IpAddress, uint32_t>, uint8_t> neighbours;                      // last byte of the MAC
    std::map<uint32_t, NexthopMessage> objects;  // groups are 1 to 3, others 11 to 15
    std::map<uint32_t, bool> up{{1, true}, {2, true}, {3, true}};

    static auto key(const Prefix& prefix) {
        std::array<uint8_t, 17> bytes{prefix.ipv6};
        std::copy(prefix.bytes.begin(), prefix.bytes.end(), bytes.begin() + 1);
        return std::pair(bytes, prefix.length);
    }
    static std::pair<bool, uint32_t> rank(const Route& route) { return {route.table != 255, route.metric}; }

    void add(const RouteMessage& m) {
        std::vector<Route>& list = routes[key(m.prefix)];
        const Route route = route_of(m);
        if (m.place == Place::replace) {
            for (Route& other : list)
                if (rank(other) == rank(route)) {
                    other = route;
                    return;
                }
        } else if (std::find(list.begin(), list.end(), route) != list.end()) {
            return;
        }
        size_t at = 0;
        while (at < list.size() &&
               (rank(list[at]) < rank(route) || (m.place == Place::back && rank(list[at]) == rank(route))))
            ++at;
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), route);
    }
    void remove(const Prefix& prefix, const Route& route) {
        auto& list = routes[key(prefix)];
        list.erase(std::find(list.begin(), list.end(), route));
    }
    void drop_objects(auto&& goes) {
        std::erase_if(objects, goes);
        for (auto at = objects.begin(); at != objects.end();) {
            std::vector<NexthopMessage::Member>& group = at->second.group;
            const bool has_lost = std::erase_if(group, [&](const auto& one) { return !objects.contains(one.id); }) > 0;
            at = has_lost && group.empty() ? objects.erase(at) : std::next(at);
        }
        for (auto& [prefix, list] : routes)
            std::erase_if(list, [&](const Route& r) { return r.object != 0 && !objects.contains(r.object); });
    }
    void take_down(uint32_t link) {
        up[link] = false;
        drop_objects([&](const auto& object) { return object.second.hop.interface == link; });
        for (auto& [prefix, list] : routes)
            std::erase_if(list, [&](const Route& route) {
                if (route.type != RTN_UNICAST || route.object != 0) return false;
                return std::none_of(route.hops.begin(), route.hops.end(),
                                    [&](const RouteHop& hop) { return up[hop.interface]; });
            });
    }

    bool usable(uint32_t link) const { return link != 3 && up.at(link); }
    std::string by(const RouteHop& hop, const IpAddress& address) const {
        const auto neighbour = neighbours.find({address, hop.interface});
        return neighbour == neighbours.end()
                   ? ""
                   : std::to_string(hop.interface - 1) + ":" + std::to_string(neighbour->second);
    }
    std::string to(const IpAddress& address) const {
        for (int length = address.ipv6 ? 128 : 32; length >= 0; --length) {
            Prefix prefix{address.bytes, static_cast<uint8_t>(length), address.ipv6};
            for (unsigned bit = static_cast<unsigned>(length); bit < 128; ++bit)
                prefix.bytes[bit / 8] = static_cast<uint8_t>(prefix.bytes[bit / 8] & ~(0x80 >> bit % 8));
            const auto list = routes.find(key(prefix));
            if (list != routes.end() && !list->second.empty()) return follow(list->second.front(), address);
        }
        return "no-route";
    }
    std::vector<RouteHop> hops_of(const Route& route) const {
        if (route.object == 0) return route.hops;
        const NexthopMessage& object = objects.at(route.object);
        if (object.group.empty()) return {object.hop};
        std::vector<RouteHop> hops;
        for (const auto& member : object.group) hops.push_back(objects.at(member.id).hop);
        return hops;
    }
    std::string follow(const Route& route, const IpAddress& address) const {
        if (route.type == RTN_LOCAL) return "local";
        if (route.type == RTN_BLACKHOLE) return "no-route";
        if (route.type != RTN_UNICAST) return "kernel";
        const std::vector<RouteHop> hops = hops_of(route);
        const RouteHop& first = hops[0];
        if (!std::ranges::all_of(hops, &RouteHop::has_gateway) && hops.size() > 1) return "kernel";
        if (!first.has_gateway) {
            if (!usable(first.interface)) return "kernel";
            const std::string text = by(first, address);
            return text.empty() ? "no-neighbour" : text;
        }
        std::string text;
        bool unresolved = false;
        for (const RouteHop& hop : hops) {
            if (hops.size() > 1 && !up.at(hop.interface)) continue;
            if (!usable(hop.interface)) return "kernel";
            const std::string one = by(hop, hop.gateway);
            unresolved |= one.empty();
            if (!one.empty()) text += (text.empty() ? "" : " ") + one;
        }
        if (text.empty()) return unresolved ? "no-neighbour" : "kernel";
        return text;
    }
};

class Random {
public:
    Random(uint64_t seed, bool ipv6) : random_(seed), ipv6_(ipv6) {}

    void change() {
        switch (below(9)) {
            case 8: return change_object();
            case 0:
            case 1:
            case 2: return add();
            case 3:
            case 4: return remove();
            case 5:
            case 6: return change_neighbour();
            default: return below(8) == 0 ? change_link() : below(20) == 0 ? resync() : void();
        }
    }
    void compare() {
        for (unsigned last = 0; last < 256; last += 1 + below(3)) {
            const IpAddress asked = address(last);
            ASSERT_EQ(t_.to(asked.text()), model_.to(asked)) << asked.text();
        }
        const IpAddress outside = address_of(ipv6_ ? "2001:db9::1" : "192.0.3.1");
        ASSERT_EQ(t_.to(outside.text()), model_.to(outside));
        size_t routes = 0;
        for (const auto& [prefix, list] : model_.routes) routes += list.size();
        ASSERT_EQ(t_.table().routes(), routes);
    }

private:
    unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }
    IpAddress address(unsigned last) const {
        IpAddress result = address_of(ipv6_ ? "2001:db8::" : "192.0.2.0");
        result.bytes[ipv6_ ? 15 : 3] = static_cast<uint8_t>(last);
        return result;
    }
    Prefix prefix() {
        const unsigned bits = ipv6_ ? 128 : 32;
        const unsigned length = below(12) == 0 ? 0 : bits - (below(3) == 0 ? 0 : below(9));
        Prefix result{address(below(256)).bytes, static_cast<uint8_t>(length), ipv6_};
        for (unsigned bit = length; bit < 128; ++bit)
            result.bytes[bit / 8] = static_cast<uint8_t>(result.bytes[bit / 8] & ~(0x80 >> bit % 8));
        return result;
    }
    std::string gateway() { return address(below(8)).text(); }

    RouteMessage route() {
        RouteMessage message;
        message.prefix = prefix();
        message.metric = below(3);
        message.table = below(5) == 0 ? 255 : 254;
        message.type = RTN_UNICAST;
        const uint8_t types[] = {RTN_LOCAL, RTN_BLACKHOLE, RTN_UNREACHABLE};
        const uint32_t link = 1 + below(3);
        switch (below(6)) {
            case 4:
            case 5:
                if (model_.objects.empty()) return message;
                message.nexthop_object =
                    std::next(model_.objects.begin(), below(static_cast<unsigned>(model_.objects.size())))->first;
                break;
            case 0: message.type = types[below(3)]; break;
            case 1: message.hops = {hop_of(link)}; break;
            case 2: message.hops = {hop_of(link, gateway())}; break;
            default:
                message.hops = {hop_of(link, address(below(4)).text()),
                                hop_of(1 + below(3), address(4 + below(4)).text())};
        }
        // IPv6 hops of one metric are one route's: what the kernel then tells has a test of its own.
        if (ipv6_) message.metric = static_cast<uint32_t>(random_() % 1000000);
        return message;
    }
    void add() {
        RouteMessage message = route();
        if (message.type == RTN_UNICAST && message.hops.empty() && message.nexthop_object == 0) return;
        for (const RouteHop& hop : message.hops)
            if (!model_.up[hop.interface]) return;  // the kernel refuses it
        message.place = std::array{Place::front, Place::back, Place::replace}[below(3)];
        t_.add(message, message.place);
        model_.add(message);
    }
    void remove() {
        std::vector<std::pair<RouteMessage, Model::Route>> all;
        for (const auto& [key, list] : model_.routes)
            for (const Model::Route& route : list) all.emplace_back(Model::message_of(key, route), route);
        if (all.empty()) return;
        const auto& [message, route] = all[below(static_cast<unsigned>(all.size()))];
        t_.remove(message);
        model_.remove(message.prefix, route);
    }
    void change_neighbour() {
        const uint32_t link = 1 + below(3);
        const unsigned last = below(2) == 0 ? below(8) : below(256);
        const auto mac = static_cast<uint8_t>(1 + below(200));
        if (below(3) > 0) {
            t_.neighbour(link, address(last).text(), mac, below(2) == 0 ? NUD_REACHABLE : NUD_STALE);
            model_.neighbours[{address(last), link}] = mac;
            return;
        }
        if (below(2) == 0) t_.lose(link, address(last).text());
        else t_.neighbour(link, address(last).text(), 0, NUD_FAILED);
        model_.neighbours.erase({address(last), link});
    }
    void change_object() {
        NexthopMessage message;
        if (below(4) == 0 && !model_.objects.empty()) {
            message = std::next(model_.objects.begin(), below(static_cast<unsigned>(model_.objects.size())))->second;
            message.gone = true;
            t_.table().on_nexthop(message);
            return model_.drop_objects([&](const auto& object) { return object.first == message.id; });
        }
        if (below(2) == 0) {
            message.id = 11 + below(5);
            const uint32_t link = 1 + below(3);
            if (!model_.up[link]) return;  // the kernel refuses it
            message.hop = below(4) == 0 ? hop_of(link) : hop_of(link, gateway());
        } else {
            message.id = 1 + below(3);
            for (uint32_t id = 11; id <= 15; ++id)
                if (model_.objects.contains(id) && below(2) == 0) message.group.push_back({id, 1});
            if (message.group.empty()) return;
        }
        t_.table().on_nexthop(message);
        model_.objects[message.id] = message;
    }
    void change_link() {
        const uint32_t link = 1 + below(3);
        const bool up = !model_.up[link];
        t_.link(link, std::array{"", "lan0", "wan0", "eth9"}[link], up);
        if (up) model_.up[link] = true;
        else model_.take_down(link);
    }
    /// Half of everything has gone in silence.
    void resync() {
        KernelTable& table = t_.table();
        table.begin_resync();
        for (uint32_t i = 1; i <= 3; ++i) t_.link(i, std::array{"", "lan0", "wan0", "eth9"}[i], model_.up[i]);
        model_.drop_objects([&](const auto&) { return below(3) == 0; });
        for (const auto& [id, object] : model_.objects) table.on_nexthop(object);
        for (auto& [key, list] : model_.routes) {
            std::erase_if(list, [&](const Model::Route&) { return below(2) == 0; });
            for (const Model::Route& route : list) t_.add(Model::message_of(key, route), Place::back);
        }
        std::erase_if(model_.neighbours, [&](const auto&) { return below(2) == 0; });
        for (const auto& [key, mac] : model_.neighbours) t_.neighbour(key.second, key.first.text(), mac);
        table.end_resync();
    }

    std::mt19937_64 random_;
    bool ipv6_;
    TableTester t_;
    Model model_;
};

void run(bool ipv6) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
        Random random(seed, ipv6);
        for (int step = 0; step < 600; ++step) {
            random.change();
            if (step % 5 != 0) continue;
            random.compare();
            ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << ", step " << step;
        }
    }
}

TEST(KernelTable, DoesWhatASimpleModelDoesWithIpv4) { run(false); }
TEST(KernelTable, DoesWhatASimpleModelDoesWithIpv6) { run(true); }

}  // namespace
}  // namespace millrace::nf::router
