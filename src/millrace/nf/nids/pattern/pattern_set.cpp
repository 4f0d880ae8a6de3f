#include "millrace/nf/nids/pattern/pattern_set.hpp"

#include <fmt/format.h>

namespace millrace::nf::nids::pattern {
namespace {

std::string with_commas(uint64_t value) {
    const std::string digits = std::to_string(value);
    std::string text;
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

}  // namespace

PatternSet::PatternSet(std::vector<std::string> patterns)
    : patterns_(std::move(patterns)), automaton_(build_automaton(patterns_)),
      filter_(build_filter(patterns_, automaton_)) {}

void PatternSet::attach(nf::Image& image, PatternTables& tables) const {
    // Without a pattern there is nothing to search for, and views of nothing stay empty.
    if (patterns_.empty()) return;
    image.attach(tables.class_of, automaton_.class_of);
    if (automaton_.wide->empty()) {
        image.attach(tables.narrow, automaton_.narrow);
    } else {
        image.attach(tables.wide, automaton_.wide);
    }
    image.attach(tables.levels, automaton_.levels);
    image.attach(tables.matches, automaton_.matches);
    image.attach(tables.output_begin, automaton_.output_begin);
    image.attach(tables.output_ids, automaton_.output_ids);
    if (!automaton_.common_ids->empty()) image.attach(tables.common_ids, automaton_.common_ids);
    if (!filter_.empty()) {
        image.attach(tables.filter.bits, filter_.bits);
        image.attach(tables.filter.branches, filter_.branches);
        tables.filter.shift = filter_.shift;
        tables.filter.sizes = filter_.sizes;
        std::copy(filter_.short_begins.begin(), filter_.short_begins.end(), tables.filter.short_begins);
        tables.filter.skips_runs = filter_.skips_runs;
    }
    tables.stride = automaton_.stride;
    tables.first_match = automaton_.first_match;
}

std::string PatternSet::summary() const {
    return fmt::format("{} patterns, {} states of {} classes, {:.1f} MiB", with_commas(size()),
                       with_commas(state_count()), automaton_.class_count,
                       static_cast<double>(table_bytes()) / (1 << 20));
}

}  // namespace millrace::nf::nids::pattern
