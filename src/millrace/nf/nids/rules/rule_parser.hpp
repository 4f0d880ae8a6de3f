// Reading one rule of Snort 2.9, Snort 3 or Suricata.
#pragma once

#include <string>

#include "millrace/nf/nids/rules/rule.hpp"
#include "millrace/nf/nids/rules/rule_text.hpp"

namespace millrace::nf::nids {

/// Reads a rule. What is well formed but cannot be applied is said in `Rule::unsupported`. Throws
/// RuleError where the rule is broken.
Rule parse_rule(std::string_view text, const Variables& variables);

}  // namespace millrace::nf::nids
