// Ports by the sets of rules that they are in.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/nf/nids/tables.hpp"

namespace millrace::nf::nids {

/// Ports that are in the same sets are of one class, so that a few bits tell whether they are those of a header.
struct PortClasses {
    std::vector<uint16_t> of_port;  ///< 65,536
    std::vector<uint32_t> bits;     ///< `words` for each class: the port_bits of each header
    uint32_t words = 0;
    uint32_t headers = 0;  ///< that have bits: the first ones
};

/// Sets from this one on have no bits, and their headers neither.
inline constexpr uint32_t kMaxClassedSets = 4096;
/// Most words of bits: 16 MiB.
inline constexpr size_t kMaxClassWords = size_t{1} << 22;

/// Of the headers up to the first that has a set from kMaxClassedSets on, as far as there is room for their bits. Set
/// 0, that of all ports, has no ranges.
PortClasses classify_ports(const std::vector<RuleHeader>& headers, const std::vector<PortSet>& sets,
                           const std::vector<PortRange>& ranges);

}  // namespace millrace::nf::nids
