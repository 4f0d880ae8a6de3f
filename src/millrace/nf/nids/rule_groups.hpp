// Where rules without a pattern stand that may be for a packet.
#pragma once

#include "millrace/nf/nids/examination.hpp"
#include "millrace/nf/nids/lane_lists.hpp"

namespace millrace::nf::nids::detail {

MILLRACE_DEVICE List<Listed> groups_at(const RangeIndex& index, uint32_t value) {
    if (index.groups.empty()) return {};
    uint32_t low = index.tops[value >> index.shift], high = index.tops[(value >> index.shift) + 1] + 1;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (index.starts[middle] <= value) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return {index.groups.data() + index.begin[low], index.begin[low + 1] - index.begin[low]};
}

inline constexpr uint32_t kIndexes = 4;
/// The groups of rules that look for no pattern and may be for such a packet, by index `which` of kIndexes. Each lane
/// may ask for another index: what they do is the same.
MILLRACE_DEVICE_CALL List<Listed> groups_without_pattern(const NidsTables& tables, const Packet& packet,
                                                         uint32_t which) {
    const Layers& layers = packet.layers();
    const RangeIndex& index = which == 0   ? tables.by_destination_port
                              : which == 1 ? tables.by_source_port
                              : which == 2 ? tables.by_source
                                           : tables.by_destination;
    if (which < 2) {
        const PortKey key = layers.is_tcp()    ? PortKey::tcp
                            : layers.is_udp()  ? PortKey::udp
                            : layers.is_icmp() ? PortKey::icmp
                                               : PortKey::other;
        const uint32_t port = which == 0 ? packet.l4_dst_port() : packet.l4_src_port();
        return groups_at(index, static_cast<uint32_t>(key) << 16 | port);
    }
    if (layers.is_ipv4()) return groups_at(index, which == 2 ? packet.ipv4_src() : packet.ipv4_dst());
    if (which == 3) return {};
    return {tables.only_ipv6.data(), static_cast<uint32_t>(tables.only_ipv6.size())};
}

}  // namespace millrace::nf::nids::detail
