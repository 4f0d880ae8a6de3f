// Into a tunnel: outer header, ESP header, IV and trailer (RFC 4303, section 2; RFC 4301, section 5.1.2).
#pragma once

#include "millrace/nf/ipsec/lookup.hpp"
#include "millrace/packet/tunnel_ends.hpp"

namespace millrace::nf::ipsec {

/// Where the parts of an ESP packet lie. They follow each other: ESP header, IV, text, ICV.
struct Esp {
    uint8_t* header = nullptr;
    uint32_t iv_bytes = 0;
    uint32_t text_bytes = 0;  ///< what is encrypted: inner packet, padding, trailer
    uint32_t high = 0;        ///< of an extended sequence number the half that is not sent

    MILLRACE_DEVICE uint8_t* iv() const { return header + kEspHeaderBytes; }
    MILLRACE_DEVICE uint8_t* text() const { return header + kEspHeaderBytes + iv_bytes; }
    MILLRACE_DEVICE uint8_t* icv() const { return text() + text_bytes; }
    /// What the ICV covers, from the header on.
    MILLRACE_DEVICE uint32_t authentic_bytes() const { return kEspHeaderBytes + iv_bytes + text_bytes; }
};

/// That of the outer header. ECN is copied whatever becomes of the DSCP (RFC 6040, section 4.1, normal mode).
MILLRACE_DEVICE uint32_t outer_traffic_class(const Packet& packet, const Sa& sa) {
    const uint32_t inner = traffic_class(packet.l3(), packet.layers().is_ipv6());
    return sa.copy_dscp ? inner : inner & 3;
}

/// Writes the outer header; `bytes` is the length of the whole outer packet.
template <class Kind>
MILLRACE_DEVICE void write_outer(uint8_t* header, const Sa& sa, uint32_t outer_class, bool dont_fragment,
                                 uint32_t bytes, uint32_t sequence) {
    const uint8_t protocol = udp_bytes_of<Kind>(sa) != 0 ? ip::kProtocolUdp : ip::kProtocolEsp;
    if (sa.ipv6) {
        store_be32(header, 0x60000000u | outer_class << 20);
        store_be16(header + 4, static_cast<uint16_t>(bytes - ip::kIpv6Bytes));
        header[6] = protocol;
        header[7] = sa.ttl;
        store_address(header + 8, sa.local, true);
        store_address(header + 24, sa.remote, true);
        return;
    }
    // The sequence number is as unique an identification as 16 bits allow (RFC 6864, section 4.3).
    uint32_t words[5] = {0x45000000u | outer_class << 16 | bytes, sequence << 16 | (dont_fragment ? 0x4000u : 0u),
                         static_cast<uint32_t>(sa.ttl) << 24 | uint32_t{protocol} << 16, swap32(sa.local.words[0]),
                         swap32(sa.remote.words[0])};
    uint32_t sum = 0;
    for (const uint32_t word : words) sum += (word >> 16) + (word & 0xffff);
    words[2] |= checksum_finish(sum);
    store_be32s(header, words);
}

/// Writes the UDP header of RFC 3948, section 2.1, without a checksum. Over IPv6 write_udp_sum follows.
MILLRACE_DEVICE_CALL void write_udp(uint8_t* header, const Sa& sa, uint16_t port, uint32_t bytes) {
    store_be16(header, port);
    store_be16(header + 2, sa.remote_port);
    store_be16(header + 4, static_cast<uint16_t>(bytes));
    store_be16(header + 6, 0);
}

/// Writes the IV of `sequence`. In CTR it is the number itself, which is unique (RFC 3686, section 4).
/// In CBC it must not be predictable (RFC 3602, section 3): the number, encrypted under a key of its
/// own (NIST SP 800-38A, appendix C).
template <class Kind>
MILLRACE_DEVICE_CALL void write_encrypted_iv(uint8_t* iv, const Sa& sa, const crypto::AesTables& aes,
                                             uint64_t sequence) {
    const crypto::AesBlock number{{0, 0, static_cast<uint32_t>(sequence >> 32), static_cast<uint32_t>(sequence)}};
    crypto::store_block(iv, crypto::aes_encrypt(aes, sa.iv_keys, rounds_of<Kind>(sa), number));
}
template <class Kind>
MILLRACE_DEVICE void write_iv(uint8_t* iv, const Sa& sa, const crypto::AesTables& aes, uint64_t sequence) {
    if (is_gcm<Kind>(sa) || sa.cipher == Cipher::aes_ctr) return store_be64(iv, sequence);
    if (sa.cipher == Cipher::aes_cbc) write_encrypted_iv<Kind>(iv, sa, aes, sequence);
}

/// The first counter block of CTR (RFC 3686, section 4), and of GCM (RFC 4106, section 4; SP 800-38D, section 7.1):
/// nonce, IV, and a count from 1.
MILLRACE_DEVICE crypto::AesBlock counter_block(const Sa& sa, const uint8_t* iv) {
    return {{sa.nonce, load_be32(iv), load_be32(iv + 4), 1}};
}

/// The layers of what was wrapped in a tunnel of `sa`, out of those of what is inside: as parsing would find them.
template <class Kind>
MILLRACE_DEVICE void set_outer_layers(Packet& packet, const Sa& sa) {
    const uint32_t udp_bytes = udp_bytes_of<Kind>(sa);
    Layers& layers = packet.layers_to_set();
    layers.end = packet.length();
    layers.ether_type = sa.ipv6 ? eth::kTypeIpv6 : eth::kTypeIpv4;
    layers.l4_offset = static_cast<uint16_t>(layers.l3_offset + (sa.ipv6 ? ip::kIpv6Bytes : ip::kIpv4Bytes));
    layers.payload_offset = static_cast<uint16_t>(layers.l4_offset + udp_bytes);
    layers.protocol = udp_bytes != 0 ? ip::kProtocolUdp : ip::kProtocolEsp;
    const uint32_t flags = (sa.ipv6 ? Layers::kIpv6 : Layers::kIpv4) | (udp_bytes != 0 ? Layers::kUdp : 0);
    layers.flags = static_cast<uint8_t>(flags);
}

/// The sequence number that goes with a ticket.
MILLRACE_DEVICE uint64_t sequence_of(const Sa& sa, uint64_t ticket) { return sa.before + ticket + 1; }

/// Whether an SA may not send a packet with this sequence number: why, or kProtected.
template <class Kind>
MILLRACE_DEVICE uint32_t may_send(const Tables& tables, const Sa& sa, uint64_t sequence) {
    if (sequence > last_sequence_of<Kind>(sa)) return kSequenceExhausted;
    if (tables.limits.empty() || sequence <= tables.limits[sa.slot]) return kProtected;
    return tables.limits[sa.slot] == 0 ? kExpired : kSequenceUnreserved;
}

/// Makes room for the packet of `route`, which says that there is room, and tells where the parts of ESP lie in it.
template <class Kind>
MILLRACE_DEVICE Esp make_room(Packet& packet, const Sa& sa, const Route& route, uint64_t sequence) {
    const uint32_t end = packet.layers().end;
    packet.shrink_back(packet.length() - end);
    packet.grow_front(route.head);
    packet.grow_back(route.padding + kEspTrailerBytes + icv_bytes_of<Kind>(sa));
    Esp esp;
    esp.iv_bytes = iv_bytes_of<Kind>(sa);
    esp.header = packet.data() + route.at + route.head - kEspHeaderBytes - esp.iv_bytes;
    esp.text_bytes = end - route.at + route.padding + kEspTrailerBytes;
    if (is_extended<Kind>(sa)) esp.high = static_cast<uint32_t>(sequence >> 32);
    return esp;
}

/// Writes ESP header, IV, padding and trailer. By one lane.
template <class Kind>
MILLRACE_DEVICE void write_esp(const Esp& esp, const Sa& sa, const crypto::AesTables& aes, uint32_t padding_bytes,
                               uint8_t next_header, uint64_t sequence) {
    store_be32(esp.header, sa.spi);
    store_be32(esp.header + 4, static_cast<uint32_t>(sequence));
    write_iv<Kind>(esp.iv(), sa, aes, sequence);
    uint8_t* padding = esp.text() + esp.text_bytes - kEspTrailerBytes - padding_bytes;
    for (uint32_t i = 0; i < padding_bytes; ++i) padding[i] = static_cast<uint8_t>(i + 1);
    padding[padding_bytes] = static_cast<uint8_t>(padding_bytes);
    padding[padding_bytes + 1] = next_header;
}

/// Wraps the packet of `route` in a tunnel, in everything but encryption and ICV, whose room stays unwritten.
template <class Kind, class Lanes>
MILLRACE_DEVICE Esp encapsulate(Packet& packet, const Tables& tables, const Route& route, uint64_t sequence,
                                Lanes lanes) {
    const Sa& sa = tables.sas[route.detail];
    const uint32_t outer_class = outer_traffic_class(packet, sa);
    const bool dont_fragment = outer_dont_fragment(packet, sa);
    const uint32_t l2_bytes = route.at;
    const uint8_t next_header = packet.layers().is_ipv6() ? ip::kProtocolIpv6 : ip::kProtocolIpv4;
    const Esp esp = make_room<Kind>(packet, sa, route, sequence);
    uint8_t* frame = packet.data();
    lanes.once([&] {
        move_bytes_down(frame, frame + route.head, l2_bytes);
        store_be16(frame + l2_bytes - 2, sa.ipv6 ? eth::kTypeIpv6 : eth::kTypeIpv4);
        write_outer<Kind>(frame + l2_bytes, sa, outer_class, dont_fragment, packet.length() - l2_bytes,
                          static_cast<uint32_t>(sequence));
        if (udp_bytes_of<Kind>(sa) != 0)
            write_udp(esp.header - udp::kHeaderBytes, sa, tables.udp_port,
                      static_cast<uint32_t>(frame + packet.length() - esp.header) + udp::kHeaderBytes);
        write_esp<Kind>(esp, sa, tables.aes(), route.padding, next_header, sequence);
    });
    set_outer_layers<Kind>(packet, sa);
    return esp;
}

template <class Kind, class Lanes>
MILLRACE_DEVICE void encrypt(const Esp& esp, const Sa& sa, const crypto::AesTables& aes, Lanes lanes) {
    if (sa.cipher == Cipher::aes_ctr) {
        crypto::aes_ctr(aes, sa.keys, rounds_of<Kind>(sa), counter_block(sa, esp.iv()), esp.text(), esp.text_bytes,
                        lanes);
    } else if (sa.cipher == Cipher::aes_cbc) {
        crypto::aes_cbc_encrypt(aes, sa.keys, rounds_of<Kind>(sa), esp.iv(), esp.text(),
                                esp.text_bytes / crypto::kAesBlockBytes, lanes);
    }
}

/// The ESP packet that a parsed packet is, which this SA has wrapped as number `sequence`.
template <class Kind>
MILLRACE_DEVICE Esp sent_esp(const Packet& packet, const Sa& sa, uint64_t sequence) {
    Esp esp;
    esp.header = packet.payload();
    esp.iv_bytes = iv_bytes_of<Kind>(sa);
    esp.text_bytes = packet.payload_bytes() - kEspHeaderBytes - esp.iv_bytes - icv_bytes_of<Kind>(sa);
    if (is_extended<Kind>(sa)) esp.high = static_cast<uint32_t>(sequence >> 32);
    return esp;
}

/// Writes the checksum of the UDP header before a finished ESP packet over IPv6, where receivers ask for one (RFC 8200,
/// section 8.1). By one lane.
MILLRACE_DEVICE_CALL void write_udp_sum(const Packet& packet) {
    const uint32_t bytes = packet.layers().end - packet.layers().l4_offset;
    const uint32_t pseudo = checksum_add(bytes + ip::kProtocolUdp, packet.l3() + 8, 32);
    const uint16_t sum = checksum_finish(checksum_add(pseudo, packet.l4(), bytes));
    store_be16(packet.l4() + 6, sum == 0 ? uint16_t{0xffff} : sum);
}

/// The words of an ICV, as integers.
struct Icv {
    uint32_t words[kMaxIcvBytes / 4];
};
/// Runs `f(i)` for each word of the ICV of an SA that has one. Unrolled, so that the words stay in registers.
template <class Kind, class F>
MILLRACE_DEVICE void for_icv_words(const Sa& sa, F&& f) {
    constexpr unsigned kWords = (Kind::kLongIcvs ? kMaxIcvBytes : kSha1IcvBytes) / 4;
#if MILLRACE_GPU
#pragma unroll
#endif
    for (unsigned i = 0; i < kWords; ++i)
        if (!Kind::kLongIcvs || 4 * i < sa.icv_bytes) f(i);
}

/// The HMAC of an ESP packet. Of an extended sequence number the high half comes behind the packet (RFC 4303, section
/// 2.2.1): it must stand in the ICV's place.
template <class Kind>
MILLRACE_DEVICE Icv icv_of(const Esp& esp, const Sa& sa) {
    const uint32_t bytes = esp.authentic_bytes() + (is_extended<Kind>(sa) ? 4 : 0);
    Icv icv{};
    if (Kind::kSha256 && sa.auth == Auth::hmac_sha256_128) {
        const crypto::Sha256 digest = crypto::hmac(sa.hmac_sha256, esp.header, bytes);
        for (unsigned i = 0; i < 4; ++i) icv.words[i] = digest.h[i];
    } else {
        const crypto::Sha1 digest = crypto::hmac(sa.hmac_sha1, esp.header, bytes);
        for (unsigned i = 0; i < 3; ++i) icv.words[i] = digest.h[i];
    }
    return icv;
}

template <class Kind>
MILLRACE_DEVICE void store_icv(const Esp& esp, const Sa& sa, const Icv& icv) {
    for_icv_words<Kind>(sa, [&](unsigned i) { store_be32(esp.icv() + 4 * i, icv.words[i]); });
}

/// Writes the ICV of a packet that is encrypted. By one lane.
template <class Kind>
MILLRACE_DEVICE void authenticate(const Esp& esp, const Sa& sa) {
    if (Kind::kOnlyGcm || sa.auth == Auth::none) return;
    if (is_extended<Kind>(sa)) store_be32(esp.icv(), esp.high);
    store_icv<Kind>(esp, sa, icv_of<Kind>(esp, sa));
}

}  // namespace millrace::nf::ipsec
