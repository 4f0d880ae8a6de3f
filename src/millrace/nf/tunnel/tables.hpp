// What the ends of tunnels know, as a device sees it.
#pragma once

#include "millrace/nf/prefixes/prefix_tables.hpp"
#include "millrace/packet/hash.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::nf::tunnel {

/// By number, in the order of kKindNames.
enum class Kind : uint8_t { ipip, gre, vxlan, geneve, gtp_u };
inline constexpr unsigned kKinds = 5;
#if !MILLRACE_GPU
inline constexpr const char* kKindNames[kKinds] = {"ipip", "gre", "vxlan", "geneve", "gtp-u"};
#endif

/// A kind as a bit of a set of tunnels.hpp.
MILLRACE_DEVICE uint32_t bit_of(Kind kind) {
    switch (kind) {
        case Kind::ipip: return millrace::tunnel::kIpip;
        case Kind::gre: return millrace::tunnel::kGre;
        case Kind::vxlan: return millrace::tunnel::kVxlan;
        case Kind::geneve: return millrace::tunnel::kGeneve;
        default: return millrace::tunnel::kGtpU;
    }
}

/// Both ends of a tunnel, and what tells it from others between the same two. Addresses as they lie in packets, those
/// of IPv4 in the first word.
struct Ends {
    uint32_t local[4], remote[4];
    uint32_t id;  ///< of what comes in: VNI, key or TEID; 0: none
    Kind kind;
    uint8_t ipv6;
    uint8_t has_id;  ///< 0: GRE without a key, IP in IP
    uint8_t reserved;

    MILLRACE_DEVICE bool operator==(const Ends& other) const {
        uint32_t different = id ^ other.id;
        for (unsigned i = 0; i < 4; ++i) different |= (local[i] ^ other.local[i]) | (remote[i] ^ other.remote[i]);
        return different == 0 && kind == other.kind && ipv6 == other.ipv6 && has_id == other.has_id;
    }
};

struct Tunnel {
    Ends ends;
    uint32_t id_out;  ///< the same of what goes out
    uint16_t port;    ///< it joins this port to its other end: all frames, as they are; kNoPort: it carries IP packets
    uint8_t ttl;
    uint8_t macs[12];  ///< destination and source of the Ethernet header inside, where IP packets need one
};

/// An address of this end, and the kinds of tunnels that end there.
struct LocalEnd {
    uint32_t address[4];
    uint32_t ipv6;
    uint32_t kinds;  ///< as bits of tunnels.hpp; 0: the place is free
};

enum class DontFragment : uint32_t { set, copy, clear };
inline constexpr uint32_t kNoTunnel = 0xffffffff;

struct TunnelTables {
    View<Tunnel> tunnels;
    View<uint32_t> by_ends;           ///< an open hash table of numbers of tunnels; kNoTunnel: the place is free
    View<LocalEnd> locals;            ///< likewise
    View<uint32_t> by_port;           ///< the tunnel that a port is joined to; kNoTunnel: none
    prefixes::PrefixTables prefixes;  ///< destinations: the target is the number of a tunnel and 1 more
    uint32_t mtu = 0;                 ///< longest outer IP packet
    DontFragment dont_fragment = DontFragment::set;
    uint32_t copies_dscp = 1;
    uint32_t clamps_mss = 1;
    uint32_t mtu_spares_fragmentable = 0;  ///< an outer IPv4 packet that may be cut may be longer
};

MILLRACE_DEVICE uint32_t hash_of(const uint32_t* address, uint32_t more) {
    return hash_words(static_cast<uint64_t>(address[2]) << 32 | address[3], address[0] ^ more, address[1]);
}
MILLRACE_DEVICE uint32_t hash_of(const Ends& ends) {
    const uint32_t kind = static_cast<uint32_t>(ends.kind) << 2 | static_cast<uint32_t>(ends.ipv6) << 1 | ends.has_id;
    return hash_of(ends.local, hash_of(ends.remote, hash_words(kind, ends.id, 0)));
}

/// The number of the tunnel with these ends, or kNoTunnel.
MILLRACE_DEVICE uint32_t find_tunnel(const TunnelTables& tables, const Ends& ends) {
    const uint64_t mask = tables.by_ends.size() - 1;
    for (uint64_t at = hash_of(ends) & mask;; at = (at + 1) & mask) {
        const uint32_t number = tables.by_ends[at];
        if (number == kNoTunnel || tables.tunnels[number].ends == ends) return number;
    }
}

/// The kinds of tunnels that end at an address, 0 for an address of somebody else.
MILLRACE_DEVICE uint32_t kinds_at(const TunnelTables& tables, const uint32_t* address, bool ipv6) {
    const uint64_t mask = tables.locals.size() - 1;
    for (uint64_t at = hash_of(address, ipv6) & mask;; at = (at + 1) & mask) {
        const LocalEnd& local = tables.locals[at];
        uint32_t different = local.ipv6 ^ static_cast<uint32_t>(ipv6);
        for (unsigned i = 0; i < 4; ++i) different |= local.address[i] ^ address[i];
        if (local.kinds == 0 || different == 0) return local.kinds;
    }
}

}  // namespace millrace::nf::tunnel
