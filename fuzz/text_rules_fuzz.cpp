// Any bytes as a rule: a rule or a mistake within the line; and a rule put into words reads as the same rule.
#include <cstdlib>

#include "fuzz/entry.hpp"
#include "millrace/nf/classify/rules/text_rules.hpp"

namespace text_rules_fuzz {

using namespace millrace;
using namespace millrace::nf::classify;

void check_round_trip(const RuleSet& rules) {
    for (const Box& box : rules.boxes) {
        RuleSet again;
        load_text_rules("permit " + text_of(box), "again", again);
        if (again.boxes.size() != 1) std::abort();
        const Box& other = again.boxes[0];
        if (text_of(other) != text_of(box) || other.ipv4 != box.ipv4 || other.ipv6 != box.ipv6 ||
            other.src_port != box.src_port || other.dst_port != box.dst_port || other.protocol != box.protocol ||
            other.tcp_flags != box.tcp_flags)
            std::abort();
    }
}

MILLRACE_FUZZER(text_rules)(const uint8_t* data, size_t size) {
    const std::string_view line(reinterpret_cast<const char*>(data), size);
    try {
        parse_text_rule(line);
    } catch (const WordMistake& mistake) {
        if (mistake.offset > size || mistake.message.empty()) std::abort();
    }
    RuleSet rules;
    try {
        load_text_rules(line, "fuzz", rules);
    } catch (const ConfigError&) {
        return 0;
    }
    if (rules.boxes.size() < 64) check_round_trip(rules);
    return 0;
}

}  // namespace text_rules_fuzz
