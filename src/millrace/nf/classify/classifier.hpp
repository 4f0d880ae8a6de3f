// The first rule that matches a packet: the device half of packet classification by 5-tuples.
//
// What uses it (the firewall) knows keys and rule indexes only. Each address family has an engine of
// its own; a further one adds its tables here or in search.hpp, and a branch in `find`.
#pragma once

#include "millrace/nf/classify/bit_vector/bit_vector_engine.hpp"
#include "millrace/nf/classify/search.hpp"

namespace millrace::nf::classify {

struct Classifier {
    /// The rules of one address family; the tables of other engines than its own are empty.
    template <unsigned Words>
    struct Family {
        typename Search<Words>::Tables search;
        BitVectorEngine::Tables vectors;
        View<uint32_t> rules;  ///< the rule's index by position; empty with bit vectors, which have it
    };
    struct Tables {
        Family<4> ipv4;
        Family<10> ipv6;
    };

    /// The index of the first rule that matches, kNoRule when none does or the key is not of IP.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const HeaderKey& key, Lanes lanes) {
        if (key.ip_version == 0) return kNoRule;
        return key.ip_version == 6 ? find_in(tables.ipv6, key, lanes) : find_in(tables.ipv4, key, lanes);
    }

private:
    template <unsigned Words, class Lanes>
    MILLRACE_DEVICE static uint32_t find_in(const Family<Words>& family, const HeaderKey& key, Lanes lanes) {
        if (family.search.engine == Engine::bit_vectors) return BitVectorEngine::find(family.vectors, key, lanes);
        const uint32_t position = Search<Words>::find(family.search, ternary_key<Words>(key), lanes);
        return position == kNoRule ? kNoRule : family.rules[position];
    }
};
static_assert(kNoRule == kNoPosition);

}  // namespace millrace::nf::classify
