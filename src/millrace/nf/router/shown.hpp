// What routers show of their tables.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "millrace/base/text/prefix.hpp"
#include "millrace/nf/router/next_hops.hpp"
#include "millrace/nf/prefixes/rib.hpp"
#include "millrace/nf/shown.hpp"

namespace millrace::nf::router {

template <unsigned Bytes>
Prefix prefix_of(const typename Rib<Bytes>::Route& route) {
    Prefix prefix;
    std::copy_n(route.address.begin(), Bytes, prefix.bytes.begin());
    prefix.length = route.length;
    prefix.ipv6 = Bytes == 16;
    return prefix;
}

/// Adds the routes of one address family, in order of their prefixes where all have room: `prefix` and what `via` says
/// of a route's target.
template <unsigned Bytes, class Via>
void show_routes(ShownTable& shown, const Rib<Bytes>& rib, size_t most, const Via& via) {
    shown.total += rib.size();
    std::vector<typename Rib<Bytes>::Route> routes;
    const size_t room = most - std::min(most, shown.rows.size());
    routes.reserve(std::min(room, rib.size()));
    rib.for_each([&](const auto& route) {
        if (routes.size() < room) routes.push_back(route);
    });
    std::sort(routes.begin(), routes.end(), [](const auto& a, const auto& b) {
        return a.address != b.address ? a.address < b.address : a.length < b.length;
    });
    for (const auto& route : routes) shown.rows.push_back({prefix_of<Bytes>(route).text(), via(route.value)});
}

/// The names of a target's next hops, with commas where flows are shared among several.
std::string via_text(uint16_t target, const NextHops& next_hops);
/// The configured next hops, which are neighbours that nobody has to look for.
ShownTable show_next_hops(const NextHops& next_hops, const std::vector<std::string>& ports, size_t most);

}  // namespace millrace::nf::router
