#include "millrace/nf/nat64/options.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::nf::nat64 {
namespace {

constexpr const char* kWellKnown = "64:ff9b::/96";  // RFC 6052, section 2.1

Network network_of(const Prefix& prefix) {
    Network network{};
    mappings::read_address_of(prefix, network.address);
    Prefix mask;
    for (unsigned bit = 0; bit < prefix.length; ++bit) mask.bytes[bit / 8] |= static_cast<uint8_t>(0x80 >> bit % 8);
    mappings::read_address_of(mask, network.mask);
    return network;
}

bool holds(const Network& network, const Ipv6Address& address) {
    for (unsigned i = 0; i < 4; ++i)
        if ((address.words[i] & network.mask.words[i]) != network.address.words[i]) return false;
    return true;
}

void read_inside(const Config& options, std::vector<Network>& made) {
    const auto inside = options.find("inside");
    if (!inside) return made.push_back(Network{});  // everybody who has IPv6
    for (const Config& one : inside->items()) {
        made.push_back(network_of(mappings::read_prefix(one, true, "those inside have IPv6; NAT44 is 'nat'")));
        if (made.size() > mappings::kMaxInside)
            one.fail(fmt::format("there are more than {} prefixes", mappings::kMaxInside));
    }
    if (made.empty()) inside->fail("nobody is inside", "leave 'inside' out for everybody who has IPv6");
}

void read_prefix64(const Config& options, Nat64Options& made) {
    Prefix prefix = *parse_prefix(kWellKnown);
    if (const auto given = options.find("prefix")) {
        prefix = mappings::read_prefix(*given, true, std::string("write prefix: ") + kWellKnown);
        static constexpr uint8_t kLengths[] = {32, 40, 48, 56, 64, 96};
        if (std::ranges::find(kLengths, prefix.length) == std::end(kLengths))
            given->fail("'" + given->text() + "' can't stand before IPv4 addresses",
                        "its length is one of 32, 40, 48, 56, 64, 96 (RFC 6052)");
        if (prefix.bytes[kReservedByte] != 0)
            given->fail("bits 64 to 71 of '" + given->text() + "' are not 0", "RFC 6052 reserves them");
    }
    mappings::read_address_of(prefix, made.prefix);
    made.prefix_bytes = prefix.length / 8;
}

}  // namespace

Nat64Options read_options(const Config& options) {
    options.only({"inside", "prefix", "pool", "ports", "forwards", "timeouts", "journal", "mtu"});
    Nat64Options made;
    made.mtu = static_cast<uint32_t>(options.integer_or("mtu", made.mtu, 1280, 9216));  // RFC 8200, section 5
    read_prefix64(options, made);
    read_inside(options, made.inside);
    const auto is_inside = [&](const Ipv6Address& address) {
        return std::ranges::any_of(made.inside, [&](const Network& network) { return holds(network, address); });
    };
    made.ports = mappings::read_options<Ipv6Address>(options, is_inside, [](uint32_t) { return false; });
    return made;
}

}  // namespace millrace::nf::nat64
