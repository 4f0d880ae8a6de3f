// A regular expression as a tree, and what can be told of it before it is compiled.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/nf/nids/regex/bytecode.hpp"

namespace millrace::nf::nids::regex {

using ByteSet = std::bitset<256>;

enum class Greed : uint8_t { greedy, lazy, possessive };

struct Node {
    enum class Kind : uint8_t {
        sequence,        ///< children one after the other; none: matches nothing at all, which always succeeds
        alternatives,    ///< children, the first that leads to a match
        set,             ///< one byte of `set`
        repeat,          ///< child, `least` to `most` times
        capture,         ///< child, remembered as `group`
        atomic,          ///< child, its first match only
        look,            ///< child must match, or must not, ahead of here or just behind
        assertion,       ///< `assertion`, one of the Ops that look at the position
        back_reference,  ///< the bytes that `group` matched
        condition,       ///< two children (yes, no): whether `group` matched; three: the first is a look
    };
    Kind kind = Kind::sequence;
    bool negative = false;  ///< look
    bool behind = false;    ///< look
    bool folded = false;    ///< back_reference
    Greed greed = Greed::greedy;
    Op assertion = kSubjectStart;
    uint32_t group = 0;
    uint32_t least = 0, most = 0;
    size_t offset = 0;  ///< in the pattern, for messages
    ByteSet set;
    std::vector<Node> children;
};

Node make_node(Node::Kind kind, size_t offset);
Node make_set(const ByteSet& set, size_t offset);
Node make_assertion(Op op, size_t offset);
/// A node of that kind with `child` in it.
Node wrap(Node::Kind kind, Node child, size_t offset);
/// \R, which is (?>\r\n|[\n-\r\x85]).
Node any_line_end(size_t offset);

/// Why a pattern isn't supported; `offset` is where in the pattern.
struct Refusal {
    std::string reason;
    size_t offset;
};

/// The bytes that a match of something can start with. `open`: it may also match without a byte, or
/// nothing is known.
struct First {
    ByteSet set;
    bool open = false;
};
First unite(const First& a, const First& b);
/// What `node` can start with when `follow` comes behind it. It may say too much, never too little.
First first_of(const Node& node, const First& follow);

/// Least number of bytes that a match has.
uint32_t least_bytes(const Node& node);
/// The number of bytes that each match has, if it is one number.
std::optional<uint32_t> fixed_bytes(const Node& node);
/// Whether every match starts with assertion `op`.
bool starts_with(const Node& node, Op op);

}  // namespace millrace::nf::nids::regex
