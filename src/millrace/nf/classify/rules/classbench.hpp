// Rule files as ClassBench (Taylor and Turner, INFOCOM 2005) and ClassBench-ng write them.
#pragma once

#include <string_view>

#include "millrace/nf/classify/rules/rule.hpp"

namespace millrace::nf::classify {

/// What the format does not say.
struct ClassBenchOptions {
    /// `hash`: the rule with index i of its file, from 0, denies if bit 31 of i * 2654435761 is set.
    enum class Actions { permit, deny, alternate, hash };
    Actions actions = Actions::permit;  ///< `alternate`: the first permits, the second denies, …
    bool match_flags = false;           ///< whether the last column counts in rules for TCP
};

/// Appends the rules of one file, whose text is `text` and whose name in messages is `file`. A line is
/// `@src/len dst/len lo : hi lo : hi 0xPROTO/0xMASK [0xFLAGS/0xMASK]`, of IPv4 or IPv6, the words
/// parted by blanks. Empty lines and lines that begin with # do not count as rules. The last column
/// holds the TCP flags in its high byte in rules for TCP, type and code in rules for ICMP; the latter
/// are never looked at.
/// Throws ConfigError with every mistake; `rules` is then to be thrown away.
void load_classbench(std::string_view text, const std::string& file, const ClassBenchOptions& options, RuleSet& rules);

}  // namespace millrace::nf::classify
