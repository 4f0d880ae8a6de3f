// What the security associations of a gateway may ask for. What they may not is not in its device half.
#pragma once

namespace millrace::nf::ipsec {

/// AES-128 in counter mode and CBC, HMAC-SHA1-96; tunnels with sequence numbers of 32 bits.
struct Common {
    static constexpr bool kLongKeys = false;   ///< AES-256
    static constexpr bool kSha256 = false;     ///< HMAC-SHA-256-128
    static constexpr bool kLongIcvs = false;   ///< beyond those of HMAC-SHA1-96
    static constexpr bool kGcm = false;        ///< AES-GCM
    static constexpr bool kOnlyGcm = false;    ///< nothing else
    static constexpr bool kExtended = false;   ///< extended sequence numbers
    static constexpr bool kTransport = false;  ///< transport mode
    static constexpr bool kUdp = false;        ///< ESP in UDP
    static constexpr bool kBytes = false;      ///< lifetimes by bytes
    static constexpr bool kTells = false;      ///< senders by ICMP of what is too long
};

/// Tunnels with AES-GCM.
struct OnlyGcm : Common {
    static constexpr bool kLongKeys = true, kLongIcvs = true, kGcm = true, kOnlyGcm = true, kExtended = true;
};

/// Everything.
struct Complete : Common {
    static constexpr bool kLongKeys = true, kSha256 = true, kLongIcvs = true, kGcm = true, kExtended = true,
                          kTransport = true, kUdp = true, kBytes = true, kTells = true;
};

}  // namespace millrace::nf::ipsec
