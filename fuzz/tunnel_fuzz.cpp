// Any frame into the ends of tunnels, and any frame that was to be cut by a network card: nothing is read or written
// outside of it, and what one end puts in comes out at the other.
//
// Input: a byte that chooses the port, five that say what was left to the card, then the frame.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/entry.hpp"
#include "millrace/io/kernel/offload.hpp"
#include "millrace/nf/nf.hpp"

namespace tunnel_fuzz {

using namespace millrace;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

constexpr const char* kNear = R"({local: [192.0.2.1, "2001:db8::1"], clamp-mss: false, mtu: 9000, tunnels: {
  a: {kind: gre, remote: 198.51.100.1, to: 10.1.0.0/16}, b: {kind: gre, remote: 198.51.100.1, key: 7, to: "fd01::/16"},
  c: {kind: ipip, remote: 198.51.100.1, to: 10.2.0.0/16}, d: {kind: ipip, remote: "2001:db8::2", to: "fd02::/16"},
  e: {kind: vxlan, remote: 198.51.100.1, vni: 100, to: 10.3.0.0/16, macs: {dst: "02:00:00:00:00:01", src: "02:00:00:00:00:02"}},
  f: {kind: geneve, remote: "2001:db8::2", vni: 5, to: 10.4.0.0/16, macs: {dst: "02:00:00:00:00:01", src: "02:00:00:00:00:02"}},
  g: {kind: gtp-u, remote: 198.51.100.1, teid-in: 77, teid-out: 77, to: [10.5.0.0/16, "::/0"]},
  h: {kind: vxlan, remote: 198.51.100.1, vni: 200, port: wire}}})";

/// The other end of the same tunnels.
std::string far_text() {
    std::string text = kNear;
    const auto swap = [&](std::string_view from, std::string_view to) {
        for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
            text.replace(at, from.size(), to);
    };
    for (const auto& [near, far] : {std::pair{"192.0.2.1", "198.51.100.1"}, {"2001:db8::1", "2001:db8::2"}}) {
        swap(far, "@");
        swap(near, far);
        swap("@", near);
    }
    return text;
}

struct End {
    explicit End(const std::string& options)
        : type(*nf::find_type("tunnel")),
          function(type.create(
              Config::parse(options),
              {.node_name = "tunnel", .chain_name = "chain", .output_folder = ".", .ports = {"lan", "wire"}})) {}
    uint32_t run(Packet& packet) const { return type.process_with(1)(packet, function->image().tables()).outcome; }

    const nf::Type& type;
    std::unique_ptr<nf::NetworkFunction> function;
};

constexpr uint32_t kHead = 70;
constexpr uint32_t kWrapped = 0, kUnwrapped = 1, kJoined = 2;

/// A frame with so much room before it, and none behind: the sanitizer watches both ends.
struct Placed {
    explicit Placed(const std::vector<uint8_t>& frame, uint16_t port) : bytes(kHead + frame.size()) {
        std::memcpy(bytes.data() + kHead, frame.data(), frame.size());
        const auto length = static_cast<uint32_t>(frame.size());
        packet.attach(bytes.data() + kHead, length, length, kHead, 0);
        packet.set_in_port(port);
        packet.parse();
    }
    std::vector<uint8_t> frame() const { return {packet.data(), packet.data() + packet.length()}; }
    std::vector<uint8_t> bytes;
    Packet packet;
};

void through_both_ends(const std::vector<uint8_t>& frame, uint16_t port) {
    static const End near(kNear), far(far_text());
    Placed there(frame, port);
    if (there.packet.layers().malformed != Malformed::no) return;
    const bool is_ip = there.packet.layers().is_ip();
    const uint32_t l3 = there.packet.layers().l3_offset, end = there.packet.layers().end;
    const uint32_t outcome = near.run(there.packet);
    require(there.packet.data() >= there.bytes.data() &&
                there.packet.data() + there.packet.length() <= there.bytes.data() + there.bytes.size(),
            "the packet lies outside of its buffer");
    if (outcome != kWrapped) return;
    require(there.packet.layers().malformed == Malformed::no, "the outer headers are malformed");
    Placed back(there.frame(), 0);
    require(back.packet.layers().malformed == Malformed::no, "they are when they are parsed again");
    const uint32_t came_out = far.run(back.packet);
    if (port == 1) {
        require(came_out == kJoined && back.frame() == frame, "a joined port's frame is not what went in");
        return;
    }
    require(came_out == kUnwrapped && is_ip, "what went in did not come out");
    const uint32_t inner = back.packet.layers().l3_offset;
    require(back.packet.length() - inner == end - l3 &&
                std::memcmp(back.packet.data() + inner, frame.data() + l3, end - l3) == 0,
            "the packet is not what went in");
}

void cut(const std::vector<uint8_t>& frame, const uint8_t* said) {
    io::OffloadHeader offload;
    offload.flags = io::OffloadHeader::kNeedsChecksum;
    offload.kind = said[0];
    offload.segment_bytes = static_cast<uint16_t>(said[1] | said[2] << 8);
    offload.checksum_start = said[3];
    offload.checksum_offset = said[4];
    io::Segmenter segmenter;
    if (!segmenter.start(frame, offload)) return;
    // Its own bounds are looked at by the sanitizer.
    for (unsigned pieces = 0; segmenter.is_active() && pieces < 100; ++pieces) {
        std::vector<uint8_t> out(segmenter.next_bytes());
        segmenter.write(out.data());
    }
}

MILLRACE_FUZZER(tunnel)(const uint8_t* data, size_t size) {
    constexpr size_t kSaid = 6;
    if (size < kSaid || size > 8000) return 0;
    const std::vector<uint8_t> frame(data + kSaid, data + size);
    through_both_ends(frame, data[0] & 1);
    cut(frame, data + 1);
    return 0;
}

}  // namespace tunnel_fuzz
