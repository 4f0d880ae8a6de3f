#include "millrace/base/text/diagnostic.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "millrace/base/text/shown_line.hpp"

namespace millrace {

std::string Diagnostic::render() const {
    std::string text = where.file;
    if (where.line > 0) text += ":" + std::to_string(where.line);
    if (where.line > 0 && where.column > 0) text += ":" + std::to_string(where.column);
    if (!text.empty()) text += ": ";
    text += severity == Severity::error ? "error: " : "warning: ";
    const bool is_shown = where.line == 0 || are_lines_shown(where.file);
    const auto shown = [is_shown](const std::string& words) {
        return is_shown ? without_keys(words) : with_short_words(without_keys(words));
    };
    text += shown(message);
    std::string line = where.line > 0 && !secret ? shown_line(where) : std::string{};
    if (!line.empty()) {
        // A long line (a rule, a key) is cut around the caret.
        constexpr uint32_t kWidth = 110;
        uint32_t column = where.column > 0 ? where.column - 1 : 0;
        if (line.size() > kWidth && column > kWidth / 2) {
            const uint32_t cut = std::min<uint32_t>(column - kWidth / 2, static_cast<uint32_t>(line.size()) - 1);
            line.erase(0, cut);
            column -= cut;
        }
        if (line.size() > kWidth) line.resize(kWidth);
        text += "\n    " + line;
        if (where.column > 0 && column <= line.size()) text += "\n    " + std::string(column, ' ') + "^";
    }
    if (!is_shown && !secret) text += "\n    (the line is not shown: not everybody may read this file)";
    if (!hint.empty()) text += "\n    hint: " + shown(hint);
    return text;
}

std::string render(const std::vector<Diagnostic>& diagnostics) {
    std::string text;
    const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "\n") + more; };
    std::map<std::string, size_t> untold;  // by file whose lines are not shown
    size_t told = 0, more = 0;
    for (const Diagnostic& diagnostic : diagnostics) {
        const std::string& file = diagnostic.where.file;
        if (told == kMaxTold) {
            ++more;
        } else if (diagnostic.where.line > 0 && !are_lines_shown(file) && ++untold[file] > kMaxToldUnseen) {
            continue;
        } else {
            ++told;
            add(diagnostic.render());
        }
    }
    for (const auto& [file, count] : untold)
        if (count > kMaxToldUnseen)
            add(file + ": " + std::to_string(count - kMaxToldUnseen) + " more mistakes that are not shown");
    if (more > 0) add(std::to_string(more) + " more that are not shown");
    return text;
}

ConfigError::ConfigError(Diagnostic diagnostic) : ConfigError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(render(diagnostics)), diagnostics_(std::move(diagnostics)) {}

std::string closest_word(const std::string& word, const std::vector<std::string>& known) {
    std::string best;
    size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
    for (const std::string& candidate : known) {
        // Levenshtein distance, one row at a time; two neighbours that changed places count as one slip.
        std::vector<size_t> before, last, row(candidate.size() + 1);
        std::iota(row.begin(), row.end(), 0);
        for (size_t i = 1; i <= word.size(); ++i) {
            before = std::exchange(last, row);
            row[0] = i;
            for (size_t j = 1; j <= candidate.size(); ++j) {
                const size_t change = last[j - 1] + (word[i - 1] == candidate[j - 1] ? 0 : 1);
                row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
                if (i > 1 && j > 1 && word[i - 1] == candidate[j - 2] && word[i - 2] == candidate[j - 1])
                    row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        // Words that have nothing in common are no slips of one another, however short.
        if (row.back() < best_distance && row.back() < std::max(word.size(), candidate.size())) {
            best_distance = row.back();
            best = candidate;
        }
    }
    return best;
}

}  // namespace millrace
