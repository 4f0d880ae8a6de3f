#include "millrace/nf/classify/bit_vector/trie_builder.hpp"

#include <algorithm>

namespace millrace::nf::classify {
namespace {

using Prefixes = std::span<const TriePrefix>;

/// A slot whose address bits lead to prefixes that are longer than the table at hand reaches.
struct Branch {
    uint32_t slot;
    Prefixes prefixes;
};

/// What a table of 2^bits slots, which looks at the address bits from `offset`, says for each slot:
/// the value of the longest prefix that covers the slot, and the branches, in order of slots.
template <class SlotOf>
std::vector<Branch> fill(Prefixes prefixes, unsigned offset, unsigned bits, std::vector<uint32_t>& values,
                         SlotOf slot_of) {
    std::vector<Branch> branches;
    for (size_t i = 0; i < prefixes.size(); ++i) {
        const TriePrefix& prefix = prefixes[i];
        const uint32_t slot = slot_of(prefix);
        if (prefix.length <= offset + bits) {
            // Sorted prefixes come before those that they contain, which overwrite their part.
            const uint32_t count = 1u << (offset + bits - prefix.length);
            std::fill_n(values.begin() + slot, count, prefix.value);
        } else if (!branches.empty() && branches.back().slot == slot) {
            branches.back().prefixes = prefixes.subspan(i - branches.back().prefixes.size(),
                                                        branches.back().prefixes.size() + 1);
        } else {
            branches.push_back({slot, prefixes.subspan(i, 1)});
        }
    }
    return branches;
}

class Builder {
public:
    explicit Builder(TrieArrays& arrays) : arrays_(arrays) {}

    /// Fills the node `at`, whose slots have `inherited` where none of `prefixes` says otherwise.
    void build(uint32_t at, Prefixes prefixes, unsigned offset, uint32_t inherited) {
        std::vector<uint32_t> values(64, inherited);
        const std::vector<Branch> branches = fill(
            prefixes, offset, PrefixTrie::kStride, values,
            [&](const TriePrefix& prefix) { return PrefixTrie::slot_at(prefix.high, prefix.low, offset); });
        PrefixTrie::Node node{0, 0, static_cast<uint32_t>(arrays_.nodes.size()),
                              static_cast<uint32_t>(arrays_.leaves.size())};
        for (const Branch& branch : branches) node.children |= uint64_t{1} << branch.slot;
        for (uint32_t slot = 0; slot < 64; ++slot) {
            if (node.children >> slot & 1) continue;
            if (node.leaves != 0 && arrays_.leaves.back() == values[slot]) continue;
            node.leaves |= uint64_t{1} << slot;
            arrays_.leaves.push_back(values[slot]);
        }
        arrays_.nodes.resize(arrays_.nodes.size() + branches.size());
        arrays_.nodes[at] = node;
        for (size_t i = 0; i < branches.size(); ++i) {
            build(node.first_child + static_cast<uint32_t>(i), branches[i].prefixes, offset + PrefixTrie::kStride,
                  values[branches[i].slot]);
        }
    }

private:
    TrieArrays& arrays_;
};

}  // namespace

TrieArrays build_trie(Prefixes prefixes, uint32_t otherwise) {
    TrieArrays arrays;
    // A wide table saves steps, a narrow one memory: few rules should stay within a GPU's L1 cache.
    arrays.top_bits = prefixes.size() < 64 ? 8 : 16;
    arrays.top.assign(size_t{1} << arrays.top_bits, otherwise);
    const auto branches = fill(prefixes, 0, arrays.top_bits, arrays.top, [&](const TriePrefix& prefix) {
        return static_cast<uint32_t>(prefix.high >> (64 - arrays.top_bits));
    });
    arrays.nodes.resize(branches.size());
    for (size_t i = 0; i < branches.size(); ++i) {
        uint32_t& entry = arrays.top[branches[i].slot];
        Builder(arrays).build(static_cast<uint32_t>(i), branches[i].prefixes, arrays.top_bits, entry);
        entry = PrefixTrie::kNodeFlag | static_cast<uint32_t>(i);
    }
    return arrays;
}

}  // namespace millrace::nf::classify
