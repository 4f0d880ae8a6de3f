// The first rule that matches a packet: the device half of packet classification.
//
// What uses it (the firewall) knows keys and rule indexes only. A further search engine adds its
// tables here and a branch in `find`; a further kind of rule adds its fields to HeaderKey and Rule.
#pragma once

#include "millrace/nf/classify/bit_vector_engine.hpp"

namespace millrace::nf::classify {

inline constexpr uint32_t kNoRule = 0xffffffffu;

struct Classifier {
    struct Tables {
        BitVectorEngine::Tables ipv4, ipv6;
    };

    /// The index of the first rule that matches, kNoRule when none does or the key is not of IP.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const HeaderKey& key, Lanes lanes) {
        if (key.ip_version == 0) return kNoRule;
        return BitVectorEngine::find(key.ip_version == 6 ? tables.ipv6 : tables.ipv4, key, lanes);
    }
};
static_assert(kNoRule == kNoPosition);

}  // namespace millrace::nf::classify
