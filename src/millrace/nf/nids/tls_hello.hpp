// What a TLS record says of a server.
#pragma once

#include "millrace/packet/bytes.hpp"

namespace millrace::nf::nids {

/// Bytes [at, at + bytes) of a payload, or nothing.
struct Part {
    uint32_t at = 0;
    uint32_t bytes = 0;
    bool present = false;
};

/// The first host name of a TLS ClientHello (RFC 8446, section 4.1.2; RFC 6066, section 3) that the payload begins
/// with.
MILLRACE_DEVICE_CALL Part find_tls_sni(const uint8_t* data, uint32_t bytes) {
    if (bytes < 44 || data[0] != 0x16 || data[1] != 3 || data[5] != 1) return {};
    uint32_t at = 5 + 4 + 2 + 32;  // record, handshake header, version, random
    at += 1u + data[at];           // session id
    if (at + 2 > bytes) return {};
    at += 2u + load_be16(data + at);  // cipher suites
    if (at + 1 > bytes) return {};
    at += 1u + data[at];  // compression methods
    if (at + 2 > bytes) return {};
    const uint32_t end = smaller(at + 2u + load_be16(data + at), bytes);
    at += 2;
    while (at + 4 <= end) {
        const uint32_t type = load_be16(data + at);
        const uint32_t length = load_be16(data + at + 2);
        at += 4;
        if (type == 0) {
            if (length < 5 || at + 5 > end || data[at + 2] != 0) return {};
            const uint32_t name = load_be16(data + at + 3);
            if (at + 5 + name > end) return {};
            return {at + 5, name, true};
        }
        at += length;
    }
    return {};
}

MILLRACE_DEVICE bool looks_like_tls(const uint8_t* data, uint32_t bytes) {
    return bytes >= 5 && data[0] >= 0x14 && data[0] <= 0x17 && data[1] == 3 && data[2] <= 4;
}

}  // namespace millrace::nf::nids
