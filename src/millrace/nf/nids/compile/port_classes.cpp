#include "millrace/nf/nids/compile/port_classes.hpp"

#include <algorithm>
#include <map>

namespace millrace::nf::nids {
namespace {

constexpr uint32_t kPorts = 65536;

/// Where a set begins or ends to have ports.
struct Edge {
    uint32_t port, set;
    friend bool operator<(const Edge& a, const Edge& b) { return a.port < b.port; }
};

std::vector<Edge> edges_of(const std::vector<PortSet>& sets, uint32_t count, const std::vector<PortRange>& ranges) {
    std::vector<Edge> edges;
    for (uint32_t set = 0; set < count; ++set) {
        for (uint32_t i = sets[set].first; i < sets[set].first + sets[set].count; ++i) {
            edges.push_back({ranges[i].low, set});
            edges.push_back({ranges[i].high + 1u, set});
        }
    }
    std::sort(edges.begin(), edges.end());
    return edges;
}

}  // namespace

PortClasses classify_ports(const std::vector<PortSet>& sets, const std::vector<PortRange>& ranges) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(sets.size(), kMaxClassedSets));
    const std::vector<Edge> edges = edges_of(sets, count, ranges);
    PortClasses classes;
    classes.words = (count + 31) / 32;
    classes.of_port.resize(kPorts);
    std::vector<uint32_t> in(classes.words);
    if (count > 0) in[0] = 1;
    std::map<std::vector<uint32_t>, uint16_t> known;
    auto edge = edges.begin();
    for (uint32_t port = 0; port < kPorts;) {
        for (; edge != edges.end() && edge->port == port; ++edge) in[edge->set / 32] ^= 1u << edge->set % 32;
        const auto [at, added] = known.emplace(in, static_cast<uint16_t>(known.size()));
        if (added) classes.sets.insert(classes.sets.end(), in.begin(), in.end());
        const uint32_t next = edge == edges.end() ? kPorts : edge->port;
        std::fill(classes.of_port.begin() + port, classes.of_port.begin() + std::min(next, kPorts), at->second);
        port = next;
    }
    return classes;
}

}  // namespace millrace::nf::nids
