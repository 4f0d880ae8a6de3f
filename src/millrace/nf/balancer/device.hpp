// A load balancer: a service's packets go to back ends that a consistent hash chooses by flow (Eisenbud et al.,
// Maglev, NSDI 2016), and the answers get the service's address again.
#pragma once

#include "millrace/nf/balancer/rewrite.hpp"
#include "millrace/nf/balancer/tables.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::balancer {

struct Balancer {
    enum Outcome : uint32_t { kBalanced, kReturned, kOther, kNoService, kNoBackEnd, kFragment };

    static constexpr Fields reads = field::headers | field::payload;
    static constexpr Fields writes = field::eth_dst | field::ip_src | field::ip_dst | field::ip_checksum |
                                     field::l4_ports | field::l4_checksum | field::payload;
    static constexpr unsigned lanes = 1;

    using Tables = BalancerTables;

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        const Layers& layers = packet.layers();
        if (!layers.is_ip()) return {kNoDetail, kOther};
        if (tables.follows_errors != 0 && is_icmp_error(packet)) {
            Quoted quoted;
            if (read_quoted(packet, quoted)) return follow_error(packet, tables, quoted, lanes);
        }
        const bool fragment = layers.is_fragment();
        const EndPoint to = end_of(packet, true), from = end_of(packet, false);
        // A fragment is known by its address: others of the same datagram have no ports.
        const Entry* const found = find(tables, to, !fragment);
        if (found != nullptr && found->kind == Entry::kService)
            return send_on(packet, tables, tables.services[found->number], from, to, lanes);
        const Entry* const answered = find(tables, from, !fragment);
        if (answered != nullptr && answered->kind == Entry::kBackEnd) {
            const Service& service = tables.services[answered->number];
            lanes.once([&] { replace(packet, false, service.end.address, service.end.port); });
            return {answered->number, kReturned};
        }
        if (fragment && (found != nullptr || answered != nullptr)) return {kNoDetail, kFragment};
        const bool ours = found != nullptr && found->kind == Entry::kAddress && found->number != 0;
        return {kNoDetail, ours ? kNoService : kOther};
    }

private:
    MILLRACE_DEVICE static const Entry* find(const Tables& tables, EndPoint end, bool with_port) {
        const Entry* found = nullptr;
        if (with_port && (tables.forms & kWithPort) != 0) found = find_exactly(tables, end);
        end.port = 0;
        if (found == nullptr && (tables.forms & kWithProtocol) != 0) found = find_exactly(tables, end);
        end.protocol = 0;
        if (found == nullptr && (tables.forms & kAddressAlone) != 0) found = find_exactly(tables, end);
        return found;
    }
    MILLRACE_DEVICE static const Entry* find_exactly(const Tables& tables, const EndPoint& end) {
        const uint64_t mask = tables.entries.size() - 1;
        for (uint64_t at = hash_of(end) & mask; tables.entries[at].kind != Entry::kFree; at = (at + 1) & mask)
            if (tables.entries[at].end == end) return &tables.entries[at];
        return nullptr;
    }

    /// The back end of a client's flow; there must be one.
    MILLRACE_DEVICE static uint32_t choose(const Tables& tables, const Service& service, const EndPoint& client,
                                           bool with_port) {
        Mix mix;
        mix.add_address(client.address, client.ipv6 != 0);
        if (service.by_source == 0)
            mix.add(static_cast<uint32_t>(client.protocol) << 16 | (with_port ? client.port : 0u));
        mix.add_address(service.end.address, service.end.ipv6 != 0);
        mix.add(service.end.port);
        // The high bits of the product spread a hash over any count without a division.
        const uint64_t product = static_cast<uint64_t>(mix.result()) * service.slots;
        return tables.slots[service.first + static_cast<uint32_t>(product >> 32)];
    }

    template <class Lanes>
    MILLRACE_DEVICE static Decision send_on(Packet& packet, const Tables& tables, const Service& service,
                                            const EndPoint& client, const EndPoint& to, Lanes lanes) {
        if (service.slots == 0) return {kNoDetail, kNoBackEnd};
        const Layers& layers = packet.layers();
        if (service.to_mac == 0 && !layers.has_ports() && !layers.is_icmp() && to.protocol != 6 && to.protocol != 17)
            return {kNoDetail, kNoService};
        const uint32_t number = choose(tables, service, client, !layers.is_fragment());
        const BackEnd& back_end = tables.back_ends[number];
        lanes.once([&] {
            if (service.to_mac == 0) replace(packet, true, back_end.address, back_end.port);
            if (back_end.has_mac != 0) copy_bytes(packet.data(), back_end.mac, 6);
        });
        if (back_end.out_port != kNoPort) packet.set_out_port(back_end.out_port);
        return {number, kBalanced};
    }

    /// An ICMP error goes where the packet that it quotes came from: to the flow's back end, or to the client.
    template <class Lanes>
    MILLRACE_DEVICE static Decision follow_error(Packet& packet, const Tables& tables, const Quoted& quoted,
                                                 Lanes lanes) {
        const Entry* const sent = find(tables, quoted.from, true);
        if (sent != nullptr && sent->kind == Entry::kService) {
            const Service& service = tables.services[sent->number];
            if (service.slots == 0) return {kNoDetail, kNoBackEnd};
            const uint32_t number = choose(tables, service, quoted.to, true);
            const BackEnd& back_end = tables.back_ends[number];
            lanes.once([&] {
                if (service.to_mac == 0)
                    replace_quoted(packet, quoted, true, end_of(packet, true) == alone(quoted.from), back_end.address,
                                   back_end.port);
                if (back_end.has_mac != 0) copy_bytes(packet.data(), back_end.mac, 6);
            });
            if (back_end.out_port != kNoPort) packet.set_out_port(back_end.out_port);
            return {number, kBalanced};
        }
        const Entry* const answered = find(tables, quoted.to, true);
        if (answered == nullptr || answered->kind != Entry::kBackEnd) return {kNoDetail, kOther};
        const Service& service = tables.services[answered->number];
        lanes.once([&] {
            replace_quoted(packet, quoted, false, end_of(packet, false) == alone(quoted.to), service.end.address,
                           service.end.port);
        });
        return {answered->number, kReturned};
    }
};

}  // namespace millrace::nf::balancer
