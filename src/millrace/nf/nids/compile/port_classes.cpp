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

/// The class of each port, and of each class a bit for each of the first `count` sets that its ports are in.
struct Sorted {
    std::vector<uint16_t> of_port;
    std::vector<std::vector<uint32_t>> sets;
};

Sorted sort_ports(const std::vector<PortSet>& sets, const std::vector<PortRange>& ranges) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(sets.size(), kMaxClassedSets));
    const std::vector<Edge> edges = edges_of(sets, count, ranges);
    Sorted sorted{.of_port = std::vector<uint16_t>(kPorts)};
    std::vector<uint32_t> in(count / 32 + 1);
    in[0] = 1;
    std::map<std::vector<uint32_t>, uint16_t> known;
    auto edge = edges.begin();
    for (uint32_t port = 0; port < kPorts;) {
        for (; edge != edges.end() && edge->port == port; ++edge) in[edge->set / 32] ^= 1u << edge->set % 32;
        const auto [at, added] = known.emplace(in, static_cast<uint16_t>(known.size()));
        if (added) sorted.sets.push_back(in);
        const uint32_t next = edge == edges.end() ? kPorts : edge->port;
        std::fill(sorted.of_port.begin() + port, sorted.of_port.begin() + std::min(next, kPorts), at->second);
        port = next;
    }
    return sorted;
}

uint32_t bits_of(const RuleHeader& header, const std::vector<uint32_t>& sets) {
    const auto has = [&](uint32_t set) { return (sets[set / 32] >> set % 32 & 1) != 0; };
    return (has(header.src_ports) ? port_bits::kSrc : 0) | (has(header.dst_ports) ? port_bits::kDst : 0) |
           (has(header.application_ports) ? port_bits::kApplication : 0);
}

}  // namespace

PortClasses classify_ports(const std::vector<RuleHeader>& headers, const std::vector<PortSet>& sets,
                           const std::vector<PortRange>& ranges) {
    Sorted sorted = sort_ports(sets, ranges);
    const auto unclassed = std::ranges::find_if(headers, [](const RuleHeader& header) {
        return std::max({header.src_ports, header.dst_ports, header.application_ports}) >= kMaxClassedSets;
    });
    const size_t count = std::min({static_cast<size_t>(unclassed - headers.begin()), size_t{kMaxClassedHeaders},
                                   kMaxClassWords / sorted.sets.size() * port_bits::kInWord});
    PortClasses classes{.of_port = std::move(sorted.of_port), .headers = static_cast<uint32_t>(count)};
    // One word at least, which whoever asks of no header reads.
    classes.words = std::max(1u, (classes.headers + port_bits::kInWord - 1) / port_bits::kInWord);
    classes.bits.resize(sorted.sets.size() * classes.words);
    for (size_t row = 0; row < sorted.sets.size(); ++row)
        for (uint32_t i = 0; i < classes.headers; ++i)
            classes.bits[row * classes.words + i / port_bits::kInWord] |= bits_of(headers[i], sorted.sets[row])
                                                                          << i % port_bits::kInWord * port_bits::kBits;
    return classes;
}

}  // namespace millrace::nf::nids
