// Frames to try things with: described field by field (in C++ or YAML), or drawn at random.
//
// Lengths, header lengths and checksums are filled in rightly unless they are given.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/text/config.hpp"

namespace millrace::nftest {

using Frame = std::vector<uint8_t>;
using Mac = std::array<uint8_t, 6>;
using Rng = std::mt19937_64;

struct VlanTag {
    uint16_t id = 0;
    uint8_t pcp = 0;
    uint16_t type = 0x8100;  ///< of this tag (TPID)
};

struct Ipv4Header {
    uint32_t src = 0x0a000001, dst = 0x0a000002;  ///< host order
    uint8_t version = 4;
    uint8_t tos = 0;
    uint8_t ttl = 64;
    uint16_t id = 0;
    bool dont_fragment = false, more_fragments = false;
    uint16_t offset = 0;                  ///< in units of 8 bytes
    std::optional<uint8_t> protocol;      ///< else that of the header that follows
    std::optional<uint8_t> header_words;  ///< IHL
    std::optional<uint16_t> length;
    std::optional<uint16_t> checksum;
    Frame options;  ///< padded with zeros to a multiple of 4
};

struct Ipv6Extension {
    uint8_t protocol = 0;
    Frame body;                     ///< behind "next header" and "length"; padded to the unit of its length field
    std::optional<uint8_t> length;  ///< the length field as it stands
};

struct Ipv6Header {
    std::array<uint8_t, 16> src{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    std::array<uint8_t, 16> dst{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    uint8_t version = 6;
    uint8_t traffic_class = 0;
    uint32_t flow_label = 0;
    uint8_t hop_limit = 64;
    std::optional<uint8_t> next;  ///< of the last header; else that of the header that follows
    std::optional<uint16_t> length;
    std::vector<Ipv6Extension> extensions;
};

struct TcpHeader {
    uint16_t src = 0, dst = 0;
    uint32_t seq = 0, ack = 0;
    uint8_t flags = 0x10;
    uint16_t window = 65535;
    uint16_t urgent = 0;
    std::optional<uint8_t> offset;  ///< in 32-bit words
    std::optional<uint16_t> checksum;
    Frame options;  ///< padded with zeros to a multiple of 4
};

struct UdpHeader {
    uint16_t src = 0, dst = 0;
    std::optional<uint16_t> length;
    std::optional<uint16_t> checksum;
};

/// ICMP or ICMPv6, by the IP header that it stands in.
struct IcmpHeader {
    uint8_t type = 8, code = 0;
    uint32_t rest = 0;
    std::optional<uint16_t> checksum;
    bool v6 = false;
};

/// One frame, header by header. At most one of ipv4/ipv6 and one of tcp/udp/icmp.
struct PacketSpec {
    Mac dst{0x02, 0, 0, 0, 0, 2};
    Mac src{0x02, 0, 0, 0, 0, 1};
    std::optional<uint16_t> ether_type;  ///< else by the header that follows
    std::vector<VlanTag> vlans;
    std::optional<Ipv4Header> ipv4;
    std::optional<Ipv6Header> ipv6;
    std::optional<TcpHeader> tcp;
    std::optional<UdpHeader> udp;
    std::optional<IcmpHeader> icmp;
    Frame payload;
    uint32_t pad = 0;  ///< the frame is filled up with zeros to this many bytes
};

/// The bytes of a frame.
Frame build(const PacketSpec& spec);

/// Reads a packet from YAML; see docs/nf-tutorial.md. Throws ConfigError on any mistake.
PacketSpec read_packet_spec(const Config& packet);
/// Longer frames than this have no buffer.
inline constexpr size_t kMaxFrameBytes = 9216;
/// The same as bytes; also understands `hex:`, a whole frame, and `{capture: FILE, number: N}`, one of a capture.
Frame build_packet(const Config& packet);
Frame build_packet(const std::string& yaml);

/// "0a 0b:0c" to bytes; blanks and colons between bytes are skipped. Nothing on anything else.
std::optional<Frame> parse_hex(std::string_view text);
std::string hex_dump(const Frame& frame);

/// An IPv4 address as a number in host order; throws std::invalid_argument.
uint32_t ipv4(std::string_view text);
std::array<uint8_t, 16> ipv6(std::string_view text);
Frame bytes_of(std::string_view text);

/// Odds and bounds of random packets.
struct RandomOptions {
    double ipv6 = 0.3;
    double vlan = 0.15;
    double fragment = 0.05;
    double ip_options = 0.08;  ///< IPv4 options, IPv6 extension headers
    double not_ip = 0.03;
    double malformed = 0.05;  ///< bytes are overwritten or cut off at random
    double padding = 0.1;
    double tcp = 0.45, udp = 0.4, icmp = 0.1;  ///< the rest is some other protocol
    uint32_t max_payload = 1200;
    /// Changes the description before the frame is built: addresses from a table, say.
    std::function<void(PacketSpec&, Rng&)> adjust;
};

PacketSpec random_spec(Rng& rng, const RandomOptions& options = {});
Frame random_packet(Rng& rng, const RandomOptions& options = {});
std::vector<Frame> random_packets(Rng& rng, size_t count, const RandomOptions& options = {});

}  // namespace millrace::nftest
