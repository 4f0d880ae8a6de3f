// What NAT knows and keeps, as a device sees it.
#pragma once

#include "millrace/nf/state/keyed_state.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/hash.hpp"
#include "millrace/packet/headers.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::nat {

/// One end of a flow. Of ICMP queries the identifier stands for the port.
struct End {
    uint32_t address;  ///< as it lies in a packet
    uint16_t port;     ///< in host order
    uint8_t protocol;

    MILLRACE_DEVICE bool operator==(const End& other) const {
        return address == other.address && port == other.port && protocol == other.protocol;
    }
};

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
struct Mapping {
    uint64_t deadline_ns;  ///< it has timed out when a packet is later
    uint64_t begun_ns;
    uint64_t packets[2], bytes[2];  ///< from inside, and back
    uint32_t address;               ///< of the inside endpoint
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

struct PortGroup {
    uint64_t used;  ///< a bit for each mapping that is there
    Mapping mappings[kGroupPorts];
};
static_assert(sizeof(PortGroup) == 8 + 64 * kGroupPorts);

/// A port forward, in one of two hash tables: by what it is looked up, and what that becomes. A table is searched from
/// an end's place to the next free one.
struct Forward {
    End from, to;
    uint32_t number;  ///< in the options
    uint32_t used;    ///< 1, or 0: the place is free
};

/// An element of the hash table of external addresses.
struct External {
    uint32_t address;                                       ///< as it lies in a packet
    enum Kind : uint32_t { kFree, kPool, kForwards } kind;  ///< `kForwards`: it has port forwards and nothing else
};

struct Network {
    uint32_t address, mask;  ///< as they lie in memory
};

/// How long mappings are kept behind the last packet from inside.
enum class Kept : uint32_t { udp, tcp, tcp_transitory, icmp, count };
inline constexpr unsigned kKept = static_cast<unsigned>(Kept::count);

struct NatTables {
    KeyedState<GroupKey, PortGroup> state;
    View<Network> inside;
    View<uint32_t> pool;        ///< external addresses
    View<External> externals;   ///< a power of two of them, half of them free at least
    View<Forward> by_external;  ///< as these two
    View<Forward> by_inside;
    uint64_t kept_ns[kKept] = {};
    uint32_t first_group = 0;  ///< of each address and protocol
    uint32_t groups = 0;
};

MILLRACE_DEVICE uint32_t hash_of(const End& end) {
    return hash_words(0x2545f4914f6cdd1dull, end.address, static_cast<uint32_t>(end.port) << 8 | end.protocol);
}

/// Of the two tables of forwards the one that this end is looked up in; null: there is none.
MILLRACE_DEVICE const Forward* find_forward(const View<Forward>& table, const End& end) {
    if (table.empty()) return nullptr;
    const uint64_t mask = table.size() - 1;
    for (uint64_t at = hash_of(end) & mask; table[at].used != 0; at = (at + 1) & mask)
        if (table[at].from == end) return &table[at];
    return nullptr;
}

MILLRACE_DEVICE External::Kind external_kind(const NatTables& tables, uint32_t address) {
    const uint64_t mask = tables.externals.size() - 1;
    uint64_t at = hash_words(0, address, 0) & mask;
    while (tables.externals[at].kind != External::kFree && tables.externals[at].address != address)
        at = (at + 1) & mask;
    return tables.externals[at].kind;
}

MILLRACE_DEVICE bool is_inside(const NatTables& tables, uint32_t address) {
    for (const Network& network : tables.inside)
        if ((address & network.mask) == network.address) return true;
    return false;
}

/// The group that an inside endpoint has its port in: of one address for all endpoints of an inside address (RFC 4787,
/// REQ-2: paired).
MILLRACE_DEVICE GroupKey home_of(const NatTables& tables, const End& inside) {
    // The high bits of a product spread a hash over any count without a division.
    const auto scaled = [](uint32_t hash, uint64_t count) { return static_cast<uint32_t>(hash * count >> 32); };
    const uint32_t by_address = hash_words(tables.state.seed, inside.address, 0);
    const uint32_t by_port = hash_words(~tables.state.seed, inside.address,
                                        uint32_t{inside.port} << 8 | inside.protocol);
    return {tables.pool[scaled(by_address, tables.pool.size())],
            uint32_t{inside.protocol} << 16 | (tables.first_group + scaled(by_port, tables.groups))};
}
/// The group of an external port. Whether there is one.
MILLRACE_DEVICE bool group_of(const NatTables& tables, const End& external, GroupKey& key) {
    const uint32_t group = external.port / kGroupPorts;
    key = {external.address, uint32_t{external.protocol} << 16 | group};
    return group - tables.first_group < tables.groups && external_kind(tables, external.address) == External::kPool;
}
/// A port of a group.
MILLRACE_DEVICE End external_of(const GroupKey& key, uint32_t slot) {
    return {key.address, static_cast<uint16_t>((key.group & 0xffff) * kGroupPorts + slot),
            static_cast<uint8_t>(key.group >> 16)};
}

}  // namespace millrace::nf::nat
