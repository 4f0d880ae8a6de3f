// Builds the tables of PrefixTrie.
#pragma once

#include <span>
#include <vector>

#include "millrace/nf/classify/bit_vector/trie.hpp"

namespace millrace::nf::classify {

/// A prefix of up to 128 bits and its value, which is below PrefixTrie::kNodeFlag. Bits behind
/// `length` are zero.
struct TriePrefix {
    uint64_t high = 0, low = 0;
    uint32_t length = 0;
    uint32_t value = 0;
};

struct TrieArrays {
    std::vector<uint32_t> top;
    std::vector<PrefixTrie::Node> nodes;
    std::vector<uint32_t> leaves;
    uint32_t top_bits = 0;

    uint64_t bytes() const { return top.size() * 4 + nodes.size() * sizeof(PrefixTrie::Node) + leaves.size() * 4; }
};

/// `prefixes` are distinct, and sorted by address, then length. Addresses in none of them get `otherwise`.
TrieArrays build_trie(std::span<const TriePrefix> prefixes, uint32_t otherwise);

}  // namespace millrace::nf::classify
