// A network function for tests: counts the packets of each source address, and remembers their order.
#pragma once

#include "millrace/nf/state/keyed_state.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::test {

struct Tally {
    enum Outcome : uint32_t { kKnown, kNew, kFull, kNoKey, kLooked };

    static constexpr Fields reads = field::ip_src | field::ip_dst | field::l4_ports;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 1;
    static constexpr bool decides_ahead = true;

    struct Source {
        uint32_t words[4];
    };
    struct Seen {
        uint32_t last, reserved;
        struct Count {
            uint64_t packets;
        } tally;
    };
    struct Tables {
        nf::KeyedState<Source, Seen> state;
        MutableView<uint32_t> all;  ///< packets of all keys: nothing that a function may go by
        uint32_t counts_all;
    };

    /// Ports that ask for something; kScanned: to be decided on in one pass with its neighbours, if that can be.
    static constexpr uint16_t kLook = 1, kEnd = 2, kShort = 3, kQuiet = 4, kScanned = 5;
    static constexpr uint64_t kShortNs = 5'000;

    MILLRACE_DEVICE static nf::Lookup key(const Packet& packet, const Tables&, Source& key) {
        const Layers& layers = packet.layers();
        if (layers.is_ipv4()) key.words[0] = load_raw<uint32_t>(packet.l3() + 12);
        else if (layers.is_ipv6()) load_raw32s<4>(packet.l3() + 8, key.words);
        else return nf::Lookup::none;
        return packet.l4_dst_port() == kLook ? nf::Lookup::find : nf::Lookup::create;
    }

    /// The detail is a number that each packet of the key so far has a part in, by its place among them, but for quiet
    /// ones; of one that ends the entry how many there were.
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, nf::KeyedEntry<Seen> entry) {
        if (tables.counts_all != 0) return {tables.all[0]++, kLooked};
        const uint16_t port = packet.l4_dst_port();
        if (!entry) return {0, entry.refused() ? kFull : packet.layers().is_ip() ? kLooked : kNoKey};
        const Outcome outcome = entry.is_new() ? kNew : kKnown;
        ++entry->tally.packets;
        if (port != kQuiet) entry->last = (entry->last * 31 + packet.l4_src_port()) & 0xffff;
        if (port == kShort) entry.expire_after(kShortNs);
        if (port != kEnd) return {entry->last, outcome};
        // It is decided on in sequence, wherever that is: so the number is that of all before it.
        entry.remove();
        return {static_cast<uint32_t>(entry->tally.packets), outcome};
    }

    /// What numbers packets outlives a device; how many there were may not.
    MILLRACE_DEVICE static uint32_t lasting(const Seen& seen) { return seen.last; }
    static uint64_t resume(const Tables& tables, const Source&, uint32_t lasting, Seen& seen, uint64_t) {
        seen = {lasting, 0, {}};
        return tables.state.timeout_ns;
    }

    /// What packets to port kScanned do: one after the other they make `last` now this, now that, and all together
    /// factor * last + term.
    struct Effect {
        uint32_t factor = 1, term = 0, packets = 0;

        MILLRACE_DEVICE static bool by(const Packet& packet, const Seen&, Effect& effect) {
            effect = {31, packet.l4_src_port(), 1};
            return packet.l4_dst_port() == kScanned;
        }
        /// Some packets want to be decided on otherwise, by what they find.
        MILLRACE_DEVICE bool lets(const Packet&, const Seen& seen) const {
            return (seen.last * factor + term) % 64 != 7;
        }
        MILLRACE_DEVICE void append(const Effect& next) {
            factor = factor * next.factor & 0xffff;
            term = (term * next.factor + next.term) & 0xffff;
            packets += next.packets;
        }
        MILLRACE_DEVICE void apply(Seen& seen) const {
            seen.last = (seen.last * factor + term) & 0xffff;
            seen.tally.packets += packets;
        }
        MILLRACE_DEVICE static uint64_t kept_ns(const Tables& tables, const Source&, const Seen&) {
            return tables.state.timeout_ns;
        }
        MILLRACE_DEVICE static Decision decide(const Packet&, const Seen& seen) { return {seen.last, kKnown}; }
    };
};

}  // namespace millrace::test
