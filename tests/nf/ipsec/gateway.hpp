// What the tests of the IPsec gateway share: configurations and frames.
#pragma once

#include <string>
#include <vector>

#include "millrace/nf/ipsec/device.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {

/// Which SA: its cipher ("aes-128-ctr", …, "null"), outer IP version, and what else it asks for.
struct Tunnel {
    std::string cipher = "aes-128-ctr";
    bool ipv6 = false;
    std::string extra = {};         ///< further options of the SA, flow style: "ttl: 32, df: set"
    std::string policy_extra = {};  ///< further options of the node
    std::string auth = "hmac-sha1-96";
    bool esn = false;
    bool udp = false;
    bool transport = false;  ///< between 192.0.2.1 and 198.51.100.1, or 2001:db8::1 and ::2
    size_t gcm_icv = 16;

    bool is(const char* mode) const { return cipher.ends_with(mode); }
    size_t key_bytes() const { return cipher == "null" ? 0 : cipher.starts_with("aes-256") ? 32 : 16; }
    size_t iv_bytes() const { return is("ctr") || is("gcm") ? 8 : is("cbc") ? 16 : 0; }
    size_t icv_bytes() const;
    size_t alignment() const { return is("cbc") ? 16 : 4; }
    /// Bytes before an inner packet.
    size_t head_bytes() const { return (transport ? 0 : ipv6 ? 40 : 20) + (udp ? 8 : 0) + 8 + iv_bytes(); }
    std::string text() const;
};

/// As many bytes of them as the algorithm takes.
inline constexpr const char* kKeyText = "7e24067817fae0d743d6ce1f32539163a1b2c3d4e5f60718293a4b5c6d7e8f90";
inline constexpr const char* kNonceText = "006cb6db";
inline constexpr const char* kAuthKeyText = "1f2e3d4c5b6a79880123456789abcdeffedcba9800112233445566778899aabb";

/// The options of the gateway at the near end: everything from 10.1/16 to 10.2/16 and from
/// 2001:db8:1::/48 to 2001:db8:2::/48 goes into SA "east"; the rest passes.
std::string near_end(const Tunnel& tunnel);
/// The options of the gateway at the far end, where it comes out again.
std::string far_end(const Tunnel& tunnel);

/// All ciphers, ICVs and sequence numbers, over both IP versions.
std::vector<Tunnel> all_tunnels();

/// A UDP frame that `near_end` protects, with `payload` bytes of payload.
Frame clear_frame(size_t payload, bool ipv6 = false, Rng* rng = nullptr, size_t vlans = 0);
/// The same between the two ends of SAs in transport mode.
Frame transport_frame(size_t payload, bool ipv6 = false, Rng* rng = nullptr, size_t vlans = 0);

/// The outcome's name.
std::string outcome_name(const NfRunner& runner, const Decision& decision);
std::vector<std::string> outcome_names(const NfRunner& runner, const NfResult& result);

}  // namespace millrace::test
