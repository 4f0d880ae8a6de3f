// IP addresses and prefixes as text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// An IPv4 or IPv6 prefix. IPv4 uses the first four bytes. Bytes are in network order; bits behind
/// `length` are zero.
struct Prefix {
    std::array<uint8_t, 16> bytes{};
    uint8_t length = 0;
    bool ipv6 = false;

    /// The IPv4 address in host order.
    uint32_t ipv4() const {
        return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
               static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
    }
    unsigned address_bits() const { return ipv6 ? 128 : 32; }
    bool is_host() const { return length == address_bits(); }
    std::string text() const;
    friend bool operator==(const Prefix&, const Prefix&) = default;
};

/// Reads `a.b.c.d/n`, `x::y/n`, or an address alone (a host prefix). Nothing on anything else; bits
/// set behind the length are an error too unless `mask_host_bits`.
std::optional<Prefix> parse_prefix(std::string_view text, bool mask_host_bits = false);

/// Reads `aa:bb:cc:dd:ee:ff`.
std::optional<std::array<uint8_t, 6>> parse_mac(std::string_view text);
std::string mac_text(const std::array<uint8_t, 6>& mac);

}  // namespace millrace
