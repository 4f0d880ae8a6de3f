// The automaton of Aho and Corasick over a set of patterns, on the host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/nf/nids/pattern/pattern_tables.hpp"
#include "millrace/base/large_pages.hpp"

namespace millrace::nf::nids::pattern {

/// A complete deterministic automaton: from every state, every byte leads to a state, so that a search
/// takes one table look-up a byte. Its arrays are the ones that `PatternTables` describes.
///
/// States are numbered breadth first, so that those near the root, where searches spend their time, lie
/// contiguous; the states in which a pattern ends come last, so that one comparison tells them.
/// State 0 is the root.
struct Automaton {
    std::shared_ptr<const std::vector<uint8_t>> class_of;     ///< 256
    std::shared_ptr<const LargePageVector<uint16_t>> narrow;  ///< empty when there are over 65,536 states
    std::shared_ptr<const LargePageVector<uint32_t>> wide;    ///< empty otherwise
    std::shared_ptr<const std::vector<uint32_t>> depth;  ///< by state: length of the pattern prefix that it stands for
    std::shared_ptr<const std::vector<Level>> levels;
    std::shared_ptr<const std::vector<Match>> matches;
    std::shared_ptr<const std::vector<uint32_t>> output_begin;
    std::shared_ptr<const std::vector<uint32_t>> output_ids;
    std::shared_ptr<const std::vector<uint32_t>> common_ids;
    /// By match: the match of its longest proper suffix that is one, or kNoPattern. Always a smaller number.
    std::vector<uint32_t> output_link;
    uint32_t class_count = 0;
    uint32_t stride = 0;  ///< entries a row, at least class_count
    uint32_t state_count = 0;
    uint32_t first_match = 0;  ///< state_count when there is no pattern

    /// The state that a text from the root on leads to.
    uint32_t state_behind(std::string_view text) const;
    uint32_t match_count() const { return state_count - first_match; }
    /// Memory of the arrays that devices copy.
    uint64_t bytes() const;
};

/// `narrow` and `wide` end with this many unused entries: vector loads read 32 bits at any entry.
inline constexpr size_t kTablePadding = 2;

/// The ASCII lower-case form of a byte; every other byte is itself.
constexpr uint8_t fold(uint8_t byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<uint8_t>(byte + 32) : byte; }

/// Builds the automaton; the id of a pattern is its index. Throws std::invalid_argument for an empty
/// pattern and std::length_error when the table would pass 2^31 entries.
Automaton build_automaton(const std::vector<std::string>& patterns);

}  // namespace millrace::nf::nids::pattern
