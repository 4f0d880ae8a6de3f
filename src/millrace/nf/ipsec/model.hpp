// What the device half of the IPsec gateway knows: security associations, policies, and their state.
#pragma once

#include "millrace/nf/classify/classifier.hpp"
#include "millrace/nf/crypto/aes.hpp"
#include "millrace/nf/crypto/sha1.hpp"
#include "millrace/nf/ipsec/outcome.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::ipsec {

enum class Cipher : uint8_t { null, aes_ctr, aes_cbc };
enum class Auth : uint8_t { none, hmac_sha1_96 };
enum class Action : uint8_t { protect, bypass, discard };
/// Where the outer "don't fragment" bit comes from. IPv6 counts as a packet that has it set.
enum class DontFragment : uint8_t { copy, set, clear };

inline constexpr uint32_t kEspHeaderBytes = 8;
inline constexpr uint32_t kEspTrailerBytes = 2;  ///< pad length and next header
inline constexpr uint32_t kIcvBytes = 12;        ///< HMAC-SHA1-96 (RFC 2404)
inline constexpr uint32_t kCtrIvBytes = 8;       ///< RFC 3686, section 3.1
/// An IPv6 header, the ESP header and the IV of CBC.
inline constexpr uint32_t kHeadGrowth = ip::kIpv6Bytes + kEspHeaderBytes + crypto::kAesBlockBytes;
/// 15 bytes of padding, the trailer and the ICV.
inline constexpr uint32_t kTailGrowth = crypto::kAesBlockBytes - 1 + kEspTrailerBytes + kIcvBytes;
/// The last sequence number: it never wraps around (RFC 4303, section 3.3.3).
inline constexpr uint64_t kLastSequence = 0xffffffffu;

/// Set in the ticket of a packet whose ICV was found right, beside the SA's slot (bits 32 to 62) and
/// the sequence number (bits 0 to 31).
inline constexpr uint64_t kVerified = uint64_t{1} << 63;

// The anti-replay window of an SA is a ring of bits (RFC 6479): `top`, the highest sequence number
// that was accepted, then words in which bit s % (64 * kRingWords) stands for s.
inline constexpr uint32_t kRingWords = 17;
inline constexpr uint32_t kWindowWords = 1 + kRingWords;  ///< of state an SA
inline constexpr uint32_t kMaxReplayWindow = 64 * (kRingWords - 1);

/// An IPv4 address in the first word and the others 0, or an IPv6 address; as it lies in the packet.
struct Address {
    uint32_t words[4] = {};
};

/// Which packets a policy, or the inside of an SA, is about.
struct Selector {
    Address src, src_mask, dst, dst_mask;
    uint16_t src_port_first = 0, src_port_last = 0xffff;
    uint16_t dst_port_first = 0, dst_port_last = 0xffff;
    uint8_t protocol = 0;
    bool any_protocol = true;
    bool any_port = true;
    bool ipv6 = false;
};

/// So many policies are compared one by one; the classification engines search more of them.
inline constexpr uint32_t kFewPolicies = 8;

/// One line of the security policy database (RFC 4301, section 4.4.1).
struct Policy {
    Selector selector;
    uint32_t sa = 0;      ///< of `protect`: index into Tables::sas
    uint32_t detail = 0;  ///< of `bypass` and `discard`: Decision::detail
    Action action = Action::discard;
};

/// A security association: what both directions need. Only the device's memory and the host half see
/// the keys.
struct alignas(16) Sa {                                // as crypto::round_key reads schedules
    uint32_t keys[crypto::kAes128Words] = {};          ///< schedule of the cipher
    uint32_t inverse_keys[crypto::kAes128Words] = {};  ///< of CBC decryption
    uint32_t iv_keys[crypto::kAes128Words] = {};       ///< of the cipher that makes the IVs of CBC
    crypto::HmacSha1Key hmac;
    Address local, remote;
    uint32_t nonce = 0;  ///< of CTR (RFC 3686, section 4), host order
    uint32_t spi = 0;
    uint32_t slot = 0;            ///< into Tables::tickets and, by kWindowWords, into Tables::windows
    uint32_t replay_window = 0;   ///< in packets; 0: replays are not looked for
    uint32_t first_selector = 0;  ///< inbound: what may be inside, a run of Tables::selectors
    uint32_t selector_count = 0;
    Cipher cipher = Cipher::null;
    Auth auth = Auth::none;
    DontFragment dont_fragment = DontFragment::copy;
    uint8_t ttl = 64;
    bool ipv6 = false;        ///< of the tunnel's outer addresses
    bool any_remote = false;  ///< inbound: the outer source may be any address
    bool copy_dscp = true;

    MILLRACE_DEVICE uint32_t iv_bytes() const {
        return cipher == Cipher::aes_ctr ? kCtrIvBytes : cipher == Cipher::aes_cbc ? crypto::kAesBlockBytes : 0;
    }
    MILLRACE_DEVICE uint32_t icv_bytes() const { return auth == Auth::none ? 0 : kIcvBytes; }
    /// The encrypted part is a multiple of this (RFC 4303, section 2.4).
    MILLRACE_DEVICE uint32_t alignment() const { return cipher == Cipher::aes_cbc ? crypto::kAesBlockBytes : 4; }
};

static_assert(sizeof(Sa::keys) % 16 == 0 && sizeof(Sa::inverse_keys) % 16 == 0);

struct Tables {
    View<uint32_t> aes_encrypt;  ///< see crypto::AesTables
    View<uint32_t> aes_decrypt;
    View<Sa> sas;
    View<Policy> policies;                ///< the first that matches counts
    classify::Classifier::Tables search;  ///< finds it by its index, where there are more than kFewPolicies
    View<Selector> selectors;
    View<uint32_t> inbound;                ///< hash table of SA indices + 1 by SPI, 0 is empty; a power of two long
    View<Address> local_ipv4, local_ipv6;  ///< the gateway's own tunnel addresses
    MutableView<uint64_t> tickets;         ///< by SA slot: outbound, sequence numbers given out
    MutableView<uint64_t> windows;         ///< kWindowWords an SA slot
    uint32_t mtu = 0;                      ///< longest outer IP packet; 0: no limit
    bool mtu_spares_fragmentable = false;  ///< a packet whose outer DF bit is clear may be longer
    Action default_action = Action::discard;

    MILLRACE_DEVICE crypto::AesTables aes() const { return {aes_encrypt, aes_decrypt}; }
};

}  // namespace millrace::nf::ipsec
