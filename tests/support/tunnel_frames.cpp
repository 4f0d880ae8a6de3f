#include "support/tunnel_frames.hpp"

namespace millrace::test {
namespace {

Frame without_ethernet(const Frame& frame) { return {frame.begin() + 14, frame.end()}; }

Frame in_ip(bool ipv6, uint8_t protocol, const Frame& payload) {
    PacketSpec spec;
    if (ipv6) spec.ipv6.emplace().next = protocol;
    else spec.ipv4.emplace().protocol = protocol;
    spec.payload = payload;
    return build(spec);
}
Frame in_udp(bool ipv6, uint16_t port, const Frame& payload) {
    PacketSpec spec;
    if (ipv6) spec.ipv6.emplace();
    else spec.ipv4.emplace();
    spec.udp = UdpHeader{.src = 40000, .dst = port, .length = {}, .checksum = {}};
    spec.payload = payload;
    return build(spec);
}
bool is_ipv6(const Frame& frame) { return frame[12] == 0x86; }

}  // namespace

Frame join(std::initializer_list<Frame> parts) {
    Frame all;
    for (const Frame& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}
Frame be16(size_t value) { return {static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)}; }

Frame in_tunnel(uint32_t kind, const Frame& carried, unsigned how) {
    const Frame ip = without_ethernet(carried), type = {carried[12], carried[13]};
    const bool six = how & 1;
    PacketSpec plain;
    switch (kind) {
        case tunnel::kMpls:
            plain.ether_type = 0x8847;
            plain.payload = join({how & 2 ? Frame{0, 1, 0x20, 64} : Frame{}, Frame{0, 2, 0x21, 64}, ip});
            return build(plain);
        case tunnel::kPppoe:
            plain.ether_type = 0x8864;
            plain.payload = join(
                {Frame{0x11, 0, 0, 7}, be16(ip.size() + 2), is_ipv6(carried) ? be16(0x57) : be16(0x21), ip});
            return build(plain);
        case tunnel::kIpip: return in_ip(six, is_ipv6(carried) ? 41 : 4, ip);
        case tunnel::kGre: {
            const unsigned options = how >> 1 & 7;
            const bool bridged = how & 16;
            const size_t words = (options & 1) + (options >> 1 & 1) + (options >> 2 & 1);
            const auto flags = static_cast<uint8_t>((options & 1 ? 0x80 : 0) | (options & 2 ? 0x20 : 0) |
                                                    (options & 4 ? 0x10 : 0));
            return in_ip(
                six, 47,
                join({Frame{flags, 0}, bridged ? be16(0x6558) : type, Frame(4 * words, 9), bridged ? carried : ip}));
        }
        case tunnel::kVxlan: return in_udp(six, 4789, join({Frame{8, 0, 0, 0, 0, 0, 5, 0}, carried}));
        case tunnel::kGeneve: {
            const uint8_t words = how >> 1 & 3;
            const bool bridged = how & 8;
            return in_udp(six, 6081,
                          join({Frame{words, 0}, bridged ? be16(0x6558) : type, Frame{0, 0, 5, 0},
                                Frame(words * size_t{4}, 7), bridged ? carried : ip}));
        }
        case tunnel::kGtpU: {
            const unsigned form = how >> 1 & 3;  // plain, with a sequence number, with an extension header, with two
            const Frame optional = form == 0   ? Frame{}
                                   : form == 1 ? Frame{0, 1, 0, 0}
                                   : form == 2 ? Frame{0, 0, 0, 0x85, 1, 0, 9, 0}
                                               : Frame{0, 0, 0, 0x85, 2, 0, 9, 0, 0, 0, 0, 0xc0, 1, 1, 2, 0};
            const uint8_t flags = form == 0 ? 0x30 : form == 1 ? 0x32 : 0x34;
            return in_udp(
                six, 2152,
                join({Frame{flags, 255}, be16(optional.size() + ip.size()), Frame{0, 0, 0, 1}, optional, ip}));
        }
        default: return {};
    }
}

}  // namespace millrace::test
