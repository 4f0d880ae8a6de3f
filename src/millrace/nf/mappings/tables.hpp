// Mappings of external IPv4 ports to endpoints inside, as a device sees them: what NAT44 and NAT64 keep and look up.
// `Address` is that of endpoints inside: uint32_t of IPv4, as it lies in a packet, or Ipv6Address.
#pragma once

#include "millrace/nf/state/keyed_state.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/hash.hpp"
#include "millrace/packet/headers.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::mappings {

/// As it lies in a packet.
struct Ipv6Address {
    uint32_t words[4];

    MILLRACE_DEVICE bool operator==(const Ipv6Address& other) const {
        return words[0] == other.words[0] && words[1] == other.words[1] && words[2] == other.words[2] &&
               words[3] == other.words[3];
    }
};

/// One end of a flow. Of ICMP queries the identifier stands for the port.
template <class Address>
struct EndOf {
    Address address;
    uint16_t port;     ///< in host order
    uint8_t protocol;  ///< of IPv4, also in IPv6

    MILLRACE_DEVICE bool operator==(const EndOf& other) const {
        return address == other.address && port == other.port && protocol == other.protocol;
    }
};
using End = EndOf<uint32_t>;

/// Ports of an external address come in groups of so many, the first a multiple of it.
inline constexpr uint32_t kGroupPorts = 64;

/// What names a group of external ports.
struct GroupKey {
    uint32_t address;  ///< as it lies in a packet
    uint32_t group;    ///< protocol << 16 | port / kGroupPorts

    MILLRACE_DEVICE bool operator==(const GroupKey& other) const {
        return address == other.address && group == other.group;
    }
};

/// An external port that stands for an inside endpoint.
template <class Address>
struct Mapping {
    uint64_t deadline_ns;  ///< it has timed out when a packet is later
    uint64_t begun_ns;
    uint64_t packets[2], bytes[2];  ///< from inside, and back
    Address address;                ///< of the inside endpoint
    uint32_t peer;                  ///< whom it sent to last
    uint16_t port, peer_port;
    uint16_t bits;
    uint16_t reserved;

    enum Bits : uint16_t {
        kSent = 1,      ///< TCP: a segment with ACK has come from inside
        kAnswered = 2,  ///< the peer has sent something; TCP: with ACK
        kFinSent = 4,
        kFinCame = 8,
        kReset = 16,
        kSeveral = 32,  ///< TCP: it has more connections than one
        kGuest = 64,    ///< stands for an endpoint of another group, towards endpoints of this one alone
    };
    MILLRACE_DEVICE bool is_open() const { return (bits & (kSent | kAnswered)) == (kSent | kAnswered); }
    MILLRACE_DEVICE bool is_over() const {
        if ((bits & kSeveral) != 0) return false;
        return (bits & kReset) != 0 || (bits & (kFinSent | kFinCame)) == (kFinSent | kFinCame);
    }
};

template <class Address>
struct PortGroup {
    uint64_t used;  ///< a bit for each mapping that is there
    Mapping<Address> mappings[kGroupPorts];
};
static_assert(sizeof(PortGroup<uint32_t>) == 8 + 64 * kGroupPorts);
static_assert(sizeof(PortGroup<Ipv6Address>) == 8 + 80 * kGroupPorts);
/// What outlives a device, each by itself: all that a group has.
template <class Address>
inline constexpr KeptParts kKeptParts[] = {{0, sizeof(PortGroup<Address>::used), 1},
                                           {sizeof(PortGroup<Address>::used), sizeof(Mapping<Address>), kGroupPorts}};

/// A port forward, in one of two hash tables: by what it is looked up, and what that becomes. A table is searched from
/// an end's place to the next free one.
template <class From, class To>
struct Forward {
    EndOf<From> from;
    EndOf<To> to;
    uint32_t number;  ///< in the options
    uint32_t used;    ///< 1, or 0: the place is free
};

/// An element of the hash table of external addresses.
struct External {
    uint32_t address;                                       ///< as it lies in a packet
    enum Kind : uint32_t { kFree, kPool, kForwards } kind;  ///< `kForwards`: it has port forwards and nothing else
};

/// How long mappings are kept behind the last packet from inside.
enum class Kept : uint32_t { udp, tcp, tcp_transitory, icmp, count };
inline constexpr unsigned kKept = static_cast<unsigned>(Kept::count);

/// `Own`: what one of the two has besides.
template <class AddressInside, class Own>
struct PortTables {
    using Address = AddressInside;
    KeyedState<GroupKey, PortGroup<Address>> state;
    View<uint32_t> pool;                           ///< external addresses
    View<External> externals;                      ///< a power of two of them, half of them free at least
    View<Forward<uint32_t, Address>> by_external;  ///< as these two
    View<Forward<Address, uint32_t>> by_inside;
    uint64_t kept_ns[kKept] = {};
    uint32_t first_group = 0;  ///< of each address and protocol
    uint32_t groups = 0;
    Own own{};
};

/// An address as one word for a hash.
MILLRACE_DEVICE uint32_t word_of(uint64_t, uint32_t address) { return address; }
MILLRACE_DEVICE uint32_t word_of(uint64_t seed, const Ipv6Address& address) {
    const uint64_t half = hash_words(seed, address.words[0], address.words[1]);
    return hash_words(seed ^ half << 16, address.words[2], address.words[3]);
}

template <class Address>
MILLRACE_DEVICE uint32_t hash_of(const EndOf<Address>& end) {
    constexpr uint64_t kSeed = 0x2545f4914f6cdd1dull;
    return hash_words(kSeed, word_of(kSeed, end.address), static_cast<uint32_t>(end.port) << 8 | end.protocol);
}

/// The port forward of an end; null: there is none.
template <class From, class To>
MILLRACE_DEVICE const Forward<From, To>* find_forward(const View<Forward<From, To>>& table, const EndOf<From>& end) {
    if (table.empty()) return nullptr;
    const uint64_t mask = table.size() - 1;
    for (uint64_t at = hash_of(end) & mask; table[at].used != 0; at = (at + 1) & mask)
        if (table[at].from == end) return &table[at];
    return nullptr;
}

template <class Address, class Own>
MILLRACE_DEVICE External::Kind external_kind(const PortTables<Address, Own>& tables, uint32_t address) {
    const uint64_t mask = tables.externals.size() - 1;
    uint64_t at = hash_words(0, address, 0) & mask;
    while (tables.externals[at].kind != External::kFree && tables.externals[at].address != address)
        at = (at + 1) & mask;
    return tables.externals[at].kind;
}

/// The group that an inside endpoint has its port in: of one address for all endpoints of an inside address (RFC 4787,
/// REQ-2: paired).
template <class Address, class Own>
MILLRACE_DEVICE GroupKey home_of(const PortTables<Address, Own>& tables, const EndOf<Address>& inside) {
    // The high bits of a product spread a hash over any count without a division.
    const auto scaled = [](uint32_t hash, uint64_t count) { return static_cast<uint32_t>(hash * count >> 32); };
    const uint32_t word = word_of(tables.state.seed, inside.address);
    const uint32_t by_address = hash_words(tables.state.seed, word, 0);
    const uint32_t by_port = hash_words(~tables.state.seed, word, uint32_t{inside.port} << 8 | inside.protocol);
    return {tables.pool[scaled(by_address, tables.pool.size())],
            uint32_t{inside.protocol} << 16 | (tables.first_group + scaled(by_port, tables.groups))};
}
/// The group of an external port. Whether there is one.
template <class Address, class Own>
MILLRACE_DEVICE bool group_of(const PortTables<Address, Own>& tables, const End& external, GroupKey& key) {
    const uint32_t group = external.port / kGroupPorts;
    key = {external.address, uint32_t{external.protocol} << 16 | group};
    return group - tables.first_group < tables.groups && external_kind(tables, external.address) == External::kPool;
}
/// A port of a group.
MILLRACE_DEVICE End external_of(const GroupKey& key, uint32_t slot) {
    return {key.address, static_cast<uint16_t>((key.group & 0xffff) * kGroupPorts + slot),
            static_cast<uint8_t>(key.group >> 16)};
}

}  // namespace millrace::nf::mappings
