// Lines that stand between rules and hold back alerts of rules by their sids: Suricata's threshold.config, Snort 2's
// event_filter and suppress.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

/// `suppress …`, `event_filter …` or `threshold …`.
struct AlertFilter {
    uint32_t gid = 0, sid = 0;  ///< 0: every one
    bool suppresses = false;
    Suppression suppression;  ///< where it suppresses
    Threshold threshold;      ///< where it does not
    Location where;
};

/// Whether a line begins with a word that no rule begins with, but other files of Snort and Suricata do.
bool is_no_rule(std::string_view line);

/// Reads such a line. Throws RuleError, also for those that belong elsewhere (`ipvar`, `include`, …).
AlertFilter read_alert_filter(std::string_view line, const Variables& variables);

/// Puts the filters on the rules that they name. One that names a rule takes the place of the rule's `threshold`; one
/// for all rules leaves those alone that have a threshold or detection_filter. Adds to `errors` what cannot be
/// joined, and warns of filters that concern no rule.
void apply_alert_filters(const std::vector<AlertFilter>& filters, std::vector<Rule>& rules,
                         std::vector<Diagnostic>& errors, const std::function<void(Diagnostic)>& warn);

}  // namespace millrace::nf::nids
