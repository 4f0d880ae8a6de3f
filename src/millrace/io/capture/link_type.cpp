#include "millrace/io/capture/link_type.hpp"

#include <pcap/dlt.h>

#include <algorithm>
#include <bit>

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {
namespace {

constexpr int kRawBsdi = 12, kRawOpenBsd = 14, kRaw = 101;
constexpr uint16_t kLeastEtherType = 0x600;  // IEEE 802.3: smaller numbers are lengths

uint16_t ip_ether_type(uint8_t first_byte) {
    if (first_byte >> 4 == 4) return eth::kTypeIpv4;
    if (first_byte >> 4 == 6) return eth::kTypeIpv6;
    return 0;
}

/// BSD loopback: an address family, in the byte order of whoever wrote it. IPv6 has three numbers there
/// and a fourth on Linux.
uint16_t family_ether_type(uint32_t family) {
    if (family > 0xffff) family = __builtin_bswap32(family);
    if (family == 2) return eth::kTypeIpv4;
    if (family == 24 || family == 28 || family == 30 || family == 10) return eth::kTypeIpv6;
    return 0;
}

/// Linux cooked: some kinds of device put something else where the EtherType stands (netlink, GRE, 802.11).
bool cooked_has_ether_type(uint16_t device) {
    constexpr uint16_t kNetlink = 824, kGre = 778, kRadiotap = 803, kFrameRelay = 770;
    return device != kNetlink && device != kGre && device != kRadiotap && device != kFrameRelay;
}

void put_type(EthernetHead& head, uint16_t type) { store_be16(head.bytes.data() + 12, type); }

bool cooked(std::span<const uint8_t> record, size_t header, size_t protocol_at, size_t device_at,
            uint16_t address_length, size_t address_at, EthernetHead& head) {
    const uint16_t device = load_be16(record.data() + device_at);
    uint16_t type = load_be16(record.data() + protocol_at);
    if (!cooked_has_ether_type(device)) return false;
    constexpr uint16_t kLlc = 4;  // ETH_P_802_2: an 802.2 header follows, so a length stands before it
    if (type == kLlc) type = static_cast<uint16_t>(std::min<size_t>(record.size() - header, kLeastEtherType - 1));
    else if (type < kLeastEtherType) return false;
    if (address_length == 6) std::copy_n(record.data() + address_at, 6, head.bytes.begin() + 6);
    put_type(head, type);
    head.skip = static_cast<uint32_t>(header);
    return true;
}

}  // namespace

bool has_ethernet_form(int link_type) {
    switch (link_type) {
        case DLT_NULL:
        case DLT_LOOP:
        case kRawBsdi:
        case kRawOpenBsd:
        case kRaw:
        case DLT_IPV4:
        case DLT_IPV6:
        case DLT_LINUX_SLL:
        case DLT_LINUX_SLL2: return true;
        default: return false;
    }
}

bool to_ethernet_head(int link_type, std::span<const uint8_t> record, EthernetHead& head) {
    head.bytes = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0, 0};
    head.skip = 0;
    switch (link_type) {
        case kRawBsdi:
        case kRawOpenBsd:
        case kRaw:
        case DLT_IPV4:
        case DLT_IPV6: {
            if (record.empty()) return false;
            const uint16_t type = ip_ether_type(record[0]);
            put_type(head, type);
            return type != 0;
        }
        case DLT_NULL:
        case DLT_LOOP: {
            if (record.size() < 4) return false;
            const uint16_t type = family_ether_type(load_be32(record.data()));
            put_type(head, type);
            head.skip = 4;
            return type != 0;
        }
        case DLT_LINUX_SLL:  // packet type, device type, address length, address (8), protocol
            return record.size() >= 16 && cooked(record, 16, 14, 2, load_be16(record.data() + 4), 6, head);
        case DLT_LINUX_SLL2:  // protocol, reserved, interface (4), device type, packet type, address length, address
                              // (8)
            return record.size() >= 20 && cooked(record, 20, 0, 8, record[11], 12, head);
        default: return false;
    }
}

}  // namespace millrace::io
