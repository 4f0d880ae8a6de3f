#include "nf/tunnel/ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "millrace/packet/checksum.hpp"
#include "millrace/packet/parse.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

constexpr uint32_t kNear4 = 0xc0000201, kFar4 = 0xc6330000;  // 192.0.2.1, 198.51.0.0
constexpr const char* kMacs = R"(macs: {dst: "02:aa:00:00:00:01", src: "02:aa:00:00:00:02"})";

std::string kind_text(size_t i, bool near) {
    const size_t id = i + 1;
    switch (i % kKindsOfEnds) {
        case 0: return "gre";
        case 1: return fmt::format("gre, key: {}", id);
        case 2: return "ipip";
        case 3: return fmt::format("gtp-u, teid-in: {}, teid-out: {}", near ? id : id + 7, near ? id + 7 : id);
        case 4: return "ipip";
        case 5: return fmt::format("vxlan, vni: {}, {}", id, kMacs);
        case 6: return fmt::format("geneve, vni: {}, {}", id, kMacs);
        default: return fmt::format("vxlan, vni: {}, {}", id, kMacs);
    }
}
/// Of these the outer packets are of IPv6.
bool is_outer_ipv6(size_t i) { return i % kKindsOfEnds == 4 || i % kKindsOfEnds == 7; }

std::string far_text(size_t i) {
    if (is_outer_ipv6(i)) return fmt::format("2001:db8::{:x}:1", i);
    const uint32_t at = kFar4 + static_cast<uint32_t>(i);
    return fmt::format("{}.{}.{}.{}", at >> 24, at >> 16 & 255, at >> 8 & 255, at & 255);
}

void fix_ipv4_checksum(Frame& frame, size_t l3) {
    uint8_t* const header = frame.data() + l3;
    store_be16(header + 10, 0);
    store_be16(header + 10, checksum(header, 20));
}

}  // namespace

std::string tunnels_text(size_t count, bool near) {
    std::string text = near ? "{local: [192.0.2.1, 2001:db8:ffff::1], dont-fragment: copy, tunnels: {"
                            : "{dont-fragment: copy, tunnels: {";
    for (size_t i = 0; i < count; ++i) {
        const std::string own = is_outer_ipv6(i) ? "2001:db8:ffff::1" : "192.0.2.1";
        const std::string ends = near ? "remote: " + far_text(i) : "local: " + far_text(i) + ", remote: " + own;
        text += fmt::format("{}t{}: {{kind: {}, {}, to: [10.{}.{}.0/24, \"fd00:0:{:x}::/48\"]}}", i > 0 ? ", " : "", i,
                            kind_text(i, near), ends, i >> 8, i & 255, i);
    }
    return text + "}}";
}

std::vector<Frame> frames_for(size_t count, size_t frames, unsigned seed) {
    Rng random(seed);
    RandomOptions options;
    options.ipv6 = 0.5;
    options.max_payload = 1450;
    options.adjust = [count](PacketSpec& spec, Rng& rng) {
        const auto tunnel = static_cast<uint32_t>(rng() % (count + count / 8 + 1));  // there are no such last ones
        if (spec.ipv4) spec.ipv4->dst = ipv4("10.0.0.0") + (tunnel << 8) + static_cast<uint32_t>(rng() % 256);
        if (spec.ipv6)
            spec.ipv6->dst = {0xfd, 0, 0, 0, static_cast<uint8_t>(tunnel >> 8), static_cast<uint8_t>(tunnel), 1, 2};
    };
    return random_packets(random, frames, options);
}

std::vector<Frame> mixture(size_t count, size_t frames, unsigned seed) {
    std::mt19937 rng(seed);
    std::vector<Frame> all = frames_for(count, frames / 2, seed);
    NfRunner far("tunnel", tunnels_text(count, false));
    // What the far end sends goes to the near one.
    std::vector<Frame> back = frames_for(count, frames - all.size(), seed + 1);
    const NfResult wrapped = far.run(back, {1});
    for (size_t i = 0; i < back.size(); ++i) {
        Frame frame = wrapped.frames[i];
        const size_t l3 = l2_bytes(frame);
        if (frame.size() < l3 + 44) continue;
        switch (rng() % 8) {
            case 0: frame[l3 + 20 + rng() % 24] ^= static_cast<uint8_t>(1u << rng() % 8); break;  // of its headers
            case 1: frame.resize(l3 + rng() % (frame.size() - l3)); break;
            case 2:
                if (frame[l3] == 0x45) {  // congestion was met
                    frame[l3 + 1] |= 3;
                    fix_ipv4_checksum(frame, l3);
                }
                break;
            case 3:
                if (frame[l3] == 0x45) {  // a fragment
                    frame[l3 + 6] = 0x20;
                    fix_ipv4_checksum(frame, l3);
                }
                break;
            case 4:
                if (frame[l3] == 0x45 && frame[l3 + 9] == 47) store_be16(frame.data() + l3 + 22, 0x6558);
                break;
            default: break;
        }
        all.push_back(std::move(frame));
    }
    std::shuffle(all.begin(), all.end(), rng);
    return all;
}

size_t l2_bytes(const Frame& frame) {
    Layers layers;
    const auto bytes = static_cast<uint32_t>(frame.size());
    parse(frame.data(), bytes, bytes, layers);
    return layers.is_ip() ? layers.l3_offset : eth::kHeaderBytes;
}

}  // namespace millrace::test
