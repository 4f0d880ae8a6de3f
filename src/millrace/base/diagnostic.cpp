#include "millrace/base/diagnostic.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <utility>

namespace millrace {
namespace {

std::string render_all(const std::vector<Diagnostic>& diagnostics) {
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics) {
        if (!text.empty()) text += '\n';
        text += diagnostic.render();
    }
    return text;
}

/// Overwrites the values of keys in a line of YAML: any mistake may stand in the same line as one.
void mask_keys(std::string& line) {
    for (const std::string_view name : {"key", "nonce"}) {
        for (size_t at = line.find(name); at != std::string::npos; at = line.find(name, at)) {
            at += name.size();
            const size_t colon = line.find_first_not_of("\"' ", at);
            if (colon == std::string::npos || line[colon] != ':') continue;
            for (at = colon + 1; at < line.size() && line[at] != ',' && line[at] != '}' && line[at] != '#'; ++at)
                if (line[at] != ' ') line[at] = '*';
        }
    }
}

/// Overwrites what can only be a key, mistyped or not: long words of hexadecimal digits, whatever the field is called.
std::string without_keys(std::string text) {
    constexpr ptrdiff_t kShortestKey = 24;  // no address, number or name has as many digits in a row
    const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    const auto is_digit = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    for (auto at = text.begin(); at != text.end();) {
        const auto begin = std::find_if(at, text.end(), is_letter);
        at = std::find_if_not(begin, text.end(), is_letter);
        if (at - begin >= kShortestKey && 4 * std::count_if(begin, at, is_digit) >= 3 * (at - begin))
            std::fill(begin, at, '*');
    }
    return text;
}

std::string line_of(const Location& where) {
    // Compressed files hold no lines that a person could be shown.
    if (where.file.ends_with(".xz") || where.file.ends_with(".gz")) return {};
    std::error_code error;
    if (!std::filesystem::is_regular_file(where.file, error)) return {};
    std::ifstream in(where.file);
    std::string line;
    for (uint32_t i = 0; i < where.line; ++i)
        if (!std::getline(in, line)) return {};
    for (char& c : line)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    mask_keys(line);
    return without_keys(line);
}

}  // namespace

std::string Diagnostic::render() const {
    std::string text = where.file;
    if (where.line > 0) text += ":" + std::to_string(where.line);
    if (where.line > 0 && where.column > 0) text += ":" + std::to_string(where.column);
    if (!text.empty()) text += ": ";
    text += severity == Severity::error ? "error: " : "warning: ";
    text += without_keys(message);
    std::string line = where.line > 0 && !secret ? line_of(where) : std::string{};
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
    if (!hint.empty()) text += "\n    hint: " + without_keys(hint);
    return text;
}

ConfigError::ConfigError(Diagnostic diagnostic) : ConfigError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(render_all(diagnostics)), diagnostics_(std::move(diagnostics)) {}

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
