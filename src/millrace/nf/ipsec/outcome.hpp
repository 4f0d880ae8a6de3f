// What the IPsec gateway may say of a packet.
#pragma once

#include "millrace/packet/decision.hpp"

namespace millrace::nf::ipsec {

enum Outcome : uint32_t {
    kProtected,
    kUnprotected,
    kBypass,
    kNotIp,
    kDiscardedByPolicy,
    kNoSa,
    kFragment,
    kMalformed,
    kMalformedEsp,
    kBadIcv,
    kReplayed,
    kBadPadding,
    kDummy,
    kBadNextHeader,
    kMalformedInner,
    kSelectorMismatch,
    kBadEcn,
    kMtuExceeded,
    kNoRoom,
    kSequenceExhausted,
    kNatKeepalive,
    kSequenceUnreserved,
    kExpired,
    kTooBigAnswered,
    kOutcomeCount,
};

/// `Decision::detail` of bypass and discard: the policy's number from 0, or this for `default`.
inline constexpr uint32_t kDefaultPolicy = 0x7fffffffu;
/// Set in it when the packet came in clear against the direction of a `protect` policy.
inline constexpr uint32_t kReversed = 0x80000000u;

}  // namespace millrace::nf::ipsec
