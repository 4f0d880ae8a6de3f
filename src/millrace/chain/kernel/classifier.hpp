// Which chain a packet is for, by the lines of the classification table (GEN, section 3.2): the same code on the CPU,
// on simulated and on real GPUs.
#pragma once

#include "millrace/chain/kernel/entry.hpp"
#include "millrace/nf/classify/flow_fields.hpp"
#include "millrace/nf/classify/search.hpp"

namespace millrace::chain {

struct Classifier {
    static constexpr Fields reads = field::five_tuple | field::vlan;

    struct Tables {
        nf::classify::Search<9>::Tables others;  ///< for all packets but those of IPv6
        nf::classify::Search<15>::Tables ipv6;
        View<uint16_t> chains;  ///< by line
        View<Entry> entries;    ///< by chain; of programs that classify packets only
    };

    /// What lines look at. `eth_type` is that of the IP version and 0 for what is not IP: no other field of a packet
    /// that is not IP is set then, whatever its type says.
    MILLRACE_DEVICE static nf::classify::FlowFields fields_of(const Packet& packet) {
        using nf::classify::FlowFields, nf::classify::HeaderKey;
        const Layers& layers = packet.layers();
        FlowFields fields;
        fields.in_port = packet.in_port();
        if (layers.vlan_count > 0) fields.vlan = FlowFields::kTagged | layers.vlan_id;
        if (!layers.is_ip()) return fields;
        const HeaderKey key = nf::classify::key_of(packet);
        fields.eth_type = key.ip_version == 4 ? eth::kTypeIpv4 : eth::kTypeIpv6;
        fields.ip_src_high = key.src_high;
        fields.ip_src_low = key.src_low;
        fields.ip_dst_high = key.dst_high;
        fields.ip_dst_low = key.dst_low;
        fields.protocol = key.protocol;
        fields.has = key.has & HeaderKey::kPorts;
        fields.l4_src = key.src_port;
        fields.l4_dst = key.dst_port;
        return fields;
    }

    /// The first line that a parsed packet matches; classify::kNoRule where there is none.
    MILLRACE_DEVICE static uint32_t line_of(const Packet& packet, const Tables& tables) {
        using namespace nf::classify;
        const FlowFields fields = fields_of(packet);
        if (fields.eth_type == eth::kTypeIpv6)
            return Search<15>::find(tables.ipv6, ternary_key<15>(fields), Lanes<1>{});
        return Search<9>::find(tables.others, ternary_key<9>(fields), Lanes<1>{});
    }

    /// The chain of a parsed packet; kNoChain where no line matches.
    MILLRACE_DEVICE static uint16_t chain_of(const Packet& packet, const Tables& tables) {
        const uint32_t line = line_of(packet, tables);
        return line < tables.chains.size() ? tables.chains[line] : kNoChain;
    }

    MILLRACE_DEVICE static Entry entry_of(const Packet& packet, const Tables& tables) {
        const uint16_t chain = chain_of(packet, tables);
        return chain < tables.entries.size() ? tables.entries[chain] : Entry{};
    }
};

}  // namespace millrace::chain
