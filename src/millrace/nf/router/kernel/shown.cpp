// What the kernel's router shows of its tables.
#include <algorithm>

#include "millrace/nf/router/kernel/kernel_table.hpp"

namespace millrace::nf::router {

std::string KernelTable::name_of(uint32_t interface) const {
    const auto link = links_.find(interface);
    return link != links_.end() ? link->second.told.name : "interface " + std::to_string(interface);
}

std::string KernelTable::text_of(const Way& way) const {
    switch (way.kind) {
        case Way::Kind::none: return "none";
        case Way::Kind::local: return "local";
        case Way::Kind::kernel: return "the kernel";
        case Way::Kind::blackhole: return "blackhole";
        case Way::Kind::object: return text_of(way_of_object(way.object));
        case Way::Kind::connected:
        case Way::Kind::gateways: break;
    }
    std::string text;
    for (const RouteHop& hop : way.hops) {
        if (!text.empty()) text += ", ";
        if (hop.has_gateway) text += hop.gateway.text() + " on ";
        text += name_of(hop.interface);
        if (way.hops.size() > 1) text += " weight " + std::to_string(hop.weight);
    }
    return text;
}

ShownTable KernelTable::show_routes(size_t most) const {
    ShownTable shown{.columns = {"prefix", "via", "metric", "table"}, .rows = {}, .total = routes_count_};
    std::vector<std::pair<Prefix, const Route*>> routes;
    routes.reserve(std::min(most, routes_count_));
    for (auto at = routes_.begin(); at != routes_.end() && routes.size() < most; ++at)
        for (const Route& route : at->second)
            if (routes.size() < most) routes.emplace_back(at->first, &route);
    std::stable_sort(routes.begin(), routes.end(), [](const auto& a, const auto& b) {
        const auto rank = [](const Prefix& prefix) { return std::tie(prefix.ipv6, prefix.bytes, prefix.length); };
        return rank(a.first) < rank(b.first);
    });
    for (const auto& [prefix, route] : routes)
        shown.rows.push_back({prefix.text(), text_of(ways_.at(route->way)), uint64_t{route->metric},
                              route->local_table ? std::string("local") : std::to_string(options_.table)});
    return shown;
}

ShownTable KernelTable::show_neighbours(size_t most) const {
    ShownTable shown{.columns = {"address", "interface", "mac", "state"}, .rows = {}, .total = neighbours_.size()};
    for (const auto& [key, neighbour] : neighbours_) {
        if (shown.rows.size() == most) break;
        const char* const state = !neighbour.usable ? "unknown" : neighbour.stale ? "stale" : "reachable";
        shown.rows.push_back({key.address.text(), name_of(key.interface),
                              neighbour.usable ? mac_text(neighbour.mac) : std::string(), std::string(state)});
    }
    return shown;
}

}  // namespace millrace::nf::router
