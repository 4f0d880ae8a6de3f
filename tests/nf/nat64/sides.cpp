#include "nf/nat64/sides.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/packet/checksum.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::test {
namespace {

constexpr size_t kIp = 14;

bool packet_right(const uint8_t* l3, size_t bytes) {
    const bool ipv6 = l3[0] >> 4 == 6;
    const uint32_t header = ipv6 ? 40 : (l3[0] & 15) * 4u;
    const uint32_t total = ipv6 ? load_be16(l3 + 4) + 40u : load_be16(l3 + 2);
    if (!ipv6 && checksum(l3, header) != 0) return false;
    if (total > bytes) return true;  // it is cut short
    const uint8_t protocol = l3[ipv6 ? 6 : 9];
    const uint8_t* const l4 = l3 + header;
    if (protocol == 17 && load_be16(l4 + 6) == 0) return !ipv6;
    const uint32_t carried = total - header;
    uint32_t sum = protocol == 1 ? 0 : checksum_add(protocol + carried, l3 + (ipv6 ? 8 : 12), ipv6 ? 32 : 8);
    return checksum_finish(checksum_add(sum, l4, carried)) == 0;
}

Frame error_of(PacketSpec spec, uint8_t type, uint8_t code, uint32_t rest, const Frame& quoted, size_t most) {
    spec.icmp.emplace();
    spec.icmp->type = type;
    spec.icmp->code = code;
    spec.icmp->rest = rest;
    spec.icmp->v6 = spec.ipv6.has_value();
    spec.payload.assign(quoted.begin() + kIp, quoted.end());
    spec.payload.resize(std::min(spec.payload.size(), most));
    return build(spec);
}

Side end4(const Frame& frame, size_t address_at, size_t port_at) {
    const uint8_t* const l3 = frame.data() + kIp;
    Side side;
    side.ipv4 = load_be32(l3 + address_at);
    side.port = load_be16(l3 + (l3[0] & 15) * 4 + (l3[9] == 1 ? 4 : port_at));
    return side;
}

}  // namespace

PacketSpec spec_of(const Content& content, const Side& from, const Side& to, bool ipv6) {
    PacketSpec spec;
    spec.vlans = content.vlans;
    if (ipv6) {
        spec.ipv6.emplace();
        spec.ipv6->src = from.ipv6;
        spec.ipv6->dst = to.ipv6;
        spec.ipv6->traffic_class = content.traffic_class;
        spec.ipv6->hop_limit = content.ttl;
    } else {
        spec.ipv4.emplace();
        spec.ipv4->src = from.ipv4;
        spec.ipv4->dst = to.ipv4;
        spec.ipv4->tos = content.traffic_class;
        spec.ipv4->ttl = content.ttl;
    }
    if (content.protocol == 6) {
        spec.tcp.emplace();
        spec.tcp->src = from.port;
        spec.tcp->dst = to.port;
        spec.tcp->flags = content.flags;
    } else if (content.protocol == 17) {
        spec.udp.emplace();
        spec.udp->src = from.port;
        spec.udp->dst = to.port;
    } else {
        spec.icmp.emplace();
        spec.icmp->v6 = ipv6;
        spec.icmp->type = ipv6 ? (content.answer ? 129 : 128) : content.answer ? 0 : 8;
        spec.icmp->rest = uint32_t{content.answer ? to.port : from.port} << 16 | 1;
    }
    spec.payload = content.payload;
    return spec;
}

Frame in_ipv6(const Content& content, const Side& from, const Side& to) {
    return build(spec_of(content, from, to, true));
}
Frame in_ipv4(const Content& content, const Side& from, const Side& to) {
    return build(spec_of(content, from, to, false));
}
Frame in_ipv4(const Content& content, const Side& from, const Side& to, const Frame& like) {
    PacketSpec spec = spec_of(content, from, to, false);
    const size_t l2 = kIp + 4 * content.vlans.size();
    const size_t bytes = build(spec).size() - l2;
    const bool may_be_cut = bytes <= 1260 || bytes > 1500;
    spec.ipv4->dont_fragment = !may_be_cut;
    if (may_be_cut && like.size() > l2 + 6) spec.ipv4->id = load_be16(like.data() + l2 + 4);
    return build(spec);
}

Address6 known(uint32_t ipv4) {
    Address6 address{0x00, 0x64, 0xff, 0x9b};
    store_be32(address.data() + 12, ipv4);
    return address;
}

Frame error6(const Address6& teller, uint8_t type, uint8_t code, uint32_t rest, const Frame& quoted, size_t most) {
    PacketSpec spec;
    spec.ipv6.emplace();
    spec.ipv6->src = teller;
    std::copy_n(quoted.begin() + kIp + 8, 16, spec.ipv6->dst.begin());
    return error_of(spec, type, code, rest, quoted, most);
}
Frame error4(uint32_t teller, uint8_t type, uint8_t code, uint32_t rest, const Frame& quoted, size_t most) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = teller;
    spec.ipv4->dst = load_be32(quoted.data() + kIp + 12);
    return error_of(spec, type, code, rest, quoted, most);
}

Side source4(const Frame& frame) { return end4(frame, 12, 0); }
Side destination4(const Frame& frame) { return end4(frame, 16, 2); }

Known known_endpoint(NfRunner& runner, uint8_t protocol) {
    Known made;
    made.content.protocol = protocol;
    made.content.payload = Frame(1400, 7);
    made.client = {ipv6("2001:db8::5"), 0, 5032};
    made.server = outside(ipv4("192.0.2.9"), 53);
    made.inside = in_ipv6(made.content, made.client, made.server);
    const NfResult out = runner.run({made.inside}, {1});
    EXPECT_EQ(out.decisions[0].outcome, kOut);
    made.outside = out.frames[0];
    made.external = source4(made.outside);
    return made;
}

bool sums_right(const Frame& frame) {
    const uint8_t* const l3 = frame.data() + kIp;
    const size_t bytes = frame.size() - kIp;
    if (!packet_right(l3, bytes)) return false;
    const bool ipv6 = l3[0] >> 4 == 6;
    const size_t header = ipv6 ? 40 : (l3[0] & 15) * 4u;
    const uint8_t protocol = l3[ipv6 ? 6 : 9], type = l3[header];
    const bool is_error = ipv6 ? protocol == 58 && type < 5 : protocol == 1 && (type == 3 || type == 11 || type == 12);
    return !is_error || bytes < header + 8 + 48 || packet_right(l3 + header + 8, bytes - header - 8);
}

}  // namespace millrace::test
