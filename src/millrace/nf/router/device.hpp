// IP router (RFC 1812; RFC 8200): longest-prefix match, TTL, checksum, MAC addresses.
#pragma once

#include "millrace/nf/router/tables.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::router {

struct Router {
    enum Outcome : uint32_t {
        kForward,
        kNotIp,
        kBadChecksum,
        kTtlExpired,
        kNoRoute,
        kLocal,
        kMartian,
        kMulticast,
        kNoNeighbour,
        kTooBig,
        kKernel,
        kOtherHost,
    };

    static constexpr Fields reads = field::ethernet | field::ip | field::l4_ports;
    static constexpr Fields writes = field::eth_dst | field::eth_src | field::ip_ttl | field::ip_checksum;
    static constexpr unsigned lanes = 1;

    using Tables = RouterTables;

    /// What can be said before the lookup; kForward: look it up. For the CPU half, too.
    MILLRACE_DEVICE static uint32_t check(const Packet& packet, const Tables& tables) {
        const Layers& layers = packet.layers();
        uint32_t outcome = kNotIp;
        if (layers.is_ipv4()) outcome = check_ipv4(packet.l3());
        if (layers.is_ipv6()) outcome = check_ipv6(packet.l3());
        if (tables.kernel_host != 0 && outcome == kForward) return check_for_kernel(packet, tables);
        if (tables.kernel_host != 0 && (outcome == kMulticast || outcome == kMartian) && is_for_several(packet))
            return kLocal;
        return outcome;
    }

    /// Decides on a packet that passed `check`, given its target, and rewrites it when it goes on.
    template <class Lanes>
    MILLRACE_DEVICE static Decision finish(Packet& packet, const Tables& tables, uint32_t target_number, Lanes lanes) {
        if (target_number == kTargetNone) return {kNoDetail, kNoRoute};
        if (target_number == kTargetLocal) return {kNoDetail, kLocal};
        if (link_local(packet)) return {kNoDetail, kMartian};
        if (packet.ip_ttl() <= 1) return {kNoDetail, kTtlExpired};
        const Target target = tables.targets[target_number];
        if (target.count == 0) return {kNoDetail, target.first};
        uint32_t number = target.first;
        if (target.count > 1) {
            // The high bits of the product spread a hash over any count without a division.
            const uint64_t product = static_cast<uint64_t>(flow_hash(packet)) * target.count;
            number = tables.members[target.first + static_cast<uint32_t>(product >> 32)];
        }
        const NextHop& next = tables.next_hops[number];
        if (next.mtu != 0 && packet.longest_ip_bytes() > next.mtu) return {number, kTooBig};
        lanes.once([&] { rewrite(packet, next); });
        if (next.port != kNoPort) packet.set_out_port(next.port);
        return {number, kForward};
    }

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        const uint32_t outcome = check(packet, tables);
        if (outcome != kForward) return {kNoDetail, outcome};
        const uint32_t target = packet.layers().is_ipv4() ? lookup_ipv4(tables.prefixes, packet.ipv4_dst())
                                                          : lookup_ipv6(tables.prefixes, packet.l3() + 24);
        return finish(packet, tables, target, lanes);
    }

private:
    /// What a kernel would have forwarded of a packet that is good so far, or what becomes of it.
    MILLRACE_DEVICE static uint32_t check_for_kernel(const Packet& packet, const RouterTables& tables) {
        const Layers& layers = packet.layers();
        if (packet.in_port() < tables.port_macs.size()) {
            const PortMac& mac = tables.port_macs[packet.in_port()];
            // A switch floods frames for others, and a port that is promiscuous takes them.
            if (mac.is_known != 0 && !same_mac(packet.data(), mac.bytes))
                return (packet.data()[0] & 1) != 0 ? kLocal : kOtherHost;
        }
        // Interfaces for VLANs are the kernel's, as are options that routers follow (RFC 1812, 5.2.4; RFC 8200, 4.3).
        const uint8_t* header = packet.l3();
        const bool has_options = layers.is_ipv6() ? header[6] == 0 : (header[0] & 15) != 5;
        return has_options || layers.vlan_count != 0 ? kKernel : kForward;
    }

    MILLRACE_DEVICE static bool same_mac(const uint8_t* a, const uint8_t* b) {
        return load_be16(a) == load_be16(b) && load_be16(a + 2) == load_be16(b + 2) &&
               load_be16(a + 4) == load_be16(b + 4);
    }

    /// RFC 1812 sections 5.2.2 (checksum) and 5.3.7 (martian addresses).
    MILLRACE_DEVICE static uint32_t check_ipv4(const uint8_t* header) {
        const bool right = header[0] == 0x45 ? is_plain_ipv4_sum_right(header)
                                             : checksum(header, (header[0] & 15) * 4u) == 0;
        if (!right) return kBadChecksum;
        const uint8_t src = header[12];
        const uint8_t dst = header[16];
        // 0/8 is "this network", 127/8 the loopback; multicast and class E are nobody's address.
        if (src == 0 || src == 127 || src >= 224) return kMartian;
        if (dst == 0 || dst == 127 || dst >= 240) return kMartian;
        return dst >= 224 ? kMulticast : kForward;
    }

    /// RFC 4291 sections 2.5.2, 2.5.3, 2.7; RFC 6890 table 20 for IPv4-mapped addresses.
    MILLRACE_DEVICE static uint32_t check_ipv6(const uint8_t* header) {
        if (header[8] == 0xff || never_on_the_wire(header + 8) || never_on_the_wire(header + 24)) return kMartian;
        return header[24] == 0xff ? kMulticast : kForward;
    }

    /// Whether it is sent to a group, or to all hosts of a link: also by hosts that have no address yet (DHCP, RFC
    /// 2131; duplicate address detection, RFC 4862).
    MILLRACE_DEVICE static bool is_for_several(const Packet& packet) {
        const uint8_t* header = packet.l3();
        if (packet.layers().is_ipv6()) return header[24] == 0xff;
        return (header[16] & 0xf0) == 0xe0 || load_raw<uint32_t>(header + 16) == 0xffffffffu;
    }

    /// ::, ::1 and ::ffff:0:0/96.
    MILLRACE_DEVICE static bool never_on_the_wire(const uint8_t* address) {
        if (load_raw<uint64_t>(address) != 0) return false;
        const uint64_t low = load_be64(address + 8);
        return low <= 1 || (low >> 32) == 0xffff;
    }

    /// Link-local addresses reach the router itself but are never forwarded (RFC 3927 section 2.7,
    /// RFC 4291 section 2.5.6).
    MILLRACE_DEVICE static bool link_local(const Packet& packet) {
        const uint8_t* header = packet.l3();
        if (packet.layers().is_ipv4()) return load_be16(header + 12) == 0xa9fe || load_be16(header + 16) == 0xa9fe;
        return (load_be16(header + 8) & 0xffc0) == 0xfe80 || (load_be16(header + 24) & 0xffc0) == 0xfe80;
    }

    MILLRACE_DEVICE static void rewrite(Packet& packet, const NextHop& next) {
        uint8_t* frame = packet.data();
        if (next.flags & NextHop::kSetDst) copy_bytes(frame, next.dst, 6);
        if (next.flags & NextHop::kSetSrc) copy_bytes(frame + 6, next.src, 6);
        uint8_t* header = packet.l3();
        if (packet.layers().is_ipv6()) {
            --header[7];
            return;
        }
        const uint16_t before = load_be16(header + 8);  // TTL and protocol
        const uint16_t after = static_cast<uint16_t>(before - 0x100);
        store_be16(header + 8, after);
        store_be16(header + 10, checksum_update(load_be16(header + 10), before, after));
    }
};

}  // namespace millrace::nf::router
