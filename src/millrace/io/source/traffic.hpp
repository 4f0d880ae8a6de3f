// Synthetic traffic: what its frames look like, and the frames.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/text/config.hpp"

namespace millrace::io {

/// A description of traffic, as the options of a `source` port give it.
struct TrafficSpec {
    struct Size {
        uint32_t bytes = 64;  ///< of the frame, from the Ethernet header on, without CRC
        double weight = 1;
    };
    enum class Protocol { udp, tcp };
    enum class Payload { random, zero, text, pcap, file };
    /// Which flow the next frame is of: each in turn, or by chance and Zipf's law, one of rank r r times more seldom
    /// than the first.
    enum class Popularity { even, zipf };
    struct PortRange {
        uint16_t first, last;
    };

    std::vector<Size> sizes{Size{}};
    uint32_t flows = 1024;  ///< distinct five-tuples
    Popularity popularity = Popularity::even;
    Protocol protocol = Protocol::udp;
    Prefix src{}, dst{};
    PortRange src_ports{1024, 65535}, dst_ports{53, 53};
    std::array<uint8_t, 6> src_mac{2, 0, 0, 0, 0, 1}, dst_mac{2, 0, 0, 0, 0, 2};
    Payload payload = Payload::random;
    std::string payload_file;  ///< for pcap and file
    Location payload_where;
    uint64_t seed = 1;
    /// A capture whose frames are sent in place of made-up ones, cut frames filled up; those above
    /// `replay_longest_bytes`, of which captures behind an offload have many, are left out. Empty: none.
    std::string replay_file;
    Location replay_where;
    uint32_t replay_longest_bytes = 1518;

    TrafficSpec();
    /// Reads the keys size, flows, popularity, protocol, addresses, ports, macs, payload and seed, or replay alone, of
    /// `options`.
    static TrafficSpec read(const Config& options);
    static const std::vector<std::string>& keys();

    uint32_t header_bytes() const;
    uint32_t longest_bytes() const;
};

/// A frame ready to be copied out: its first bytes, and where the rest lies in the payload stream.
struct alignas(64) FrameTemplate {
    static constexpr uint32_t kHeadBytes = 112;
    uint8_t head[kHeadBytes];
    uint32_t length;      ///< of the frame
    uint32_t payload_at;  ///< in TrafficFrames::stream, of the byte at frame offset kHeadBytes
    uint64_t reserved;
};
static_assert(sizeof(FrameTemplate) == 128);

/// The frames of one queue. They are sent in turn, over and over.
struct TrafficFrames {
    std::vector<FrameTemplate> templates;
    std::vector<uint8_t> stream;  ///< payload bytes

    /// Writes template `index` as a whole frame into `out`, which has room for the longest frame and for
    /// FrameTemplate::kHeadBytes.
    void write(size_t index, uint8_t* out) const;
};

/// Queue `queue` of `queues` sends flows queue, queue + queues, …: a flow stays on its queue. Lengths and
/// checksums are right; equal arguments give equal frames. With `one_payload`, byte i of every frame behind
/// the headers is the same, so that a buffer that held one frame needs only new headers to hold another.
/// Frames of a capture go to queues by a hash of their flow; a queue may get none. Throws ConfigError when a file
/// cannot be used.
TrafficFrames make_frames(const TrafficSpec& spec, unsigned queue, unsigned queues, bool one_payload);

}  // namespace millrace::io
