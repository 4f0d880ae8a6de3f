// Options that say what a rule is called and when its alerts are told.
#include <algorithm>

#include "millrace/nf/nids/rules/rule_builder.hpp"
#include "millrace/nf/nids/rules/threshold_text.hpp"

namespace millrace::nf::nids {
namespace {

uint32_t read_id(const Option& option) {
    return static_cast<uint32_t>(read_integer({option.value, option.value_at}, 0, 0xffffffff));
}

void read_metadata(Rule& rule, const Option& option) {
    for (const Word& entry : split_commas(option.value, option.value_at)) {
        const size_t blank = entry.text.find(' ');
        std::string key(entry.text.substr(0, blank));
        std::string value(blank == std::string_view::npos ? std::string_view{} : trim(entry.text.substr(blank)));
        if (!key.empty()) rule.metadata.emplace_back(std::move(key), std::move(value));
    }
}

void read_rule_threshold(Rule& rule, const Option& option) {
    for (const std::string_view word : {"backoff", "by_flow", "by_either", "unique_on"})
        if (option.value.find(word) != std::string_view::npos) return rule.refuse("threshold " + std::string(word));
    rule.threshold = read_threshold(option.value, option.value_at, option.keyword == "detection_filter");
}

}  // namespace

bool read_description(RuleBuilder& builder, const Option& option) {
    Rule& rule = builder.rule;
    const std::string_view keyword = option.keyword;
    if (keyword == "msg") {
        rule.message = unquote(option.value);
    } else if (keyword == "sid") {
        rule.sid = read_id(option);
    } else if (keyword == "gid") {
        rule.gid = read_id(option);
    } else if (keyword == "rev") {
        rule.revision = read_id(option);
    } else if (keyword == "priority") {
        rule.priority = read_id(option);
    } else if (keyword == "classtype") {
        rule.class_type = std::string(option.value);
    } else if (keyword == "reference") {
        rule.references.emplace_back(option.value);
    } else if (keyword == "metadata") {
        read_metadata(rule, option);
    } else if (keyword == "threshold" || keyword == "detection_filter") {
        read_rule_threshold(rule, option);
    } else if (keyword == "noalert") {
        rule.silent = true;
    } else {
        // Told to people, or about what else to record: nothing that decides whether the rule matches.
        static constexpr std::string_view kInformation[] = {"service", "rem",       "target",   "tag",    "logto",
                                                            "soid",    "prefilter", "requires", "session"};
        return std::find(std::begin(kInformation), std::end(kInformation), keyword) != std::end(kInformation);
    }
    return true;
}

}  // namespace millrace::nf::nids
