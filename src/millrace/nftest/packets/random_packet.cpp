// Packets drawn at random.
#include <algorithm>

#include "millrace/packet/headers.hpp"
#include "millrace/nftest/packets/packet_builder.hpp"

namespace millrace::nftest {
namespace {

bool chance(Rng& rng, double odds) { return std::uniform_real_distribution<>(0, 1)(rng) < odds; }
uint32_t below(Rng& rng, uint32_t bound) { return bound == 0 ? 0 : static_cast<uint32_t>(rng() % bound); }

Frame random_bytes(Rng& rng, size_t count) {
    Frame bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
    return bytes;
}

Ipv4Header random_ipv4(Rng& rng, const RandomOptions& options) {
    Ipv4Header header;
    header.src = static_cast<uint32_t>(rng());
    header.dst = static_cast<uint32_t>(rng());
    header.tos = static_cast<uint8_t>(rng());
    header.ttl = chance(rng, 0.05) ? static_cast<uint8_t>(below(rng, 3)) : static_cast<uint8_t>(rng());
    header.id = static_cast<uint16_t>(rng());
    header.dont_fragment = chance(rng, 0.5);
    if (chance(rng, options.fragment)) {
        header.dont_fragment = false;
        header.more_fragments = chance(rng, 0.5);
        header.offset = static_cast<uint16_t>(header.more_fragments && chance(rng, 0.5) ? 0 : 1 + below(rng, 180));
    }
    if (chance(rng, options.ip_options)) header.options = Frame(4 * (1 + below(rng, 10)), 1);  // RFC 791: no operation
    return header;
}

Ipv6Header random_ipv6(Rng& rng, const RandomOptions& options) {
    Ipv6Header header;
    // Mostly within 2000::/3, as addresses are.
    for (auto* address : {&header.src, &header.dst}) {
        for (uint8_t& byte : *address) byte = static_cast<uint8_t>(rng());
        if (chance(rng, 0.8)) (*address)[0] = static_cast<uint8_t>(0x20 | ((*address)[0] & 0x1f));
    }
    header.traffic_class = static_cast<uint8_t>(rng());
    header.flow_label = static_cast<uint32_t>(rng()) & 0xfffff;
    header.hop_limit = chance(rng, 0.05) ? static_cast<uint8_t>(below(rng, 3)) : static_cast<uint8_t>(rng());
    static constexpr uint8_t kKinds[] = {ip::kProtocolHopByHop, ip::kProtocolRouting, ip::kProtocolDestination,
                                         ip::kProtocolMobility, ip::kProtocolAh};
    if (chance(rng, options.ip_options)) {
        for (uint32_t i = 1 + below(rng, 3); i > 0; --i)
            header.extensions.push_back({kKinds[below(rng, 5)], random_bytes(rng, below(rng, 40)), std::nullopt});
    }
    if (chance(rng, options.fragment)) {
        Frame body = random_bytes(rng, 6);
        body[0] = static_cast<uint8_t>(chance(rng, 0.5) ? 0 : below(rng, 6));
        if (chance(rng, 0.4)) body[1] = 1;
        header.extensions.push_back({ip::kProtocolFragment, body, std::nullopt});
    }
    return header;
}

void add_l4(PacketSpec& spec, Rng& rng, const RandomOptions& options) {
    const double draw = std::uniform_real_distribution<>(0, 1)(rng);
    const auto port = [&] { return static_cast<uint16_t>(chance(rng, 0.3) ? below(rng, 1024) : rng()); };
    if (draw < options.tcp) {
        TcpHeader tcp;
        tcp.src = port();
        tcp.dst = port();
        tcp.seq = static_cast<uint32_t>(rng());
        tcp.ack = static_cast<uint32_t>(rng());
        tcp.flags = static_cast<uint8_t>(rng());
        tcp.window = static_cast<uint16_t>(rng());
        if (chance(rng, 0.3)) tcp.options = Frame(4 * (1 + below(rng, 10)), 1);
        spec.tcp = tcp;
    } else if (draw < options.tcp + options.udp) {
        spec.udp = UdpHeader{port(), port(), std::nullopt, std::nullopt};
        if (chance(rng, 0.1)) spec.udp->checksum = 0;
    } else if (draw < options.tcp + options.udp + options.icmp) {
        spec.icmp = IcmpHeader{static_cast<uint8_t>(rng()), static_cast<uint8_t>(rng()), static_cast<uint32_t>(rng()),
                               std::nullopt, spec.ipv6.has_value()};
    } else {
        static constexpr uint8_t kOthers[] = {ip::kProtocolGre, ip::kProtocolEsp, ip::kProtocolSctp, 89, 253};
        const uint8_t protocol = kOthers[below(rng, 5)];
        if (spec.ipv4) spec.ipv4->protocol = protocol;
        if (spec.ipv6) spec.ipv6->next = protocol;
    }
}

void spoil(Frame& frame, Rng& rng) {
    if (frame.empty()) return;
    if (chance(rng, 0.4)) {
        frame.resize(below(rng, static_cast<uint32_t>(frame.size())));
        return;
    }
    // Mostly in the headers, where it matters.
    for (uint32_t i = 1 + below(rng, 4); i > 0; --i)
        frame[below(rng, std::min<uint32_t>(static_cast<uint32_t>(frame.size()), 80))] = static_cast<uint8_t>(rng());
}

}  // namespace

PacketSpec random_spec(Rng& rng, const RandomOptions& options) {
    PacketSpec spec;
    for (auto* mac : {&spec.dst, &spec.src})
        for (size_t i = 1; i < 6; ++i) (*mac)[i] = static_cast<uint8_t>(rng());
    if (chance(rng, options.vlan)) {
        for (uint32_t i = 1 + below(rng, 2); i > 0; --i)
            spec.vlans.push_back({static_cast<uint16_t>(below(rng, 4096)), static_cast<uint8_t>(below(rng, 8)),
                                  chance(rng, 0.7) ? eth::kTypeVlan : eth::kTypeQinq});
    }
    // Short packets are as likely as long ones.
    const uint32_t bound = chance(rng, 0.5) ? std::min<uint32_t>(options.max_payload, 64) : options.max_payload;
    spec.payload = random_bytes(rng, below(rng, bound + 1));
    if (chance(rng, options.not_ip)) {
        spec.ether_type = static_cast<uint16_t>(chance(rng, 0.5) ? eth::kTypeArp : 0x88cc);
    } else {
        if (chance(rng, options.ipv6)) {
            spec.ipv6 = random_ipv6(rng, options);
        } else {
            spec.ipv4 = random_ipv4(rng, options);
        }
        add_l4(spec, rng, options);
    }
    if (chance(rng, options.padding)) spec.pad = 60 + below(rng, 40);
    if (options.adjust) options.adjust(spec, rng);
    return spec;
}

Frame random_packet(Rng& rng, const RandomOptions& options) {
    Frame frame = build(random_spec(rng, options));
    if (chance(rng, options.malformed)) spoil(frame, rng);
    return frame;
}

std::vector<Frame> random_packets(Rng& rng, size_t count, const RandomOptions& options) {
    std::vector<Frame> frames;
    for (size_t i = 0; i < count; ++i) frames.push_back(random_packet(rng, options));
    return frames;
}

}  // namespace millrace::nftest
