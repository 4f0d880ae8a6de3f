// Rules as people write them: one a line, or in YAML. README.md has the grammar.
#pragma once

#include <optional>
#include <string_view>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/classify/rules/rule.hpp"

namespace millrace::nf::classify {

/// One rule as it was written.
struct WrittenRule {
    Action action = Action::permit;
    FiveTupleMatch match;
    ByteMatch flags;
    ConnectionSet connections;
    int32_t priority = 0;
    std::string name;
    std::string text;  ///< without comment and outer blanks
};

/// Reads one line. Nothing when it is empty or a comment. Throws WordMistake.
std::optional<WrittenRule> parse_text_rule(std::string_view line);

/// Appends the rules of one file. Throws ConfigError with every mistake; `rules` is then to be thrown away.
void load_text_rules(std::string_view text, const std::string& file, RuleSet& rules);

/// Appends the rules of a YAML list, each a text as above or a map with `action` and what
/// FiveTupleMatch::keys(), `flags`, `state`, `priority` and `name` say. Throws ConfigError likewise.
void load_yaml_rules(const Config& list, RuleSet& rules);

}  // namespace millrace::nf::classify
