// Captures that are not Ethernet: what their records look like as Ethernet frames.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace millrace::io {

/// An Ethernet header made up for a record of another link type.
struct EthernetHead {
    std::array<uint8_t, 14> bytes{};
    uint32_t skip = 0;  ///< bytes of the record that it replaces
};

/// Whether `to_ethernet_head` can make anything of this link type (libpcap's DLT_ number).
bool has_ethernet_form(int link_type);

/// The header for one record: raw IP (12, 14, 101, 228, 229), Linux cooked (113 and 276) and BSD loopback
/// (0 and 108). Addresses are locally administered (02:00:00:00:00:01 to 02:00:00:00:00:02), save where the
/// cooked header knows the sender's. False when the record carries nothing with an EtherType or is cut
/// off before its payload. Sources: https://www.tcpdump.org/linktypes.html.
bool to_ethernet_head(int link_type, std::span<const uint8_t> record, EthernetHead& head);

}  // namespace millrace::io
