#include "millrace/base/text/prefix.hpp"

#include <arpa/inet.h>

#include <charconv>
#include <cstdio>

namespace millrace {

std::string Prefix::text() const {
    char buffer[INET6_ADDRSTRLEN];
    inet_ntop(ipv6 ? AF_INET6 : AF_INET, bytes.data(), buffer, sizeof buffer);
    return std::string(buffer) + "/" + std::to_string(length);
}

std::optional<Prefix> parse_prefix(std::string_view text, bool mask_host_bits) {
    Prefix prefix;
    const size_t slash = text.find('/');
    const std::string address(text.substr(0, slash));
    prefix.ipv6 = address.find(':') != std::string::npos;
    if (inet_pton(prefix.ipv6 ? AF_INET6 : AF_INET, address.c_str(), prefix.bytes.data()) != 1) return std::nullopt;
    const unsigned bits = prefix.address_bits();
    unsigned length = bits;
    if (slash != std::string_view::npos) {
        const std::string_view digits = text.substr(slash + 1);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
        if (error != std::errc{} || end != digits.data() + digits.size() || length > bits) return std::nullopt;
    }
    prefix.length = static_cast<uint8_t>(length);
    for (unsigned bit = length; bit < bits; ++bit) {
        const uint8_t mask = static_cast<uint8_t>(0x80 >> (bit % 8));
        if ((prefix.bytes[bit / 8] & mask) != 0 && !mask_host_bits) return std::nullopt;
        prefix.bytes[bit / 8] = static_cast<uint8_t>(prefix.bytes[bit / 8] & ~mask);
    }
    return prefix;
}

std::optional<std::array<uint8_t, 6>> parse_mac(std::string_view text) {
    std::array<uint8_t, 6> mac{};
    if (text.size() != 17) return std::nullopt;
    for (unsigned i = 0; i < 6; ++i) {
        const char* at = text.data() + 3 * i;
        const auto [end, error] = std::from_chars(at, at + 2, mac[i], 16);
        if (error != std::errc{} || end != at + 2) return std::nullopt;
        if (i < 5 && at[2] != ':' && at[2] != '-') return std::nullopt;
    }
    return mac;
}

std::string mac_text(const std::array<uint8_t, 6>& mac) {
    char buffer[18];
    std::snprintf(buffer, sizeof buffer, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                  mac[5]);
    return buffer;
}

}  // namespace millrace
