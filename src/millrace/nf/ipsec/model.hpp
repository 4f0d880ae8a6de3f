// What the device half of the IPsec gateway knows: security associations, policies, and their state.
#pragma once

#include "millrace/nf/classify/classifier.hpp"
#include "millrace/nf/crypto/gcm.hpp"
#include "millrace/nf/crypto/sha1.hpp"
#include "millrace/nf/crypto/sha256.hpp"
#include "millrace/nf/ipsec/kinds.hpp"
#include "millrace/nf/ipsec/outcome.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::ipsec {

enum class Cipher : uint8_t { null, aes_ctr, aes_cbc, aes_gcm };
enum class Auth : uint8_t { none, hmac_sha1_96, hmac_sha256_128 };  ///< none, too, where the cipher does it
enum class Action : uint8_t { protect, bypass, discard };
/// Where the outer "don't fragment" bit comes from. IPv6 counts as a packet that has it set.
enum class DontFragment : uint8_t { copy, set, clear };

inline constexpr uint32_t kEspHeaderBytes = 8;
inline constexpr uint32_t kEspTrailerBytes = 2;  ///< pad length and next header
inline constexpr uint32_t kSha1IcvBytes = 12;    ///< HMAC-SHA1-96 (RFC 2404)
inline constexpr uint32_t kMaxIcvBytes = 16;     ///< HMAC-SHA-256-128 (RFC 4868), AES-GCM (RFC 4106)
inline constexpr uint32_t kCtrIvBytes = 8;       ///< RFC 3686, section 3.1; RFC 4106, section 3.1
/// An IPv6 header, that of UDP, the ESP header and the IV of CBC.
inline constexpr uint32_t kHeadGrowth = ip::kIpv6Bytes + udp::kHeaderBytes + kEspHeaderBytes + crypto::kAesBlockBytes;
/// The same of the kernel's SAs: a gateway of two chains has no room for more. AES-CBC in UDP over IPv6 is left out.
inline constexpr uint32_t kKernelHeadGrowth = kHeadGrowth - udp::kHeaderBytes;
/// 15 bytes of padding, the trailer and the ICV.
template <class Kind>
inline constexpr uint32_t kTailGrowth = crypto::kAesBlockBytes - 1 + kEspTrailerBytes +
                                        (Kind::kLongIcvs ? kMaxIcvBytes : kSha1IcvBytes);
/// The last sequence number: it never wraps around (RFC 4303, section 3.3.3). That of extended ones (section 2.2.1)
/// leaves the bit that kVerified is.
inline constexpr uint64_t kLastSequence = 0xffffffffu, kLastExtendedSequence = ~uint64_t{0} >> 1;

/// Set in the ticket of a packet whose ICV was found right, beside what `commit` wants to know: the sequence number's
/// low half (bits 0 to 31), the SA's slot (bits 32 to 51), the lowest bits of its high half (bits 52 to 61).
inline constexpr uint64_t kVerified = uint64_t{1} << 63;
/// Beside kVerified: it is a packet that was sent by an SA whose bytes count; in place of the low half they stand.
inline constexpr uint64_t kSent = uint64_t{1} << 62;
inline constexpr uint32_t kSlotBits = 20, kHighBits = 10;
inline constexpr uint32_t kMaxSlots = 1u << kSlotBits;

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
    uint32_t keys[crypto::kAesMaxWords] = {};          ///< schedule of the cipher
    uint32_t inverse_keys[crypto::kAesMaxWords] = {};  ///< of CBC decryption
    uint32_t iv_keys[crypto::kAesMaxWords] = {};       ///< of the cipher that makes the IVs of CBC
    crypto::HmacKey<crypto::Sha1> hmac_sha1;
    crypto::HmacKey<crypto::Sha256> hmac_sha256;
    Address local, remote;
    uint64_t before = 0;  ///< outbound: what its tickets are behind its sequence numbers; inbound: see sequence_in
    uint32_t nonce = 0;   ///< of CTR (RFC 3686, section 4) and GCM (RFC 4106, section 4), host order
    uint32_t spi = 0;
    uint32_t slot = 0;            ///< into Tables::tickets and, by kWindowWords, into Tables::windows
    uint32_t replay_window = 0;   ///< in packets; 0: replays are not looked for
    uint32_t first_selector = 0;  ///< inbound: what may be inside, a run of Tables::selectors
    uint32_t selector_count = 0;
    uint32_t ghash = 0;        ///< of GCM: into Tables::ghash
    uint16_t remote_port = 0;  ///< outbound in UDP (RFC 3948): where to
    Cipher cipher = Cipher::null;
    Auth auth = Auth::none;
    DontFragment dont_fragment = DontFragment::copy;
    uint8_t rounds = crypto::kAes128Rounds;
    uint8_t icv_bytes = 0;
    uint8_t ttl = 64;
    bool extended = false;    ///< sequence numbers of 64 bits (RFC 4303, section 2.2.1)
    bool transport = false;   ///< no tunnel: between the packet's own addresses (RFC 4303, section 3.1.1)
    bool in_udp = false;      ///< RFC 3948
    bool ipv6 = false;        ///< of the tunnel's outer addresses
    bool any_remote = false;  ///< inbound: the outer source may be any address
    bool copy_dscp = true;
    bool counts_bytes = false;  ///< it has a lifetime by bytes
};

/// What of an SA depends on its algorithms, for a device half of `Kind`.
template <class Kind>
MILLRACE_DEVICE bool is_gcm(const Sa& sa) {
    if constexpr (Kind::kOnlyGcm) return true;
    return Kind::kGcm && sa.cipher == Cipher::aes_gcm;
}
template <class Kind>
MILLRACE_DEVICE uint32_t iv_bytes_of(const Sa& sa) {
    if (is_gcm<Kind>(sa) || sa.cipher == Cipher::aes_ctr) return kCtrIvBytes;
    return sa.cipher == Cipher::aes_cbc ? crypto::kAesBlockBytes : 0;
}
template <class Kind>
MILLRACE_DEVICE uint32_t icv_bytes_of(const Sa& sa) {
    if constexpr (Kind::kLongIcvs) return sa.icv_bytes;
    return sa.auth == Auth::none ? 0 : kSha1IcvBytes;
}
/// The encrypted part is a multiple of this (RFC 4303, section 2.4).
template <class Kind>
MILLRACE_DEVICE uint32_t alignment_of(const Sa& sa) {
    return !Kind::kOnlyGcm && sa.cipher == Cipher::aes_cbc ? crypto::kAesBlockBytes : 4;
}
template <class Kind>
MILLRACE_DEVICE uint32_t rounds_of(const Sa& sa) {
    return Kind::kLongKeys ? sa.rounds : crypto::kAes128Rounds;
}
template <class Kind>
MILLRACE_DEVICE bool is_extended(const Sa& sa) {
    return Kind::kExtended && sa.extended;
}
template <class Kind>
MILLRACE_DEVICE bool is_transport(const Sa& sa) {
    return Kind::kTransport && sa.transport;
}
/// Bytes of the UDP header before ESP.
template <class Kind>
MILLRACE_DEVICE uint32_t udp_bytes_of(const Sa& sa) {
    return Kind::kUdp && sa.in_udp ? udp::kHeaderBytes : 0;
}
/// Bytes before an inner packet.
template <class Kind>
MILLRACE_DEVICE uint32_t head_bytes_of(const Sa& sa) {
    const uint32_t outer = is_transport<Kind>(sa) ? 0 : sa.ipv6 ? ip::kIpv6Bytes : ip::kIpv4Bytes;
    return outer + udp_bytes_of<Kind>(sa) + kEspHeaderBytes + iv_bytes_of<Kind>(sa);
}
/// Bytes of the longest packet that goes through a tunnel whose outer packets have at most `mtu`.
template <class Kind>
MILLRACE_DEVICE uint32_t inner_mtu_of(const Sa& sa, uint32_t mtu) {
    const uint32_t around = head_bytes_of<Kind>(sa) + icv_bytes_of<Kind>(sa);
    const uint32_t text = mtu > around ? (mtu - around) & ~(alignment_of<Kind>(sa) - 1) : 0;
    return text > kEspTrailerBytes ? text - kEspTrailerBytes : 0;
}
template <class Kind>
MILLRACE_DEVICE uint64_t last_sequence_of(const Sa& sa) {
    return is_extended<Kind>(sa) ? kLastExtendedSequence : kLastSequence;
}

static_assert(sizeof(Sa::keys) % 16 == 0 && sizeof(Sa::inverse_keys) % 16 == 0);

struct Tables {
    View<uint32_t> aes_encrypt;  ///< see crypto::AesTables
    View<uint32_t> aes_decrypt;
    View<Sa> sas;
    View<crypto::GhashKey> ghash;
    View<Policy> policies;                ///< the first that matches counts
    classify::Classifier::Tables search;  ///< finds it by its index, where there are more than kFewPolicies
    View<Selector> selectors;
    View<uint32_t> inbound;                ///< hash table of SA indices + 1 by SPI, 0 is empty; a power of two long
    View<Address> local_ipv4, local_ipv6;  ///< the gateway's own tunnel addresses
    MutableView<uint64_t> tickets;         ///< by SA slot: outbound, sequence numbers given out
    MutableView<uint64_t> windows;         ///< kWindowWords an SA slot
    MutableView<uint64_t> bytes;           ///< by SA slot, of those that count them: encrypted or decrypted
    View<uint64_t> limits;  ///< by SA slot: the last sequence number that may be used; none: the last there is
    uint32_t mtu = 0;       ///< longest outer IP packet; 0: no limit
    uint16_t udp_port = 0;  ///< where ESP in UDP comes in and leaves; 0: not at all
    bool mtu_spares_fragmentable = false;         ///< a packet whose outer DF bit is clear may be longer
    bool tells_ipv4 = false, tells_ipv6 = false;  ///< senders of packets that are too long, by ICMP from these:
    Address icmp_ipv4, icmp_ipv6;
    Action default_action = Action::discard;

    MILLRACE_DEVICE crypto::AesTables aes() const { return {aes_encrypt, aes_decrypt}; }
};

}  // namespace millrace::nf::ipsec
