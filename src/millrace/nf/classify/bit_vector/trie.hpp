// Longest-prefix match on addresses of up to 128 bits: a multi-bit trie, compressed as in Poptrie
// (Asai and Ohara, SIGCOMM 2015, section 3).
//
// A table over the first `top_bits` bits, then nodes of 6 bits each. Of a node's 64 slots, those that
// lead on have a bit in `children`, and their nodes are contiguous; of the others, equal neighbours
// share one leaf. A lookup thus reads one entry and a node for each further 6 bits of prefix.
#pragma once

#include "millrace/nf/classify/bit_vector/bits.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

struct PrefixTrie {
    static constexpr unsigned kStride = 6;
    static constexpr uint32_t kNodeFlag = 0x80000000u;

    struct Node {
        uint64_t children;     ///< slots that lead to a node
        uint64_t leaves;       ///< slots where a new leaf begins
        uint32_t first_child;  ///< in `nodes`
        uint32_t first_leaf;   ///< in `leaves`
    };
    struct Tables {
        View<uint32_t> top;  ///< by the first top_bits bits: a value, or kNodeFlag and a node
        View<Node> nodes;
        View<uint32_t> leaves;  ///< values
        uint32_t top_bits = 0;  ///< 1 to 16
    };

    /// The 6 bits of an address from bit `offset` (0 is the first); zeros behind its end.
    MILLRACE_DEVICE static uint32_t slot_at(uint64_t high, uint64_t low, unsigned offset) {
        constexpr unsigned kShift = 64 - kStride;
        if (offset <= kShift) return static_cast<uint32_t>(high >> (kShift - offset)) & 63u;
        if (offset < 64) {
            return static_cast<uint32_t>((high << (offset - kShift)) | (low >> (64 + kShift - offset))) & 63u;
        }
        if (offset <= 64 + kShift) return static_cast<uint32_t>(low >> (64 + kShift - offset)) & 63u;
        return static_cast<uint32_t>(low << (offset - 64 - kShift)) & 63u;
    }

    /// The value of the longest prefix that holds the address.
    MILLRACE_DEVICE static uint32_t find(const Tables& tables, uint64_t high, uint64_t low) {
        const uint32_t entry = tables.top[high >> (64 - tables.top_bits)];
        if (!(entry & kNodeFlag)) return entry;
        uint32_t at = entry & ~kNodeFlag;
        for (unsigned offset = tables.top_bits;; offset += kStride) {
            const Node node = tables.nodes[at];
            const uint32_t slot = slot_at(high, low, offset);
            const uint64_t up_to_slot = (uint64_t{2} << slot) - 1;  // wraps to all ones for slot 63
            if (!(node.children >> slot & 1)) {
                return tables.leaves[node.first_leaf + count_bits(node.leaves & up_to_slot) - 1];
            }
            at = node.first_child + count_bits(node.children & up_to_slot) - 1;
        }
    }
};
static_assert(sizeof(PrefixTrie::Node) == 24);

}  // namespace millrace::nf::classify
