// Rule files and the files that go with them, as a whole.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/nf/nids/rules/alert_filter.hpp"
#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

/// The rules of a text, and what is broken in it. Broken rules are left out of `rules`.
struct RuleFile {
    std::vector<Rule> rules;
    std::vector<AlertFilter> filters;  ///< of the lines between the rules; not applied yet
    std::vector<Diagnostic> errors;
};
/// `file` is what locations name.
RuleFile parse_rules(std::string_view text, const std::string& file, const Variables& variables);

/// What a `classtype` means.
struct Classification {
    std::string description;
    uint32_t priority = 3;
};
using Classifications = std::map<std::string, Classification>;
/// Reads a classification.config. Throws ConfigError.
Classifications parse_classifications(std::string_view text, const std::string& file);

}  // namespace millrace::nf::nids
