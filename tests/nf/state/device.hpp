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

    /// Ports that ask for something.
    static constexpr uint16_t kLook = 1, kEnd = 2, kShort = 3, kQuiet = 4;
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
};

}  // namespace millrace::test
