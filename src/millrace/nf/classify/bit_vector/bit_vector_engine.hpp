// Packet classification by bit vectors (Lakshman and Stiliadis, SIGCOMM 1998; G-NET's firewall,
// section 2): each header field by itself leads to the vector of the rules that it satisfies; the
// first bit that all vectors share is the first match.
#pragma once

#include "millrace/nf/classify/bit_vector/bit_vectors.hpp"
#include "millrace/nf/classify/key.hpp"
#include "millrace/nf/classify/bit_vector/port_intervals.hpp"
#include "millrace/nf/classify/bit_vector/trie.hpp"

namespace millrace::nf::classify {

/// The rules of one address family.
struct BitVectorEngine {
    static constexpr uint32_t kNoFlags = 256;  ///< index in `flags` of a packet without TCP flags
    static constexpr uint32_t kFlagVectors = 257;

    struct Tables {
        PrefixTrie::Tables src, dst;
        PortIntervals::Tables src_port, dst_port;
        View<uint32_t> protocols;      ///< 256 vectors
        View<uint32_t> flags;          ///< kFlagVectors, of each kind of connection where rules tell these apart
        uint32_t connection_step = 0;  ///< in `flags`, from one kind of connection to the next; 0: it has one for all
        uint32_t reserved = 0;
        BitVectors::Tables vectors;
        View<uint32_t> rules;  ///< the rule's index, by position in order of match; empty without rules
    };

    /// The index of the first rule that matches, or kNoPosition.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, const HeaderKey& key, Lanes lanes) {
        if (tables.rules.empty()) return kNoPosition;
        const uint32_t vectors[] = {
            PrefixTrie::find(tables.src, key.src_high, key.src_low),
            PrefixTrie::find(tables.dst, key.dst_high, key.dst_low),
            PortIntervals::find(tables.src_port, key.has_ports(), key.src_port),
            PortIntervals::find(tables.dst_port, key.has_ports(), key.dst_port),
            tables.protocols[key.protocol],
            tables.flags[static_cast<uint32_t>(key.connection) * tables.connection_step +
                         (key.has_flags() ? key.tcp_flags : kNoFlags)],
        };
        const uint32_t position = BitVectors::first_common(tables.vectors, vectors, lanes);
        return position == kNoPosition ? kNoPosition : tables.rules[position];
    }
};

}  // namespace millrace::nf::classify
