#include "millrace/io/source/traffic.hpp"

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "millrace/base/files/file.hpp"
#include "millrace/io/capture/capture_options.hpp"
#include "millrace/packet/headers.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::io {
namespace {

constexpr size_t kStreamBytes = size_t{1} << 20;
constexpr size_t kFewestTemplates = 1024, kFewestDrawn = 65536;
constexpr size_t kMaxReplayedBytes = size_t{1} << 30;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a state of one word, so that every flow has its own.
class FlowRandom {
public:
    explicit FlowRandom(uint64_t state) : state_(state) {}
    uint64_t operator()() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

private:
    uint64_t state_;
};

/// The payloads of a capture's TCP and UDP packets, one after the other.
std::vector<uint8_t> capture_payloads(const TrafficSpec& spec) {
    std::vector<uint8_t> bytes;
    CaptureReader reader(spec.payload_file, spec.payload_where);
    CaptureRecord record;
    while (bytes.size() < 64 * kStreamBytes && reader.next(record)) {
        if (!reader.to_ethernet(record)) continue;
        const auto length = static_cast<uint32_t>(record.head.size() + record.bytes.size());
        std::vector<uint8_t> frame(record.head.begin(), record.head.end());
        frame.insert(frame.end(), record.bytes.begin(), record.bytes.end());
        const Layers layers = parse(frame.data(), length, length);
        if (layers.has_ports() && layers.payload_offset < layers.end)
            bytes.insert(bytes.end(), frame.begin() + layers.payload_offset, frame.begin() + layers.end);
    }
    return bytes;
}

std::vector<uint8_t> make_stream(const TrafficSpec& spec) {
    static constexpr const char* kWords[] = {"the ", "packet ",  "host: ",   "GET ",   "index ",   "content ",
                                             "of ",  "a ",       "user ",    "login ", "accept: ", "HTTP/1.1 ",
                                             "in ",  "network ", "time\r\n", "value="};
    std::vector<uint8_t> bytes;
    std::mt19937_64 random(spec.seed ^ 0x5eed);
    switch (spec.payload) {
        case TrafficSpec::Payload::zero: bytes.resize(kStreamBytes); break;
        case TrafficSpec::Payload::random:
            bytes.resize(kStreamBytes);
            for (size_t i = 0; i < bytes.size(); i += 8) {
                const uint64_t word = random();
                std::memcpy(&bytes[i], &word, 8);
            }
            break;
        case TrafficSpec::Payload::text:
            while (bytes.size() < kStreamBytes) {
                const std::string_view word = kWords[random() % std::size(kWords)];
                bytes.insert(bytes.end(), word.begin(), word.end());
            }
            break;
        case TrafficSpec::Payload::pcap: bytes = capture_payloads(spec); break;
        case TrafficSpec::Payload::file: {
            const std::string content = read_file(spec.payload_file, spec.payload_where, 64 * kStreamBytes);
            bytes.assign(content.begin(), content.end());
            break;
        }
    }
    if (bytes.empty()) throw ConfigError(Diagnostic{spec.payload_where, spec.payload_file + ": holds no payload", ""});
    return bytes;
}

/// `index` of all addresses under `prefix`, in order, wrapping around.
void put_address(const Prefix& prefix, uint64_t index, uint8_t* out) {
    const unsigned bytes = prefix.address_bits() / 8;
    const unsigned host_bits = prefix.address_bits() - prefix.length;
    if (host_bits < 64) index &= (uint64_t{1} << host_bits) - 1;
    std::memcpy(out, prefix.bytes.data(), bytes);
    for (unsigned i = 0; i < 8 && i < bytes; ++i) out[bytes - 1 - i] |= static_cast<uint8_t>(index >> (8 * i));
}

uint64_t hosts(const Prefix& prefix) {
    const unsigned host_bits = prefix.address_bits() - prefix.length;
    return host_bits >= 40 ? uint64_t{1} << 40 : uint64_t{1} << host_bits;
}

/// Writes headers for `flow` into `frame`; sums come later, when the payload is there.
void put_headers(const TrafficSpec& spec, uint64_t flow, uint32_t length, uint8_t* frame) {
    FlowRandom random(spec.seed * 0xd1342543de82ef95ull + flow);
    const bool v6 = spec.src.ipv6;
    std::memcpy(frame, spec.dst_mac.data(), 6);
    std::memcpy(frame + 6, spec.src_mac.data(), 6);
    const uint16_t type = rte_cpu_to_be_16(v6 ? eth::kTypeIpv6 : eth::kTypeIpv4);
    std::memcpy(frame + 12, &type, 2);

    const uint8_t protocol = spec.protocol == TrafficSpec::Protocol::udp ? ip::kProtocolUdp : ip::kProtocolTcp;
    const auto l3_bytes = static_cast<uint16_t>(length - eth::kHeaderBytes);
    uint8_t* l3 = frame + eth::kHeaderBytes;
    const uint64_t src = flow % hosts(spec.src);
    if (v6) {
        auto* header = reinterpret_cast<rte_ipv6_hdr*>(l3);
        header->vtc_flow = rte_cpu_to_be_32(0x60000000u);
        header->payload_len = rte_cpu_to_be_16(static_cast<uint16_t>(l3_bytes - ip::kIpv6Bytes));
        header->proto = protocol;
        header->hop_limits = 64;
        put_address(spec.src, src, header->src_addr);
        put_address(spec.dst, random(), header->dst_addr);
    } else {
        auto* header = reinterpret_cast<rte_ipv4_hdr*>(l3);
        header->version_ihl = 0x45;
        header->total_length = rte_cpu_to_be_16(l3_bytes);
        header->time_to_live = 64;
        header->next_proto_id = protocol;
        put_address(spec.src, src, reinterpret_cast<uint8_t*>(&header->src_addr));
        put_address(spec.dst, random(), reinterpret_cast<uint8_t*>(&header->dst_addr));
    }
    uint8_t* l4 = l3 + (v6 ? ip::kIpv6Bytes : ip::kIpv4Bytes);
    const auto pick = [](TrafficSpec::PortRange range, uint64_t n) {
        return rte_cpu_to_be_16(static_cast<uint16_t>(range.first + n % (range.last - range.first + 1u)));
    };
    const uint16_t src_port = pick(spec.src_ports, flow / hosts(spec.src));
    const uint16_t dst_port = pick(spec.dst_ports, random());
    if (spec.protocol == TrafficSpec::Protocol::udp) {
        auto* header = reinterpret_cast<rte_udp_hdr*>(l4);
        header->src_port = src_port;
        header->dst_port = dst_port;
        header->dgram_len = rte_cpu_to_be_16(static_cast<uint16_t>(length - static_cast<uint32_t>(l4 - frame)));
    } else {
        auto* header = reinterpret_cast<rte_tcp_hdr*>(l4);
        header->src_port = src_port;
        header->dst_port = dst_port;
        header->sent_seq = static_cast<uint32_t>(random());
        header->data_off = 0x50;
        header->tcp_flags = RTE_TCP_ACK_FLAG;
        header->rx_win = rte_cpu_to_be_16(65535);
    }
}

void put_checksums(const TrafficSpec& spec, uint8_t* frame) {
    uint8_t* l3 = frame + eth::kHeaderBytes;
    uint8_t* l4 = l3 + (spec.src.ipv6 ? ip::kIpv6Bytes : ip::kIpv4Bytes);
    uint16_t sum = 0;
    if (spec.src.ipv6) {
        sum = rte_ipv6_udptcp_cksum(reinterpret_cast<rte_ipv6_hdr*>(l3), l4);
    } else {
        auto* header = reinterpret_cast<rte_ipv4_hdr*>(l3);
        header->hdr_checksum = rte_ipv4_cksum(header);
        sum = rte_ipv4_udptcp_cksum(header, l4);
    }
    std::memcpy(l4 + (spec.protocol == TrafficSpec::Protocol::udp ? 6 : 16), &sum, 2);
}

}  // namespace

void TrafficFrames::write(size_t index, uint8_t* out) const {
    const FrameTemplate& frame = templates[index];
    std::memcpy(out, frame.head, FrameTemplate::kHeadBytes);
    if (frame.length > FrameTemplate::kHeadBytes)
        std::memcpy(out + FrameTemplate::kHeadBytes, &stream[frame.payload_at],
                    frame.length - FrameTemplate::kHeadBytes);
}

namespace {

/// Whole frames of a capture. The stream holds what is behind their heads.
TrafficFrames replay_frames(const TrafficSpec& spec, unsigned queue, unsigned queues) {
    CaptureOptions options;
    options.path = spec.replay_file;
    options.pad = true;
    CaptureReader reader(spec.replay_file, spec.replay_where);
    TrafficFrames result;
    std::vector<uint8_t> frame;
    ReadyFrame ready;
    for (CaptureRecord record; reader.next(record);) {
        if (make_ready(reader, options, spec.replay_longest_bytes, record, ready)) continue;
        frame.assign(std::max(ready.length, FrameTemplate::kHeadBytes), 0);
        copy_frame(ready, frame.data());
        Packet packet;
        packet.attach(frame.data(), ready.length, ready.length, 0, 0);
        packet.parse();
        if (symmetric_flow_hash(packet) % queues != queue) continue;
        FrameTemplate& made = result.templates.emplace_back();
        std::memcpy(made.head, frame.data(), FrameTemplate::kHeadBytes);
        made.length = ready.length;
        made.payload_at = static_cast<uint32_t>(result.stream.size());
        result.stream.insert(result.stream.end(), frame.begin() + FrameTemplate::kHeadBytes, frame.end());
        if (result.stream.size() > kMaxReplayedBytes)
            throw ConfigError(Diagnostic{spec.replay_where, spec.replay_file + ": holds more than 1 GiB of frames",
                                         "cut it, as with editcap"});
    }
    return result;
}

}  // namespace

TrafficFrames make_frames(const TrafficSpec& spec, unsigned queue, unsigned queues, bool one_payload) {
    if (!spec.replay_file.empty()) return replay_frames(spec, queue, queues);
    TrafficFrames result;
    result.stream = make_stream(spec);
    const uint32_t header = spec.header_bytes();
    const uint32_t longest = std::max(spec.longest_bytes(), FrameTemplate::kHeadBytes);
    // Frames may begin anywhere in the stream: behind its end it begins anew.
    const size_t round = result.stream.size();
    result.stream.reserve(round + longest);
    for (size_t i = 0; i < longest; ++i) result.stream.push_back(result.stream[i]);

    const uint64_t flows = queue < spec.flows ? (spec.flows - queue + queues - 1) / queues : 0;
    if (flows == 0) return result;
    const bool even = spec.popularity == TrafficSpec::Popularity::even;
    const size_t count = even ? (std::max<size_t>(kFewestTemplates, flows) + flows - 1) / flows * flows
                              : std::max<size_t>(kFewestDrawn, 2 * flows);
    std::vector<double> weights;
    for (const TrafficSpec::Size& size : spec.sizes) weights.push_back(size.weight);
    std::discrete_distribution<size_t> pick(weights.begin(), weights.end());
    std::mt19937_64 random(spec.seed + 0x10001 * (queue + uint64_t{1}));
    // The continuous law between the first rank and the last.
    const auto flow_of = [&](size_t i) -> uint64_t {
        if (even) return i % flows;
        const double rank = std::pow(static_cast<double>(flows) + 1, std::generate_canonical<double, 53>(random));
        return std::min(static_cast<uint64_t>(rank), flows) - 1;
    };

    size_t cursor = one_payload ? 0 : random() % round;
    std::vector<uint8_t> frame(longest);
    result.templates.resize(count);
    for (size_t i = 0; i < count; ++i) {
        const uint32_t length = spec.sizes[pick(random)].bytes;
        std::fill(frame.begin(), frame.end(), uint8_t{0});
        put_headers(spec, queue + queues * flow_of(i), length, frame.data());
        std::memcpy(&frame[header], &result.stream[cursor], length - header);
        put_checksums(spec, frame.data());
        FrameTemplate& made = result.templates[i];
        std::memcpy(made.head, frame.data(), FrameTemplate::kHeadBytes);
        made.length = length;
        made.payload_at = static_cast<uint32_t>(cursor + FrameTemplate::kHeadBytes - header);
        if (!one_payload) cursor = (cursor + (length - header)) % round;
    }
    return result;
}

}  // namespace millrace::io
