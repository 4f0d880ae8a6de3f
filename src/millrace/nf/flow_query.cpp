#include "millrace/nf/flow_query.hpp"

#include <stdexcept>

#include "millrace/nf/classify/rules/text_rules.hpp"

namespace millrace::nf {

void FlowQuery::read(std::string_view words) {
    const std::string rule = "permit ";
    try {
        const auto written = classify::parse_text_rule(rule + std::string(words));
        if (!written || written->text.size() <= rule.size()) throw classify::WordMistake{0, "it is empty", {}};
        if (!written->flags.any() || written->priority != 0 || !written->name.empty())
            throw classify::WordMistake{0, "flows have no flags, priority or name", {}};
        match = written->match;
        connections = written->connections;
    } catch (const classify::WordMistake& mistake) {
        throw std::runtime_error("what flows are to match: " + mistake.message +
                                 (mistake.hint.empty() ? "" : "; " + mistake.hint));
    }
}

}  // namespace millrace::nf
