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

/// Names of bits, joined by '|' or, where all of them are meant, by '&'.
void read_bit_names(FlowBits& bits, const Word& names) {
    bits.all = names.text.find('&') != std::string_view::npos;
    if (bits.all && names.text.find('|') != std::string_view::npos)
        throw RuleError{names.at, "either '|' or '&' stands between names of flowbits"};
    for (size_t at = 0; at <= names.text.size();) {
        const size_t end = std::min(names.text.find(bits.all ? '&' : '|', at), names.text.size());
        const std::string_view name = trim(names.text.substr(at, end - at));
        if (name.empty()) throw RuleError{names.at, "the name of a flowbit is missing"};
        bits.names.emplace_back(name);
        at = end + 1;
    }
}

void read_flow_bits(RuleBuilder& builder, const Option& option) {
    static constexpr std::pair<std::string_view, BitVerb> kVerbs[] = {{"isset", BitVerb::is_set},
                                                                      {"isnotset", BitVerb::is_not_set},
                                                                      {"set", BitVerb::set},
                                                                      {"unset", BitVerb::unset},
                                                                      {"toggle", BitVerb::toggle}};
    const auto words = split_commas(option.value, option.value_at);
    const Word& verb = words[0];
    if (verb.text == "noalert") return void(builder.rule.silent = true);
    // Snort 2.9 knows groups of bits.
    if (verb.text == "setx" || verb.text == "reset" || (words.size() > 2 && verb.text.starts_with("is")))
        return builder.rule.refuse("flowbits of a group");
    const auto found = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                    [&](const auto& known) { return known.first == verb.text; });
    if (found == std::end(kVerbs))
        throw RuleError{verb.at, "'" + std::string(verb.text) + "' is nothing that flowbits does",
                        "it is set, unset, toggle, isset, isnotset or noalert"};
    if (words.size() < 2) throw RuleError{verb.at, "flowbits:" + std::string(verb.text) + " names no bit"};
    FlowBits bits;
    bits.verb = found->second;
    read_bit_names(bits, words[1]);
    if (!bits.asks() && bits.names.size() > 1 && !bits.all)
        throw RuleError{words[1].at, "which of these bits is it?", "several are joined by '&'"};
    builder.rule.flow_bits.push_back(std::move(bits));
}

/// State that one packet sets and another asks for. Setting it is harmless, as no rule that asks is applied.
void read_flow_state(RuleBuilder& builder, const Option& option) {
    const auto words = split_commas(option.value, option.value_at);
    const std::string_view verb = words[0].text;
    const std::string keyword(option.keyword);
    if (verb == "noalert") {
        builder.rule.silent = true;
    } else if (verb == "set" || verb == "setx" || verb == "unset" || verb == "toggle" || verb == "reset") {
        builder.sets_other_state = true;
    } else if (verb == "isset" || verb == "isnotset") {
        builder.rule.refuse(keyword + " " + std::string(verb) + ": needs the packets before");
    } else {
        throw RuleError{words[0].at, "'" + std::string(verb) + "' is nothing that " + keyword + " does",
                        "it is set, unset, toggle, isset, isnotset or noalert"};
    }
}

void read_flow_number(RuleBuilder& builder, const Option& option) {
    const auto words = split_commas(option.value, option.value_at);
    const std::string_view verb = words.size() > 1 ? words[1].text : std::string_view{};
    const bool asks = verb != "=" && verb != "+" && verb != "-" && verb != "notset";
    if (asks) builder.rule.refuse("flowint: needs the packets before");
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
    } else if (keyword == "flowbits") {
        read_flow_bits(builder, option);
    } else if (keyword == "xbits" || keyword == "hostbits") {
        read_flow_state(builder, option);
    } else if (keyword == "flowint") {
        read_flow_number(builder, option);
    } else {
        // Told to people, or about what else to record: nothing that decides whether the rule matches.
        static constexpr std::string_view kInformation[] = {"service", "rem",       "target",   "tag",    "logto",
                                                            "soid",    "prefilter", "requires", "session"};
        return std::find(std::begin(kInformation), std::end(kInformation), keyword) != std::end(kInformation);
    }
    return true;
}

}  // namespace millrace::nf::nids
