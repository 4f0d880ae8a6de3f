#include "millrace/nf/router/routes.hpp"

#include <algorithm>
#include <iterator>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/router/route_file.hpp"

namespace millrace::nf::router {
namespace {

template <unsigned Bytes>
typename Rib<Bytes>::Route as_route(const Prefix& prefix, uint16_t target) {
    typename Rib<Bytes>::Route route;
    std::copy_n(prefix.bytes.begin(), Bytes, route.address.begin());
    route.length = prefix.length;
    route.used = true;
    route.value = target;
    return route;
}

/// The routes of all sources, each of which overrides those before it.
class Reader {
public:
    Reader(NextHops& next_hops) : next_hops_(next_hops) {}

    /// One element of `routes:`.
    void add(const Config& item) {
        if (item.is_scalar()) return add_file(item, std::nullopt);
        item.only({"prefix", "file", "via"});
        if (item.has("file")) {
            if (item.has("prefix"))
                item.fail("'prefix' and 'file' do not go together", "make them two elements of the list");
            return add_file(item.at("file"), item.find("via"));
        }
        const Prefix prefix = item.at("prefix").prefix();
        const uint16_t target = next_hops_.target_via(item.at("via"));
        if (!inline_.set(key_of(prefix), prefix.length + (prefix.ipv6 ? 0u : 96u), target))
            item.at("prefix").fail("there is another route for " + prefix.text(),
                                   "give several next hops as a list behind 'via'");
        put(prefix, target);
    }

    void add_local(const Config& item) { put(item.prefix(), kTargetLocal); }

    Mistakes& mistakes() { return mistakes_; }
    std::vector<Ipv4Lpm::Route>& ipv4() { return ipv4_; }
    std::vector<Ipv6Lpm::Route>& ipv6() { return ipv6_; }

private:
    void put(const Prefix& prefix, uint16_t target) {
        if (prefix.ipv6) {
            ipv6_.push_back(as_route<16>(prefix, target));
        } else {
            ipv4_.push_back(as_route<4>(prefix, target));
        }
    }

    void add_file(const Config& name, const std::optional<Config>& via) {
        if (next_hops_.empty()) name.fail("routes need next hops", "name at least one under 'next-hops:'");
        std::optional<uint16_t> otherwise;
        if (via && !(via->is_scalar() && via->text() == "hash")) otherwise = next_hops_.target_via(*via);
        const std::string path = name.path();
        const std::string text = read_file(path, name.where());
        Rib<4> seen4;
        Rib<16> seen6;
        const size_t lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
        ipv4_.reserve(ipv4_.size() + lines);
        read_routes(text, path, mistakes_, [&](const FileRoute& route) {
            const uint16_t target = !route.next_hop.empty() ? next_hops_.target_for_text(route.next_hop)
                                    : otherwise             ? *otherwise
                                                            : next_hops_.target_for_prefix(route.prefix);
            const bool clash = route.prefix.ipv6 ? clashes(seen6, as_route<16>(route.prefix, target))
                                                 : clashes(seen4, as_route<4>(route.prefix, target));
            if (clash) {
                mistakes_.add({{path, route.line, route.column},
                               "this file has another route for " + route.prefix.text() + " with another next hop",
                               "keep one of them; several next hops are written in the configuration"});
            }
            put(route.prefix, target);
        });
    }

    /// Whether a file has named this prefix before, with another target.
    template <unsigned Bytes>
    static bool clashes(Rib<Bytes>& seen, const typename Rib<Bytes>::Route& route) {
        const auto before = seen.find(route.address, route.length);
        if (before) return *before != route.value;
        seen.set(route.address, route.length, route.value);
        return false;
    }

    /// IPv4 prefixes stand among the IPv6 ones as ::ffff:0:0/96 has them.
    static std::array<uint8_t, 16> key_of(const Prefix& prefix) {
        if (prefix.ipv6) return prefix.bytes;
        std::array<uint8_t, 16> key{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
        std::copy_n(prefix.bytes.begin(), 4, key.begin() + 12);
        return key;
    }

    NextHops& next_hops_;
    Mistakes mistakes_;
    Rib<16> inline_;
    std::vector<Ipv4Lpm::Route> ipv4_;
    std::vector<Ipv6Lpm::Route> ipv6_;
};

template <class Table, class Route>
void load(Table& table, std::vector<Route> routes, const Config& options) {
    try {
        table.load(std::move(routes));
    } catch (const std::length_error& error) {
        options.fail(error.what(), "the README of the router says how many it takes");
    }
}

}  // namespace

Routes read_options(const Config& options, const std::vector<std::string>& ports) {
    options.only({"routes", "next-hops", "next-hop-map", "local", "kernel", "engine"});
    Routes routes{NextHops(options, ports), {}, {}, options.has("local"), LookupEngine::dir_24_8};
    if (const auto engine = options.find("engine"))
        routes.engine = static_cast<LookupEngine>(
            engine->choice({std::begin(kLookupEngineNames), std::end(kLookupEngineNames)}));
    Reader reader(routes.next_hops);
    const auto each = [&](const char* key, auto&& f) {
        const auto list = options.find(key);
        if (!list) return;
        for (const Config& item : list->items()) {
            try {
                f(item);
            } catch (const ConfigError& error) {
                reader.mistakes().add(error);
            }
        }
    };
    each("routes", [&](const Config& item) { reader.add(item); });
    each("local", [&](const Config& item) { reader.add_local(item); });
    reader.mistakes().check();
    load(routes.ipv4, std::move(reader.ipv4()), options);
    load(routes.ipv6, std::move(reader.ipv6()), options);
    const size_t most = std::max(routes.ipv4.rib().size(), routes.ipv6.rib().size());
    if (routes.engine == LookupEngine::linear && most > kMaxLinearRoutes)
        options.at("engine").fail(std::to_string(most) + " routes are too many to look at one after the other",
                                  "leave 'engine' out; at most " + std::to_string(kMaxLinearRoutes) +
                                      " routes of an address family go with 'linear'");
    return routes;
}

}  // namespace millrace::nf::router
