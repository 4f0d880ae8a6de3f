// Into a tunnel on the CPU: what is the same in all packets of an SA is worked out once.
#pragma once

#include "millrace/nf/ipsec/esp/outbound.hpp"

namespace millrace::nf::ipsec {

/// The tunnel of an outbound SA of the common kind: over IPv4, with AES in counter mode and HMAC-SHA1-96. Does what
/// `encapsulate` and the parser do, for frames without VLAN tags.
class alignas(32) PreparedTunnel {
public:
    PreparedTunnel() = default;
    PreparedTunnel(const Sa& sa, uint32_t mtu)
        : sa_(&sa), longest_(mtu == 0 ? 0xffffu : smaller(mtu, 0xffffu)), slot_(sa.slot), before_(sa.before),
          common_(is_common(sa)) {
        store_address(addresses_, sa.local, false);
        store_address(addresses_ + 4, sa.remote, false);
        constant_sum_ = checksum_add(0x4500 + (sa.ttl << 8 | ip::kProtocolEsp), addresses_, sizeof addresses_);
    }

    const Sa& sa() const { return *sa_; }
    /// Its SA's.
    uint32_t slot() const { return slot_; }
    uint64_t sequence_of(uint64_t ticket) const { return before_ + ticket + 1; }
    /// Whether it can wrap `packet`, which its SA is for. False leaves the rest to `outbound_route`.
    bool serves(const Packet& packet) const {
        const Layers& layers = packet.layers();
        if (!common_ || layers.l3_offset != eth::kHeaderBytes) return false;
        const uint32_t text_bytes = text_bytes_of(layers.end - eth::kHeaderBytes);
        const uint32_t room = packet.length() + packet.tailroom();
        return kHeadBytes + text_bytes + kSha1IcvBytes <= longest_ && packet.headroom() >= kHeadBytes &&
               packet.present() == packet.length() && room >= eth::kHeaderBytes + text_bytes + kSha1IcvBytes;
    }

    /// Wraps a packet that it serves in everything but encryption and ICV, whose room holds anything.
    Esp encapsulate(Packet& packet, uint32_t sequence) const {
        const uint8_t next_header = packet.layers().is_ipv6() ? ip::kProtocolIpv6 : ip::kProtocolIpv4;
        const uint32_t outer_class = outer_traffic_class(packet, *sa_);
        const uint32_t fragment = outer_dont_fragment(packet, *sa_) ? 0x4000 : 0;
        const uint32_t end = packet.layers().end;
        const uint32_t inner_bytes = end - eth::kHeaderBytes;
        const uint32_t text_bytes = text_bytes_of(inner_bytes);
        const uint32_t outer_bytes = kHeadBytes + text_bytes + kSha1IcvBytes;
        store_trailer(packet.data() + end, text_bytes - inner_bytes - kEspTrailerBytes, next_header);
        packet.reshape(kHeadBytes, eth::kHeaderBytes + outer_bytes);
        uint8_t* frame = packet.data();
        move_ethernet(frame);
        uint8_t* header = frame + eth::kHeaderBytes;
        write_headers(header, outer_class, fragment, outer_bytes, sequence);
        set_outer_layers<Common>(packet, *sa_);
        return {header + ip::kIpv4Bytes, kCtrIvBytes, text_bytes, 0};
    }

private:
    static bool is_common(const Sa& sa) {
        return !sa.ipv6 && sa.cipher == Cipher::aes_ctr && sa.rounds == crypto::kAes128Rounds &&
               sa.auth == Auth::hmac_sha1_96 && !sa.extended && !sa.transport && !sa.in_udp;
    }

    static constexpr uint32_t kHeadBytes = ip::kIpv4Bytes + kEspHeaderBytes + kCtrIvBytes;

    /// A whole number of four bytes (RFC 4303, section 2.4).
    static uint32_t text_bytes_of(uint32_t inner_bytes) { return (inner_bytes + kEspTrailerBytes + 3) & ~3u; }

    /// Up to three bytes of padding and the two of the trailer, by a store of eight: the ICV behind them comes later.
    static void store_trailer(uint8_t* to, uint32_t padding, uint8_t next_header) {
        static constexpr uint64_t kPadding[] = {0, 0x0101, 0x020201, 0x03030201};
        static_assert(kEspTrailerBytes + kSha1IcvBytes >= sizeof(uint64_t));
        store_raw<uint64_t>(to, kPadding[padding] | static_cast<uint64_t>(next_header) << (8 * (padding + 1)));
    }

    /// Addresses from behind the new headers; the type is that of IPv4, whatever was inside.
    static void move_ethernet(uint8_t* frame) {
        const auto addresses = load_raw<uint64_t>(frame + kHeadBytes);
        const auto rest = load_raw<uint32_t>(frame + kHeadBytes + 8);
        store_raw(frame, addresses);
        store_raw(frame + 8, rest);
        store_be16(frame + 12, eth::kTypeIpv4);
    }

    /// `fragment`: flags and offset.
    void write_headers(uint8_t* header, uint32_t outer_class, uint32_t fragment, uint32_t bytes,
                       uint32_t sequence) const {
        const uint32_t identification = sequence & 0xffff;
        const uint16_t sum = checksum_finish(constant_sum_ + outer_class + bytes + identification + fragment);
        store_be64(header, static_cast<uint64_t>(0x4500u | outer_class) << 48 | static_cast<uint64_t>(bytes) << 32 |
                               identification << 16 | fragment);
        store_be32(header + 8, static_cast<uint32_t>(sa_->ttl) << 24 | uint32_t{ip::kProtocolEsp} << 16 | sum);
        store_raw(header + 12, load_raw<uint64_t>(addresses_));
        store_be32(header + 20, sa_->spi);
        store_be32(header + 24, sequence);
        store_be64(header + 28, sequence);
    }

    const Sa* sa_ = nullptr;
    uint32_t longest_ = 0;  ///< outer packet
    uint32_t slot_ = 0;
    uint64_t before_ = 0;  ///< see Sa
    bool common_ = false;
    uint8_t addresses_[8] = {};  ///< source, destination
    uint32_t constant_sum_ = 0;  ///< of the outer header but traffic class, length, identification and flags
};

}  // namespace millrace::nf::ipsec
