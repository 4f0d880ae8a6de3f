// What device code knows of a set of patterns: the automaton, and the filter that goes before it.
#pragma once

#include "millrace/packet/view.hpp"

namespace millrace::nf::nids::pattern {

inline constexpr uint32_t kNoPattern = 0xffffffffu;
inline constexpr uint32_t kNoBranch = 0xffffffffu;
/// As many ids as bits of `Match::common`.
inline constexpr uint32_t kCommonIds = 64;

/// What a state in which patterns end stands for. The shortest patterns of a set are found all the time
/// in ordinary traffic: their ids, up to kCommonIds, are its common ones, and a lane notes them as bits.
struct Match {
    uint64_t common = 0;              ///< bit i: common_ids[i] ends here, as the state's own or as a suffix
    uint32_t rare = kNoPattern;       ///< the match, this or a suffix of it, that has the next rare ids; or kNoPattern
    uint32_t rare_link = kNoPattern;  ///< the same for its proper suffixes alone
    uint32_t only_rare = kNoPattern;  ///< the rare id, where there is one and no more
    uint32_t reserved = 0;
};
static_assert(sizeof(Match) == 24);

/// The lowest states that stand for prefixes of at least so many bytes: of those in which no pattern ends, and of the
/// others.
struct Level {
    uint32_t plain, match;
};

/// A branch of the tree of patterns that the filter's finds are held against: the first bytes behind a node, and more
/// that must follow as no pattern goes another way. Bytes are folded, the first in the lowest bits, and zero where
/// there is none.
struct alignas(16) Branch {
    uint32_t from = kNoBranch;  ///< see branch_from; kNoBranch: a free place
    uint32_t key = 0;           ///< 4 bytes, or the last 1 to 3 of a pattern
    uint32_t more[2] = {};
    uint32_t match = kNoPattern;  ///< of the pattern that ends here
    uint32_t node = 0;            ///< where it leads to
    uint16_t more_bytes = 0;      ///< 0 to 8
    uint16_t sizes = 0;  ///< of the keys behind that node: bit i for i + 1 bytes; none: all patterns this way have
                         ///< ended
    uint32_t reserved = 0;
};
static_assert(sizeof(Branch) == 32);

/// What finds the places where patterns may begin, see filter.hpp; all empty where a set has none.
struct FilterTables {
    View<uint32_t> bits;            ///< kFilterWords, by hash of four bytes: whether a pattern may begin so
    View<Branch> branches;          ///< open addressing; a power of two
    uint32_t shift = 0;             ///< of a branch's hash to its place
    uint32_t sizes = 0;             ///< of the keys at the root, as in a branch
    uint32_t short_begins[8] = {};  ///< by byte, a bit each: whether a pattern of three bytes begins with it
    bool skips_runs = false;        ///< no pattern begins with four equal bytes and has others behind them
};

/// The automaton of a `PatternSet`, and its filter, as device code sees them. States from `first_match` on are those in
/// which at least one pattern ends; "match" below means such a state's number less `first_match`.
struct PatternTables {
    View<uint8_t> class_of;       ///< by byte: its equivalence class, upper and lower case alike
    View<uint16_t> narrow;        ///< [state * stride + class] -> state; empty when states need 32 bits
    View<uint32_t> wide;          ///< the same with 32 bits; empty when 16 do
    View<Level> levels;           ///< by bytes of a prefix, from 0 to one more than any state stands for
    View<Match> matches;          ///< by match
    View<uint32_t> output_begin;  ///< by match, and one more: where its own patterns begin in output_ids
    View<uint32_t> output_ids;
    View<uint32_t> common_ids;  ///< ascending; none is in the outputs of a match that `rare` names
    FilterTables filter;
    uint32_t stride = 0;
    uint32_t first_match = 0;
};

}  // namespace millrace::nf::nids::pattern
