#include "millrace/nf/nids/rules/rule_files.hpp"

#include "millrace/base/files/file.hpp"
#include "millrace/nf/nids/rules/rule_builder.hpp"
#include "millrace/nf/nids/rules/rule_parser.hpp"

namespace millrace::nf::nids {

RuleFile parse_rules(std::string_view text, const std::string& file, const Variables& variables) {
    RuleFile out;
    for (const RuleText& rule_text : split_rules(text)) {
        try {
            if (is_no_rule(rule_text.text)) {
                AlertFilter filter = read_alert_filter(rule_text.text, variables);
                filter.where = rule_text.location(file, 0);
                out.filters.push_back(std::move(filter));
                continue;
            }
            Rule rule = parse_rule(rule_text.text, variables);
            rule.where = rule_text.location(file, 0);
            out.rules.push_back(std::move(rule));
        } catch (const RuleError& error) {
            out.errors.push_back({rule_text.location(file, error.at), error.message, error.hint});
        }
    }
    return out;
}

Classifications parse_classifications(std::string_view text, const std::string& file) {
    Classifications classes;
    std::vector<Diagnostic> errors;
    for_each_line(text, [&](std::string_view line, uint32_t number) {
        const std::string_view words = trim(line);
        if (words.empty() || words.front() == '#') return;
        constexpr std::string_view kStart = "config classification:";
        const auto parts = words.starts_with(kStart) ? split_commas(words.substr(kStart.size()), kStart.size())
                                                     : std::vector<Word>{};
        try {
            if (parts.size() < 3)
                throw RuleError{0, "not a classification", "config classification: name,description,priority"};
            // A description may hold commas itself.
            const size_t from = parts[1].at, to = parts.back().at;
            const auto priority = static_cast<uint32_t>(read_integer(parts.back(), 0, 255));
            classes[std::string(parts[0].text)] = {std::string(trim(words.substr(from, to - from - 1))), priority};
        } catch (const RuleError& error) {
            errors.push_back({{file, number, static_cast<uint32_t>(error.at + 1)}, error.message, error.hint});
        }
    });
    for (auto& [name, classification] : classes) {
        std::string& description = classification.description;
        while (!description.empty() && (description.back() == ',' || description.back() == ' ')) description.pop_back();
    }
    if (!errors.empty()) throw ConfigError(std::move(errors));
    return classes;
}

}  // namespace millrace::nf::nids
