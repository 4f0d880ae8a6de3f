#include "millrace/nf/nids/compile/span.hpp"

#include <algorithm>

namespace millrace::nf::nids {
namespace {

bool has_flag(const Regex& regex, char flag) { return regex.flags.find(flag) != std::string::npos; }

/// Whether an option says where in its buffer something stands, counted from the start.
struct CountsFromStart {
    bool operator()(const Content& content) const { return content.offset || content.depth; }
    bool operator()(const Regex& regex) const {
        if (has_flag(regex, 'A')) return !regex.relative;
        const bool has_start = regex.pattern.find('^') != std::string::npos ||
                               regex.pattern.find("\\A") != std::string::npos;
        return !regex.relative && has_start && !has_flag(regex, 'm');
    }
    bool operator()(const DataAt& data_at) const { return !data_at.relative; }
    bool operator()(const ByteTest& test) const { return !test.format.relative; }
    bool operator()(const ByteJump& jump) const { return !jump.format.relative || jump.from_beginning; }
    bool operator()(const ByteExtract& extract) const { return !extract.format.relative; }
    bool operator()(const BufferBytes&) const { return true; }
    bool operator()(const FieldRange&) const { return false; }
    bool operator()(const FieldMask&) const { return false; }
    bool operator()(const SameIp&) const { return false; }
};

/// Whether a rule is of no packet's own header.
bool may_span(const Rule& rule) {
    if (!(rule.header & RuleHeader::kTcp) || (rule.header & RuleHeader::kOnlyFragments) || rule.no_stream) return false;
    return std::all_of(rule.terms.begin(), rule.terms.end(), [](const Term& term) {
        return term.looks_at_buffer() || std::holds_alternative<SameIp>(term.option);
    });
}

}  // namespace

bool of_message(const Rule& rule) {
    return may_span(rule) && (rule.application == Application::none || rule.application == Application::http) &&
           std::any_of(rule.terms.begin(), rule.terms.end(),
                       [](const Term& term) { return term.looks_at_buffer() && is_of_http(term.buffer); });
}

Spanning span_of(const Rule& rule, bool messages) {
    if (!may_span(rule)) return Spanning::none;
    // The body of anything else is a payload.
    const bool of_files = rule.application == Application::none &&
                          std::all_of(rule.terms.begin(), rule.terms.end(), [](const Term& term) {
                              return !term.looks_at_buffer() || !is_of_http(term.buffer) ||
                                     term.buffer == Buffer::file_data;
                          });
    if (messages && of_message(rule) && !of_files) return Spanning::none;
    bool looks = false, from_start = rule.application == Application::http || rule.application == Application::tls;
    for (const Term& term : rule.terms) {
        if (!term.looks_at_buffer()) continue;
        looks = true;
        // Where other buffers lie is told from the start of what is looked at.
        from_start = from_start || (term.buffer != Buffer::payload && term.buffer != Buffer::file_data) ||
                     term.dot_prefix || std::visit(CountsFromStart{}, term.option);
    }
    if (!looks) return Spanning::none;
    return from_start ? Spanning::from_start : Spanning::anywhere;
}

}  // namespace millrace::nf::nids
