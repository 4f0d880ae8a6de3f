// What the tests of the IPsec gateway share: configurations and frames.
#pragma once

#include <string>
#include <vector>

#include "millrace/nf/ipsec/device.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {

/// Which tunnel: its cipher ("aes-128-ctr", "aes-128-cbc", "null") and outer IP version.
struct Tunnel {
    std::string cipher = "aes-128-ctr";
    bool ipv6 = false;
    std::string extra = {};         ///< further options of the SA, flow style: "ttl: 32, df: set"
    std::string policy_extra = {};  ///< further options of the node

    std::string text() const { return cipher + (ipv6 ? " over IPv6" : " over IPv4"); }
};

inline constexpr const char* kKeyText = "7e24067817fae0d743d6ce1f32539163";
inline constexpr const char* kNonceText = "006cb6db";
inline constexpr const char* kAuthKeyText = "1f2e3d4c5b6a79880123456789abcdeffedcba98";

/// The options of the gateway at the near end: everything from 10.1/16 to 10.2/16 and from
/// 2001:db8:1::/48 to 2001:db8:2::/48 goes into SA "east"; the rest passes.
std::string near_end(const Tunnel& tunnel);
/// The options of the gateway at the far end, where it comes out again.
std::string far_end(const Tunnel& tunnel);

/// All ciphers over both IP versions.
std::vector<Tunnel> all_tunnels();

/// A UDP frame that `near_end` protects, with `payload` bytes of payload.
Frame clear_frame(size_t payload, bool ipv6 = false, Rng* rng = nullptr, size_t vlans = 0);

/// The outcome's name.
std::string outcome_name(const NfRunner& runner, const Decision& decision);
std::vector<std::string> outcome_names(const NfRunner& runner, const NfResult& result);

}  // namespace millrace::test
