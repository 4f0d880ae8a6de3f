// Out of a tunnel: verify, decrypt, strip, and look at what was inside (RFC 4303, section 3.4; RFC 4301, section 5.2).
#pragma once

#include "millrace/nf/ipsec/esp/gcm.hpp"
#include "millrace/nf/ipsec/esp/replay.hpp"
#include "millrace/nf/ipsec/esp/transport.hpp"

namespace millrace::nf::ipsec {

/// The parts of the ESP packet that `packet` is, as its route found it. `top` is its SA's highest sequence number so
/// far, where those are extended.
template <class Kind>
MILLRACE_DEVICE Esp received_esp(const Packet& packet, const Sa& sa, uint64_t top) {
    const uint32_t at = packet.layers().l4_offset + udp_bytes_of<Kind>(sa);
    Esp esp;
    esp.header = packet.data() + at;
    esp.iv_bytes = iv_bytes_of<Kind>(sa);
    esp.text_bytes = packet.layers().end - at - kEspHeaderBytes - esp.iv_bytes - icv_bytes_of<Kind>(sa);
    if (is_extended<Kind>(sa)) esp.high = high_half(load_be32(esp.header + 4), top);
    return esp;
}

/// Whether the HMAC of a packet is not what its ICV says. What lies in the ICV's place is the same before and after.
template <class Kind, class Lanes>
MILLRACE_DEVICE bool forged(const Esp& esp, const Sa& sa, Lanes lanes) {
    if (sa.auth == Auth::none) return false;
    if (!is_extended<Kind>(sa))
        return lanes.any(1, [&](uint32_t) { return differs<Kind>(esp, sa, icv_of<Kind>(esp, sa)); });
    const auto first = load_be32(esp.icv());
    lanes.once([&] { store_be32(esp.icv(), esp.high); });
    PerLane<Icv, Lanes> icv;
    lanes.once([&] {
        icv.of(0) = icv_of<Kind>(esp, sa);
        store_be32(esp.icv(), first);
    });
    return lanes.any(1, [&](uint32_t) { return differs<Kind>(esp, sa, icv.of(0)); });
}

template <class Kind, class Lanes>
MILLRACE_DEVICE void decrypt(const Esp& esp, const Sa& sa, const crypto::AesTables& aes, Lanes lanes) {
    if (sa.cipher == Cipher::aes_ctr) {
        crypto::aes_ctr(aes, sa.keys, rounds_of<Kind>(sa), counter_block(sa, esp.iv()), esp.text(), esp.text_bytes,
                        lanes);
    } else if (sa.cipher == Cipher::aes_cbc) {
        crypto::aes_cbc_decrypt(aes, sa.inverse_keys, rounds_of<Kind>(sa), esp.iv(), esp.text(),
                                esp.text_bytes / crypto::kAesBlockBytes, lanes);
    }
}

/// What the trailer says: kUnprotected and the bytes of the inner packet, or what is wrong with it.
template <class Kind, class Lanes>
MILLRACE_DEVICE uint32_t read_trailer(const Esp& esp, const Sa& sa, uint32_t& inner_bytes, Lanes lanes) {
    const uint8_t* end = esp.text() + esp.text_bytes;
    const uint32_t padding = end[-2];
    if (padding + kEspTrailerBytes > esp.text_bytes) return kBadPadding;
    inner_bytes = esp.text_bytes - kEspTrailerBytes - padding;
    const uint8_t* first = esp.text() + inner_bytes;
    if (lanes.any(padding, [&](uint32_t i) { return first[i] != static_cast<uint8_t>(i + 1); })) return kBadPadding;
    const uint8_t next_header = end[-1];
    if (next_header == ip::kProtocolNoNext) return kDummy;
    if (is_transport<Kind>(sa)) return kUnprotected;
    if (next_header != ip::kProtocolIpv4 && next_header != ip::kProtocolIpv6) return kBadNextHeader;
    return kUnprotected;
}

/// Notes in the packet's ticket, which nobody else needs any more, what `commit` wants of an ESP packet
/// whose ICV is right: it cannot read that from the packet once it is out of its tunnel.
MILLRACE_DEVICE void mark_verified(Packet& packet, const Sa& sa, const Esp& esp) {
    const uint64_t high = esp.high & ((1u << kHighBits) - 1);
    packet.set_ticket(kVerified | high << (32 + kSlotBits) | static_cast<uint64_t>(sa.slot) << 32 |
                      load_be32(esp.header + 4));
}

/// Takes the outer headers and the trailer off and parses what is left.
template <class Lanes>
MILLRACE_DEVICE void decapsulate(Packet& packet, const Esp& esp, uint32_t inner_bytes, Lanes lanes) {
    const bool ipv6 = esp.text()[esp.text_bytes - 1] == ip::kProtocolIpv6;
    // What the sender hid the length with (RFC 4303, section 2.7) goes, too.
    unwrap_ip(packet, static_cast<uint32_t>(esp.text() - packet.data()), inner_bytes, ipv6, lanes);
}

/// Whether the SA may carry what was inside (RFC 4301, section 5.2, step 4).
MILLRACE_DEVICE bool selected(const Packet& packet, const Tables& tables, const Sa& sa) {
    const Flow flow = flow_of(packet);
    for (uint32_t i = 0; i < sa.selector_count; ++i)
        if (matches(tables.selectors[sa.first_selector + i], flow)) return true;
    return false;
}

/// Everything behind decryption; returns the outcome.
template <class Kind, class Lanes>
MILLRACE_DEVICE uint32_t open_inner(Packet& packet, const Tables& tables, const Sa& sa, const Esp& esp, Lanes lanes) {
    uint32_t inner_bytes = 0;
    const uint32_t trailer = read_trailer<Kind>(esp, sa, inner_bytes, lanes);
    if (trailer != kUnprotected) return trailer;
    if (is_transport<Kind>(sa)) {
        remove_esp<Kind>(packet, esp, inner_bytes, lanes);
        if (packet.layers().malformed != Malformed::no) return kMalformedInner;
        return selected(packet, tables, sa) ? kUnprotected : kSelectorMismatch;
    }
    const uint8_t outer = traffic_class(packet.l3(), packet.layers().is_ipv6());
    decapsulate(packet, esp, inner_bytes, lanes);
    if (packet.layers().malformed != Malformed::no) return kMalformedInner;
    if (!selected(packet, tables, sa)) return kSelectorMismatch;
    return combine_ecn(packet, outer, lanes) ? kUnprotected : kBadEcn;
}

}  // namespace millrace::nf::ipsec
