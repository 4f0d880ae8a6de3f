// ESP with AES-GCM (RFC 4106): cipher and ICV in one.
#pragma once

#include "millrace/nf/ipsec/esp/outbound.hpp"

namespace millrace::nf::ipsec {

/// GHASH of an encrypted packet, its ESP header and the high half of an extended sequence number (RFC 4106, section 5).
template <class Kind, class Lanes>
MILLRACE_DEVICE crypto::AesBlock ghash_of(const Esp& esp, const Sa& sa, const Tables& tables, Lanes lanes) {
    const uint32_t sequence = load_be32(esp.header + 4);
    const bool extended = is_extended<Kind>(sa);
    const crypto::AesBlock aad{{sa.spi, extended ? esp.high : sequence, extended ? sequence : 0, 0}};
    return crypto::ghash(tables.ghash[sa.ghash], aad, extended ? 12 : 8, esp.text(), esp.text_bytes, lanes);
}

/// Encrypts or decrypts; returns what masks the ICV.
template <class Kind, class Lanes>
MILLRACE_DEVICE crypto::AesBlock gcm_crypt(const Esp& esp, const Sa& sa, const Tables& tables, Lanes lanes) {
    return crypto::gcm_crypt(tables.aes(), sa.keys, rounds_of<Kind>(sa), counter_block(sa, esp.iv()), esp.text(),
                             esp.text_bytes, lanes);
}

MILLRACE_DEVICE Icv icv_of_tag(const crypto::AesBlock& tag) {
    return {{tag.words[0], tag.words[1], tag.words[2], tag.words[3]}};
}

/// Encrypts a wrapped packet and writes its ICV.
template <class Kind, class Lanes>
MILLRACE_DEVICE void seal_gcm(const Esp& esp, const Sa& sa, const Tables& tables, Lanes lanes) {
    const crypto::AesBlock mask = gcm_crypt<Kind>(esp, sa, tables, lanes);
    const crypto::AesBlock tag = ghash_of<Kind>(esp, sa, tables, lanes) ^ mask;
    lanes.once([&] { store_icv<Kind>(esp, sa, icv_of_tag(tag)); });
}

/// Whether the ICV of a packet differs from the one computed, in time that does not depend on where.
template <class Kind>
MILLRACE_DEVICE bool differs(const Esp& esp, const Sa& sa, const Icv& icv) {
    uint32_t difference = 0;
    for_icv_words<Kind>(sa, [&](unsigned i) { difference |= icv.words[i] ^ load_be32(esp.icv() + 4 * i); });
    return difference != 0;
}

/// Decrypts a packet whose ICV is right. Another one stays as it is; false.
template <class Kind, class Lanes>
MILLRACE_DEVICE bool open_gcm(const Esp& esp, const Sa& sa, const Tables& tables, Lanes lanes) {
    const crypto::AesBlock hash = ghash_of<Kind>(esp, sa, tables, lanes);
    // The mask comes with the text's key stream, so that a right packet is decrypted at once. The loop undoes it for a
    // forged one.
    for (bool forged = false;; forged = true) {
        const crypto::AesBlock mask = gcm_crypt<Kind>(esp, sa, tables, lanes);
        if (forged) return false;
        if (!differs<Kind>(esp, sa, icv_of_tag(hash ^ mask))) return true;
    }
}

}  // namespace millrace::nf::ipsec
