// What senders on this machine leave to a network card, done here: checksums, and cutting long frames into those of the
// wire.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace millrace::io {

/// What a frame's sender left to a network card, as packet sockets tell it (VIRTIO 1.2, section 5.1.6; the kernel's
/// header is no C++).
struct OffloadHeader {
    static constexpr uint8_t kNeedsChecksum = 1;  ///< of `flags`
    enum Kind : uint8_t { kNone = 0, kTcp4 = 1, kTcp6 = 4, kUdpDatagrams = 5 };
    static constexpr uint8_t kCongestion = 0x80;  ///< beside the kind: TCP's CWR is set in the first segment only

    uint8_t flags = 0;
    uint8_t kind = kNone;
    uint16_t header_bytes = 0;
    uint16_t segment_bytes = 0;  ///< of payload in each segment
    uint16_t checksum_start = 0, checksum_offset = 0;
    bool needs_checksum() const { return (flags & kNeedsChecksum) != 0; }
    bool is_to_be_cut() const { return kind != kNone; }
    /// Bytes of the longest frame that it is cut into, where `offload_of` has filled it in.
    uint32_t longest_frame() const { return uint32_t{header_bytes} + segment_bytes; }
    /// Into how many a frame of so many bytes is.
    uint32_t segments_of(uint32_t bytes) const { return (bytes - header_bytes + segment_bytes - 1u) / segment_bytes; }
};
static_assert(sizeof(OffloadHeader) == 10);

/// What a network card is to be told of a frame of `bytes`, of which `head` has the headers, that it shall cut into
/// segments with so much payload: of TCP or UDP, over IPv4 or IPv6. Nothing where it is none that can be cut: it is
/// malformed, a fragment, of another protocol, in a tunnel, opens or resets a connection, or fits into one segment.
std::optional<OffloadHeader> offload_of(std::span<const uint8_t> head, uint32_t bytes, uint16_t segment_bytes);

/// Where SCTP's CRC lies in its header (RFC 9260, section 3.1). No Internet checksum lies so far behind its header's
/// beginning.
inline constexpr uint32_t kSctpSumAt = 8;

/// Finishes the checksum (of SCTP: the CRC) of what begins at `start` and lies `offset` behind it, where the sum of the
/// pseudo header stands. False, and nothing is written, when that is not within the frame.
bool finish_checksum(std::span<uint8_t> frame, uint32_t start, uint32_t offset);

/// Cuts a TCP or UDP frame over IPv4 or IPv6 that is longer than the wire carries into the frames that a network card
/// would have sent (in TCP: by sequence numbers; in UDP: a datagram each), with all checksums. It may lie in a tunnel,
/// whose headers all of them get.
class Segmenter {
public:
    /// Takes `frame`, which stays where it is until all was written. False when the frame is none that can be cut so:
    /// tunnels in tunnels, other protocols, lengths that contradict each other. Offsets of `offload` count from the
    /// frame's first byte.
    bool start(std::span<const uint8_t> frame, const OffloadHeader& offload);
    /// Whether there is a frame to be written.
    bool is_active() const { return at_ < payload_end_; }
    /// Its length.
    uint32_t next_bytes() const;
    /// Writes it to `out` and goes on to the next.
    void write(uint8_t* out);
    void stop() { at_ = payload_end_; }

private:
    struct Ip {
        uint32_t at = 0, behind = 0;  ///< offsets of the header and of what follows
        bool is_ipv6 = false;
    };
    /// Finds both IP headers where the frame lies in a tunnel, and the transport header of offload at `l4_`.
    bool enter_tunnel(uint32_t size);
    void finish_ip(uint8_t* out, const Ip& ip, uint32_t bytes) const;
    void finish_tunnel(uint8_t* out, uint32_t bytes) const;
    /// Of what is behind `ip`, whose checksum stands `offset` bytes behind that.
    static void finish_sum(uint8_t* out, const Ip& ip, uint32_t bytes, uint8_t protocol, uint32_t offset);
    void finish_transport(uint8_t* out, uint32_t bytes, bool is_first, bool is_last) const;

    const uint8_t* frame_ = nullptr;
    Ip ip_, outer_;  // `outer_.at` is 0 where there is no tunnel
    uint32_t l4_ = 0, payload_ = 0, payload_end_ = 0;
    uint32_t most_ = 0;  // of payload in a segment
    uint32_t at_ = 0;
    bool is_tcp_ = false, is_udp_tunnel_ = false;
};

}  // namespace millrace::io
