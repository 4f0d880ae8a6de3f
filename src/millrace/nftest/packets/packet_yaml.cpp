// Packets described in YAML.
#include <arpa/inet.h>

#include "millrace/nftest/packets/packet_builder.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nftest {
namespace {

template <class T>
T number(const Config& value) {
    return static_cast<T>(value.integer(0, std::numeric_limits<T>::max()));
}
template <class T>
void read(const Config& map, const char* key, T& into) {
    if (const auto value = map.find(key)) into = number<T>(*value);
}
template <class T>
void read(const Config& map, const char* key, std::optional<T>& into) {
    if (const auto value = map.find(key)) into = number<T>(*value);
}

Frame hex(const Config& value) {
    const auto bytes = parse_hex(value.text());
    if (!bytes) value.fail("'" + value.text() + "' is not a run of hex bytes");
    return *bytes;
}

template <size_t N>
std::array<uint8_t, N> address(const Config& value) {
    std::array<uint8_t, N> bytes{};
    if (inet_pton(N == 4 ? AF_INET : AF_INET6, value.text().c_str(), bytes.data()) != 1)
        value.fail("'" + value.text() + "' is not an IP address here");
    return bytes;
}
uint32_t ipv4_address(const Config& value) {
    const auto bytes = address<4>(value);
    return static_cast<uint32_t>(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

VlanTag read_vlan(const Config& value) {
    VlanTag tag;
    if (value.is_scalar()) {
        tag.id = static_cast<uint16_t>(value.integer(0, 4095));
        return tag;
    }
    value.only({"id", "pcp", "type"});
    tag.id = static_cast<uint16_t>(value.at("id").integer(0, 4095));
    tag.pcp = static_cast<uint8_t>(value.integer_or("pcp", 0, 0, 7));
    read(value, "type", tag.type);
    return tag;
}

Ipv4Header read_ipv4(const Config& value) {
    value.only({"src", "dst", "version", "tos", "ttl", "id", "flags", "offset", "protocol", "header-words", "length",
                "checksum", "options"});
    Ipv4Header header;
    if (const auto src = value.find("src")) header.src = ipv4_address(*src);
    if (const auto dst = value.find("dst")) header.dst = ipv4_address(*dst);
    read(value, "version", header.version);
    read(value, "tos", header.tos);
    read(value, "ttl", header.ttl);
    read(value, "id", header.id);
    if (const auto flags = value.find("flags"))
        for (const Config& flag : flags->items())
            (flag.choice({"DF", "MF"}) == 0 ? header.dont_fragment : header.more_fragments) = true;
    read(value, "offset", header.offset);
    read(value, "protocol", header.protocol);
    read(value, "header-words", header.header_words);
    read(value, "length", header.length);
    read(value, "checksum", header.checksum);
    if (const auto options = value.find("options")) header.options = hex(*options);
    return header;
}

Ipv6Extension read_extension(const Config& value) {
    value.only({"type", "body", "length", "offset", "more", "id"});
    static const std::vector<std::string> kNames = {"hop-by-hop", "routing",     "fragment",
                                                    "ah",         "destination", "mobility"};
    static constexpr uint8_t kProtocols[] = {ip::kProtocolHopByHop, ip::kProtocolRouting,     ip::kProtocolFragment,
                                             ip::kProtocolAh,       ip::kProtocolDestination, ip::kProtocolMobility};
    Ipv6Extension extension;
    extension.protocol = kProtocols[value.at("type").choice(kNames)];
    if (const auto body = value.find("body")) extension.body = hex(*body);
    read(value, "length", extension.length);
    if (extension.protocol == ip::kProtocolFragment) {
        const auto offset = static_cast<uint16_t>(value.integer_or("offset", 0, 0, 0x1fff) << 3 |
                                                  (value.boolean_or("more", false) ? 1 : 0));
        const auto id = static_cast<uint32_t>(value.integer_or("id", 0, 0, 0xffffffff));
        extension.body = {static_cast<uint8_t>(offset >> 8), static_cast<uint8_t>(offset),
                          static_cast<uint8_t>(id >> 24),    static_cast<uint8_t>(id >> 16),
                          static_cast<uint8_t>(id >> 8),     static_cast<uint8_t>(id)};
    }
    return extension;
}

Ipv6Header read_ipv6(const Config& value) {
    value.only({"src", "dst", "version", "traffic-class", "flow-label", "hop-limit", "next", "length", "extensions"});
    Ipv6Header header;
    if (const auto src = value.find("src")) header.src = address<16>(*src);
    if (const auto dst = value.find("dst")) header.dst = address<16>(*dst);
    read(value, "version", header.version);
    read(value, "traffic-class", header.traffic_class);
    read(value, "flow-label", header.flow_label);
    read(value, "hop-limit", header.hop_limit);
    read(value, "next", header.next);
    read(value, "length", header.length);
    if (const auto extensions = value.find("extensions"))
        for (const Config& extension : extensions->items()) header.extensions.push_back(read_extension(extension));
    return header;
}

TcpHeader read_tcp(const Config& value) {
    value.only({"src", "dst", "seq", "ack", "flags", "window", "urgent", "offset", "checksum", "options"});
    TcpHeader header;
    read(value, "src", header.src);
    read(value, "dst", header.dst);
    read(value, "seq", header.seq);
    read(value, "ack", header.ack);
    if (const auto flags = value.find("flags")) {
        static const std::string kLetters = "FSRPAUEC";
        header.flags = 0;
        for (const char letter : flags->text()) {
            const size_t bit = kLetters.find(letter);
            if (bit == std::string::npos) flags->fail("TCP flags are letters of FSRPAUEC");
            header.flags = static_cast<uint8_t>(header.flags | 1u << bit);
        }
    }
    read(value, "window", header.window);
    read(value, "urgent", header.urgent);
    read(value, "offset", header.offset);
    read(value, "checksum", header.checksum);
    if (const auto options = value.find("options")) header.options = hex(*options);
    return header;
}

UdpHeader read_udp(const Config& value) {
    value.only({"src", "dst", "length", "checksum"});
    UdpHeader header;
    read(value, "src", header.src);
    read(value, "dst", header.dst);
    read(value, "length", header.length);
    read(value, "checksum", header.checksum);
    return header;
}

IcmpHeader read_icmp(const Config& value, bool v6) {
    value.only({"type", "code", "rest", "checksum"});
    IcmpHeader header;
    header.v6 = v6;
    header.type = v6 ? 128 : 8;  // echo request
    read(value, "type", header.type);
    read(value, "code", header.code);
    read(value, "rest", header.rest);
    read(value, "checksum", header.checksum);
    return header;
}

Frame read_payload(const Config& value) {
    Frame bytes;
    for (const Config& part : value.items()) {
        Frame more;
        if (part.is_scalar()) {
            more = bytes_of(part.text());
        } else if (part.has("hex")) {
            part.only({"hex"});
            more = hex(part.at("hex"));
        } else {
            part.only({"repeat", "count"});
            const std::string unit = part.at("repeat").text();
            for (int64_t i = part.at("count").integer(0, 65535); i > 0; --i)
                more.insert(more.end(), unit.begin(), unit.end());
        }
        bytes.insert(bytes.end(), more.begin(), more.end());
    }
    return bytes;
}

}  // namespace

PacketSpec read_packet_spec(const Config& packet) {
    packet.only({"eth", "vlan", "ipv4", "ipv6", "tcp", "udp", "icmp", "icmpv6", "payload", "pad"});
    PacketSpec spec;
    if (const auto eth = packet.find("eth")) {
        eth->only({"dst", "src", "type"});
        if (const auto dst = eth->find("dst")) spec.dst = dst->mac();
        if (const auto src = eth->find("src")) spec.src = src->mac();
        read(*eth, "type", spec.ether_type);
    }
    if (const auto vlan = packet.find("vlan"))
        for (const Config& tag : vlan->items()) spec.vlans.push_back(read_vlan(tag));
    if (const auto ipv4 = packet.find("ipv4")) spec.ipv4 = read_ipv4(*ipv4);
    if (const auto ipv6 = packet.find("ipv6")) spec.ipv6 = read_ipv6(*ipv6);
    if (spec.ipv4 && spec.ipv6) packet.fail("a packet is either ipv4 or ipv6");
    if (const auto tcp = packet.find("tcp")) spec.tcp = read_tcp(*tcp);
    if (const auto udp = packet.find("udp")) spec.udp = read_udp(*udp);
    if (const auto icmp = packet.find("icmp")) spec.icmp = read_icmp(*icmp, false);
    if (const auto icmp = packet.find("icmpv6")) spec.icmp = read_icmp(*icmp, true);
    if (spec.tcp.has_value() + spec.udp.has_value() + spec.icmp.has_value() > 1)
        packet.fail("a packet has one of tcp, udp, icmp and icmpv6");
    if (const auto payload = packet.find("payload")) spec.payload = read_payload(*payload);
    spec.pad = static_cast<uint32_t>(packet.integer_or("pad", 0, 0, 65535));
    return spec;
}

namespace {

/// The record of a capture that `{capture, number}` names.
Frame read_captured(const Config& packet) {
    packet.only({"capture", "number"});
    const Config file = packet.at("capture");
    const auto number = static_cast<uint64_t>(packet.integer_or("number", 1, 1));
    io::CaptureReader reader(file.path(), file.where());
    io::CaptureRecord record;
    while (reader.next(record)) {
        if (record.number != number) continue;
        if (!reader.to_ethernet(record))
            packet.fail("packet " + std::to_string(number) + " of this capture is no Ethernet frame");
        Frame frame(record.head.begin(), record.head.end());
        frame.insert(frame.end(), record.bytes.begin(), record.bytes.end());
        return frame;
    }
    if (!reader.error().empty()) file.fail(reader.error());
    packet.fail("this capture has " + std::to_string(reader.records()) + " packets, and no packet " +
                std::to_string(number));
}

Frame read_frame(const Config& packet) {
    if (const auto whole = packet.find("hex")) {
        packet.only({"hex"});
        return hex(*whole);
    }
    if (packet.has("capture")) return read_captured(packet);
    return build(read_packet_spec(packet));
}

}  // namespace

Frame build_packet(const Config& packet) {
    const Frame frame = read_frame(packet);
    if (frame.size() > kMaxFrameBytes)
        packet.fail("this packet has " + std::to_string(frame.size()) + " bytes; at most " +
                    std::to_string(kMaxFrameBytes) + " are taken");
    return frame;
}

Frame build_packet(const std::string& yaml) { return build_packet(Config::parse(yaml, "(packet)")); }

}  // namespace millrace::nftest
