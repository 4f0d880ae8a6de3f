// Files of flows, groups and meters, line by line and word by word.
#pragma once

#include <algorithm>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/classify/rules/mistakes.hpp"
#include "millrace/nf/switch/flows/flow.hpp"
#include "millrace/nf/switch/text/words.hpp"

namespace millrace::nf::flow_switch {

/// Calls `f` with each word between commas and blanks, until it returns false.
template <class F>
void for_each_word(std::string_view line, F&& f) {
    constexpr std::string_view kBetween = ", \t";
    for (size_t at = line.find_first_not_of(kBetween); at != std::string_view::npos;
         at = line.find_first_not_of(kBetween, at)) {
        const size_t end = std::min(line.find_first_of(kBetween, at), line.size());
        if (!f(Word{line.substr(at, end - at), at})) return;
        at = end;
    }
}

/// Calls `read` with each line that says something and its number; collects the mistakes.
template <class Read>
void for_each_statement(std::string_view text, const std::string& file, FlowSet& set, Read&& read) {
    const uint32_t index = static_cast<uint32_t>(set.files.size());
    set.files.push_back(file);
    classify::Mistakes mistakes(file);
    for_each_line(text, [&](std::string_view line, uint32_t number) {
        const Word whole = Word{line.substr(0, std::min(line.find('#'), line.size())), 0}.trimmed();
        if (whole.text.empty()) return;
        try {
            read(whole.text, index, number);
        } catch (WordMistake mistake) {
            mistake.offset += whole.offset;
            mistakes.add(number, mistake);
        }
    });
    mistakes.throw_if_any();
}

}  // namespace millrace::nf::flow_switch
