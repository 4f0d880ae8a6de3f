#include "millrace/nf/nids/rules/alert_filter.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "millrace/nf/nids/rules/rule_builder.hpp"
#include "millrace/nf/nids/rules/threshold_text.hpp"

namespace millrace::nf::nids {
namespace {

constexpr std::string_view kFilters[] = {"suppress", "event_filter", "threshold"};

/// Lines of other files, and what to do in their place.
constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
    {"rate_filter", "what a rule does cannot change by its rate; write 'threshold' or 'detection_filter' in the rule"},
    {"include", "name each rule file under 'rules:'"},
    {"var", "variables stand under 'variables:'"},
    {"ipvar", "variables stand under 'variables:'"},
    {"portvar", "variables stand under 'variables:'"},
    {"config",
     "a rule file holds rules, suppress, event_filter and threshold lines; a classification.config is "
     "named under 'classification:'"},
    {"output", "a rule file holds rules, suppress, event_filter and threshold lines"},
    {"preprocessor", "a rule file holds rules, suppress, event_filter and threshold lines"},
};

std::string_view first_word(std::string_view line) { return line.substr(0, line.find_first_of(" \t:")); }

/// The number behind `name` in `part`, which is "gen_id 1" or "sig_id 2".
uint32_t read_id(const std::vector<Word>& parts, size_t index, std::string_view name, size_t end) {
    static constexpr const char* kHint =
        "suppress gen_id 1, sig_id 2 or event_filter gen_id 1, sig_id 2, type limit, "
        "track by_src, count 1, seconds 60";
    const Word part = index < parts.size() ? parts[index] : Word{{}, end};
    const auto words = split_words(part.text, part.at);
    if (words.size() != 2 || words[0].text != name)
        throw RuleError{part.at, "'" + std::string(name) + " NUMBER' is missing", kHint};
    return static_cast<uint32_t>(read_integer(words[1], 0, 0xffffffff));
}

/// `track by_src, ip 10.0.0.0/8`, which begins at `at`.
Suppression read_suppression(std::string_view text, size_t at, const Variables& variables) {
    Suppression suppression;
    const auto fail = [](size_t where, const std::string& what) {
        throw RuleError{where, what, "suppress gen_id 1, sig_id 2, track by_src, ip 10.0.0.0/8"};
    };
    const size_t comma = text.find(',');
    const auto track = split_words(text.substr(0, comma), at);
    if (track.size() != 2 || track[0].text != "track") fail(at, "'track by_src', 'by_dst' or 'by_either' is missing");
    const std::string_view by = track[1].text;
    suppression.src = by == "by_src" || by == "by_either";
    suppression.dst = by == "by_dst" || by == "by_either";
    if (!suppression.src && !suppression.dst)
        fail(track[1].at, "'" + std::string(by) + "' is not one of by_src, by_dst, by_either");
    if (comma == std::string_view::npos) fail(at, "'ip ADDRESS' is missing behind the track");
    const auto address = split_words(text.substr(comma + 1), at + comma + 1);
    if (address.size() != 2 || address[0].text != "ip")
        fail(at + comma + 1, "'ip ADDRESS' is missing behind the track");
    suppression.addresses = variables.addresses(address[1].text, address[1].at);
    return suppression;
}

}  // namespace

bool is_no_rule(std::string_view line) {
    const std::string_view word = first_word(line);
    return std::find(std::begin(kFilters), std::end(kFilters), word) != std::end(kFilters) ||
           std::any_of(std::begin(kOthers), std::end(kOthers), [&](const auto& other) { return other.first == word; });
}

AlertFilter read_alert_filter(std::string_view line, const Variables& variables) {
    const std::string_view word = first_word(line);
    for (const auto& [name, hint] : kOthers)
        if (name == word) throw RuleError{0, "'" + std::string(word) + "' begins no rule", std::string(hint)};
    AlertFilter filter;
    filter.suppresses = word == "suppress";
    const size_t end = trim(line).size();
    const auto parts = split_commas(line.substr(word.size()), word.size());
    filter.gid = read_id(parts, 0, "gen_id", end);
    filter.sid = read_id(parts, 1, "sig_id", end);
    if (filter.sid != 0 && filter.gid == 0)
        throw RuleError{parts[0].at, "gen_id 0 stands for every rule, and sig_id names one"};
    const size_t rest = parts.size() > 2 ? parts[2].at : end;
    const std::string_view text = trim(line.substr(std::min(rest, line.size())));
    if (!filter.suppresses) {
        if (parts.size() <= 2)
            throw RuleError{end, "it needs type, track, count and seconds",
                            std::string(word) + " gen_id 1, sig_id 2, type limit, track by_src, count 1, seconds 60"};
        filter.threshold = read_threshold(text, rest, false);
    } else if (parts.size() > 2) {
        filter.suppression = read_suppression(text, rest, variables);
    }
    return filter;
}

void apply_alert_filters(const std::vector<AlertFilter>& filters, std::vector<Rule>& rules,
                         std::vector<Diagnostic>& errors, const std::function<void(Diagnostic)>& warn) {
    std::vector<char> own(rules.size());  // whether a rule's threshold is its own, or was given by name
    for (size_t i = 0; i < rules.size(); ++i) own[i] = rules[i].threshold.has_value();
    // Those that name a rule first: they go before those for all.
    for (const bool named : {true, false}) {
        for (const AlertFilter& filter : filters) {
            if ((filter.sid != 0) != named) continue;
            bool concerns = false;
            for (size_t i = 0; i < rules.size(); ++i) {
                Rule& rule = rules[i];
                if ((filter.gid != 0 && filter.gid != rule.gid) || (named && filter.sid != rule.sid)) continue;
                concerns = true;
                if (filter.suppresses) {
                    rule.suppressions.push_back(filter.suppression);
                } else if (named && rule.threshold && rule.threshold->type == Threshold::Type::detection) {
                    const std::string sid = std::to_string(filter.sid);
                    errors.push_back({filter.where, "sid " + sid + " has a detection_filter, and cannot have another",
                                      "take one of the two away"});
                } else if (named || !own[i]) {
                    rule.threshold = filter.threshold;
                    if (named) own[i] = true;
                }
            }
            if (concerns) continue;
            const std::string gid = std::to_string(filter.gid), sid = std::to_string(filter.sid);
            warn({filter.where, "no rule has the gen_id " + gid + " and sig_id " + sid, "the line has no effect",
                  Diagnostic::Severity::warning});
        }
    }
}

}  // namespace millrace::nf::nids
