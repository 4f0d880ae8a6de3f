// Policer: a token bucket for each flow, each prefix of sources or destinations, or all packets together (RFC 2475,
// section 2.3.3.3). What finds no tokens is over the rate.
#pragma once

#include "millrace/nf/state/keyed_state.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::nf::policer {

/// Whose packets share a bucket.
enum class Per : uint32_t { all, source, destination, flow };

/// Of a flow all of it, of a prefix its address.
struct Key {
    uint32_t source[4];
    uint32_t destination[4];
    uint32_t ports;     ///< as they lie in the packet
    uint32_t protocol;  ///< and 256 for IPv6, so that no two families share a bucket
};

/// Tokens are billionths of a bit, or of a packet: so a nanosecond has a whole number of them at any rate.
struct Bucket {
    struct {
        uint64_t tokens;
    } sums;
    uint64_t time_ns;  ///< when they were so many
};
inline constexpr uint64_t kTokens = 1'000'000'000;

struct Policer {
    enum Outcome : uint32_t { kPass, kOver, kFull, kNotIp };

    static constexpr Fields reads = field::five_tuple;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 1;
    static constexpr bool decides_ahead = true;

    struct Tables {
        KeyedState<Key, Bucket> state;
        uint64_t rate = 0;     ///< tokens a nanosecond: bits or packets a second
        uint64_t burst = 0;    ///< tokens of a full bucket
        uint64_t fill_ns = 0;  ///< an empty one is full again by then
        Per per = Per::all;
        uint32_t counts_bits = 0;
        uint32_t masks[2][4] = {};  ///< of IPv4 and IPv6 addresses, as they lie in memory
    };

    MILLRACE_DEVICE static Lookup key(const Packet& packet, const Tables& tables, Key& key) {
        const Layers& layers = packet.layers();
        if (!layers.is_ip()) return Lookup::none;
        if (tables.per == Per::all) return Lookup::create;
        const bool is_ipv6 = layers.is_ipv6();
        key.protocol = is_ipv6 ? 256 : 0;
        const uint8_t* const addresses = packet.l3() + (is_ipv6 ? 8 : 12);
        const uint32_t words = is_ipv6 ? 4 : 1;
        if (tables.per != Per::destination) mask(addresses, words, tables.masks[is_ipv6], key.source);
        if (tables.per != Per::source) mask(addresses + 4 * words, words, tables.masks[is_ipv6], key.destination);
        if (tables.per != Per::flow) return Lookup::create;
        key.protocol |= layers.protocol;
        // A datagram's fragments share a bucket, and only the first one has ports.
        if (layers.has_ports() && !layers.is_fragment()) key.ports = load_raw<uint32_t>(packet.l4());
        return Lookup::create;
    }

    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, KeyedEntry<Bucket> entry) {
        if (!entry) return {kNoDetail, entry.refused() ? kFull : kNotIp};
        const uint64_t now = packet.time_ns();
        if (entry.is_new()) *entry = {{tables.burst}, now};
        // Packets of another queue may be older than what has come already.
        if (now > entry->time_ns) {
            const uint64_t passed = now - entry->time_ns;
            const uint64_t room = tables.burst - entry->sums.tokens;
            if (passed >= tables.fill_ns || passed * tables.rate >= room) entry->sums.tokens = tables.burst;
            else entry->sums.tokens += passed * tables.rate;
            entry->time_ns = now;
        }
        const uint64_t price = (tables.counts_bits != 0 ? uint64_t{packet.length()} * 8 : 1) * kTokens;
        if (entry->sums.tokens < price) return {kNoDetail, kOver};
        entry->sums.tokens -= price;
        return {kNoDetail, kPass};
    }

private:
    MILLRACE_DEVICE static void mask(const uint8_t* address, uint32_t words, const uint32_t (&mask)[4],
                                     uint32_t (&to)[4]) {
        for (uint32_t i = 0; i < words; ++i) to[i] = load_raw<uint32_t>(address + 4 * i) & mask[i];
    }
};

}  // namespace millrace::nf::policer
