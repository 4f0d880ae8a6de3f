// Ports by the sets of rules that they are in.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/nf/nids/tables.hpp"

namespace millrace::nf::nids {

/// Ports that are in the same sets are of one class, so that whether a packet's port is in a set is one bit.
struct PortClasses {
    std::vector<uint16_t> of_port;  ///< 65,536
    std::vector<uint32_t> sets;     ///< `words` for each class: bit s of them is set where its ports are in set s
    uint32_t words = 0;
};

/// Of the first kMaxClassedSets sets. Set 0, that of all ports, has no ranges.
PortClasses classify_ports(const std::vector<PortSet>& sets, const std::vector<PortRange>& ranges);

}  // namespace millrace::nf::nids
