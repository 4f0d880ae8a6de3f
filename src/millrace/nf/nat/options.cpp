#include "millrace/nf/nat/options.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::nf::nat {
namespace {

std::vector<Network> read_inside(const Config& inside) {
    std::vector<Network> made;
    for (const Config& one : inside.items()) {
        const Prefix prefix = mappings::read_prefix(one, false, "NAT44 leaves IPv6 as it is");
        const uint32_t mask = prefix.length == 0 ? 0 : ~uint32_t{0} << (32 - prefix.length);
        Network& network = made.emplace_back();
        mappings::read_address_of(prefix, network.address);
        network.mask = __builtin_bswap32(mask);
        if (made.size() > mappings::kMaxInside)
            one.fail(fmt::format("there are more than {} prefixes", mappings::kMaxInside));
    }
    if (made.empty()) inside.fail("nobody is inside", "write inside: 10.0.0.0/8");
    return made;
}

}  // namespace

NatOptions read_options(const Config& options) {
    options.only({"inside", "pool", "ports", "forwards", "timeouts", "journal"});
    NatOptions made{read_inside(options.at("inside")), {}};
    const auto is_inside = [&](uint32_t address) {
        return std::ranges::any_of(made.inside,
                                   [&](const Network& network) { return (address & network.mask) == network.address; });
    };
    made.ports = mappings::read_options<uint32_t>(options, is_inside, is_inside);
    return made;
}

}  // namespace millrace::nf::nat
