// Into a tunnel: outer header, ESP header, IV and trailer (RFC 4303, section 2; RFC 4301, section 5.1.2).
#pragma once

#include "millrace/nf/ipsec/lookup.hpp"

namespace millrace::nf::ipsec {

/// Where the parts of an ESP packet lie. They follow each other: ESP header, IV, text, ICV.
struct Esp {
    uint8_t* header = nullptr;
    uint32_t iv_bytes = 0;
    uint32_t text_bytes = 0;  ///< what is encrypted: inner packet, padding, trailer

    MILLRACE_DEVICE uint8_t* iv() const { return header + kEspHeaderBytes; }
    MILLRACE_DEVICE uint8_t* text() const { return header + kEspHeaderBytes + iv_bytes; }
    MILLRACE_DEVICE uint8_t* icv() const { return text() + text_bytes; }
    /// What the ICV covers, from the header on.
    MILLRACE_DEVICE uint32_t authentic_bytes() const { return kEspHeaderBytes + iv_bytes + text_bytes; }
};

/// Traffic class of an IP header: DSCP and ECN.
MILLRACE_DEVICE uint8_t traffic_class(const uint8_t* header, bool ipv6) {
    return ipv6 ? static_cast<uint8_t>(load_be16(header) >> 4) : header[1];
}

/// That of the outer header. ECN is copied whatever becomes of the DSCP (RFC 6040, section 4.1, normal mode).
MILLRACE_DEVICE uint32_t outer_traffic_class(const Packet& packet, const Sa& sa) {
    const uint32_t inner = traffic_class(packet.l3(), packet.layers().is_ipv6());
    return sa.copy_dscp ? inner : inner & 3;
}

/// Writes the outer header; `bytes` is the length of the whole outer packet.
MILLRACE_DEVICE void write_outer(uint8_t* header, const Sa& sa, uint32_t outer_class, bool dont_fragment,
                                 uint32_t bytes, uint32_t sequence) {
    if (sa.ipv6) {
        store_be32(header, 0x60000000u | outer_class << 20);
        store_be16(header + 4, static_cast<uint16_t>(bytes - ip::kIpv6Bytes));
        header[6] = ip::kProtocolEsp;
        header[7] = sa.ttl;
        store_address(header + 8, sa.local, true);
        store_address(header + 24, sa.remote, true);
        return;
    }
    // The sequence number is as unique an identification as 16 bits allow (RFC 6864, section 4.3).
    uint32_t words[5] = {0x45000000u | outer_class << 16 | bytes, sequence << 16 | (dont_fragment ? 0x4000u : 0u),
                         static_cast<uint32_t>(sa.ttl) << 24 | uint32_t{ip::kProtocolEsp} << 16,
                         swap32(sa.local.words[0]), swap32(sa.remote.words[0])};
    uint32_t sum = 0;
    for (const uint32_t word : words) sum += (word >> 16) + (word & 0xffff);
    words[2] |= checksum_finish(sum);
    store_be32s(header, words);
}

/// Writes the IV of `sequence`. In CTR it is the number itself, which is unique (RFC 3686, section 4).
/// In CBC it must not be predictable (RFC 3602, section 3): the number, encrypted under a key of its
/// own (NIST SP 800-38A, appendix C).
MILLRACE_DEVICE_CALL void write_encrypted_iv(uint8_t* iv, const Sa& sa, const crypto::AesTables& aes,
                                             uint64_t sequence) {
    const crypto::AesBlock number{{0, 0, static_cast<uint32_t>(sequence >> 32), static_cast<uint32_t>(sequence)}};
    crypto::store_block(iv, crypto::aes_encrypt(aes, sa.iv_keys, crypto::kAes128Rounds, number));
}
MILLRACE_DEVICE void write_iv(uint8_t* iv, const Sa& sa, const crypto::AesTables& aes, uint64_t sequence) {
    if (sa.cipher == Cipher::aes_ctr) store_be64(iv, sequence);
    if (sa.cipher == Cipher::aes_cbc) write_encrypted_iv(iv, sa, aes, sequence);
}

/// The first counter block of CTR (RFC 3686, section 4): nonce, IV, and a count from 1.
MILLRACE_DEVICE crypto::AesBlock counter_block(const Sa& sa, const uint8_t* iv) {
    return {{sa.nonce, load_be32(iv), load_be32(iv + 4), 1}};
}

/// The layers of what was wrapped in a tunnel of `sa`, out of those of what is inside: as parsing would find them.
MILLRACE_DEVICE void set_outer_layers(Packet& packet, const Sa& sa) {
    Layers& layers = packet.layers_to_set();
    layers.end = packet.length();
    layers.ether_type = sa.ipv6 ? eth::kTypeIpv6 : eth::kTypeIpv4;
    layers.l4_offset = static_cast<uint16_t>(layers.l3_offset + (sa.ipv6 ? ip::kIpv6Bytes : ip::kIpv4Bytes));
    layers.payload_offset = layers.l4_offset;
    layers.protocol = ip::kProtocolEsp;
    layers.flags = sa.ipv6 ? Layers::kIpv6 : Layers::kIpv4;
}

/// Wraps the packet of `route` in everything but encryption and ICV, whose room stays unwritten.
/// The route says that there is room.
template <class Lanes>
MILLRACE_DEVICE Esp encapsulate(Packet& packet, const Tables& tables, const Route& route, uint32_t sequence,
                                Lanes lanes) {
    const Layers layers = packet.layers();
    const Sa& sa = tables.sas[route.detail];
    const uint32_t outer_class = outer_traffic_class(packet, sa);
    const bool dont_fragment = outer_dont_fragment(packet, sa);
    const uint32_t l2_bytes = layers.l3_offset;
    const uint32_t inner_bytes = layers.end - l2_bytes;
    const uint8_t next_header = layers.is_ipv6() ? ip::kProtocolIpv6 : ip::kProtocolIpv4;
    packet.shrink_back(packet.length() - layers.end);
    packet.grow_front(route.head);
    packet.grow_back(route.padding + kEspTrailerBytes + sa.icv_bytes());
    uint8_t* frame = packet.data();
    Esp esp;
    esp.header = frame + l2_bytes + route.head - kEspHeaderBytes - sa.iv_bytes();
    esp.iv_bytes = sa.iv_bytes();
    esp.text_bytes = inner_bytes + route.padding + kEspTrailerBytes;
    lanes.once([&] {
        move_bytes_down(frame, frame + route.head, l2_bytes);
        store_be16(frame + l2_bytes - 2, sa.ipv6 ? eth::kTypeIpv6 : eth::kTypeIpv4);
        write_outer(frame + l2_bytes, sa, outer_class, dont_fragment, packet.length() - l2_bytes, sequence);
        store_be32(esp.header, sa.spi);
        store_be32(esp.header + 4, sequence);
        write_iv(esp.iv(), sa, tables.aes(), sequence);
        uint8_t* padding = esp.text() + inner_bytes;
        for (uint32_t i = 0; i < route.padding; ++i) padding[i] = static_cast<uint8_t>(i + 1);
        padding[route.padding] = static_cast<uint8_t>(route.padding);
        padding[route.padding + 1] = next_header;
    });
    set_outer_layers(packet, sa);
    return esp;
}

template <class Lanes>
MILLRACE_DEVICE void encrypt(const Esp& esp, const Sa& sa, const crypto::AesTables& aes, Lanes lanes) {
    if (sa.cipher == Cipher::aes_ctr) {
        crypto::aes_ctr(aes, sa.keys, crypto::kAes128Rounds, counter_block(sa, esp.iv()), esp.text(), esp.text_bytes,
                        lanes);
    } else if (sa.cipher == Cipher::aes_cbc) {
        crypto::aes_cbc_encrypt(aes, sa.keys, crypto::kAes128Rounds, esp.iv(), esp.text(),
                                esp.text_bytes / crypto::kAesBlockBytes, lanes);
    }
}

/// The ESP packet that a parsed packet is, which this SA has wrapped.
MILLRACE_DEVICE Esp sent_esp(const Packet& packet, const Sa& sa) {
    Esp esp;
    esp.header = packet.payload();
    esp.iv_bytes = sa.iv_bytes();
    esp.text_bytes = packet.payload_bytes() - kEspHeaderBytes - sa.iv_bytes() - sa.icv_bytes();
    return esp;
}

MILLRACE_DEVICE void authenticate(const Esp& esp, const Sa& sa) {
    if (sa.auth == Auth::none) return;
    const crypto::Sha1 digest = crypto::hmac_sha1(sa.hmac, esp.header, esp.authentic_bytes());
    for (unsigned i = 0; i < kIcvBytes / 4; ++i) store_be32(esp.icv() + 4 * i, digest.h[i]);
}

}  // namespace millrace::nf::ipsec
