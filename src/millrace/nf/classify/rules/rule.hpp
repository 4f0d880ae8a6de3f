// Rules as the search engines take them in, and the set that the loaders fill.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/nf/classify/rules/five_tuple.hpp"

namespace millrace::nf::classify {

enum class Action : uint8_t { permit, deny };
inline constexpr const char* kActionNames[] = {"permit", "deny"};

/// One box in the space of headers: a rule with one value for each field. A rule that lists several
/// values has one box for each combination.
struct Box {
    Prefix src, dst;  ///< of length 0 where any address matches
    PortRange src_port, dst_port;
    ByteMatch protocol;
    ByteMatch tcp_flags;        ///< a mask other than 0 matches packets with TCP flags only
    ConnectionSet connections;  ///< that its packets may be of
    bool ipv4 = true;           ///< the families that it holds for: both where both addresses are any
    bool ipv6 = true;
    uint32_t rule = 0;  ///< index in RuleSet::rules
};

/// Whether the packet lies in the box: the plain definition that every engine must agree with.
bool matches(const Box& box, const HeaderKey& key);

/// What a person wrote in one place.
struct Rule {
    std::string name;   ///< may be empty
    std::string text;   ///< as written; empty for ClassBench, whose boxes are put into words on demand
    uint32_t file = 0;  ///< index in RuleSet::files
    uint32_t line = 0;
    int32_t priority = 0;  ///< the higher is tried first; among equals, the one loaded first
    uint32_t first_box = 0;
    Action action = Action::permit;
};

/// The rules of a firewall in the order in which they were loaded.
struct RuleSet {
    std::vector<Rule> rules;
    std::vector<Box> boxes;  ///< those of one rule together, in the order of `rules`
    std::vector<std::string> files;

    /// Most boxes of one set. Position, block and vector numbers stay far below 2^31 with it.
    static constexpr size_t kMaxBoxes = size_t{1} << 20;

    /// Appends a rule with one box for each combination of what the lists of `match` hold, `flags` and `connections`.
    /// Throws WordMistake when there are too many, or when no packet could be in any of them.
    void add(Rule rule, const FiveTupleMatch& match, ByteMatch flags, ConnectionSet connections = {});
    void add(Rule rule, Box box);
    /// Indexes of boxes in order of match: by priority, then as loaded.
    std::vector<uint32_t> in_order() const;
    /// `rule 17 (edge.rules:17) deny tcp from any to any port 22`; rules count from 1.
    std::string describe(uint32_t rule) const;
};

/// The box in the words of the text format, without an action: `tcp from 10.0.0.0/8 to any port 22`.
std::string text_of(const Box& box);

}  // namespace millrace::nf::classify
