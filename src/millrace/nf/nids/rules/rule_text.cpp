#include "millrace/nf/nids/rules/rule_text.hpp"

#include <algorithm>
#include <array>

#include "millrace/base/files/file.hpp"

namespace millrace::nf::nids {
namespace {

constexpr uint32_t kMaxLines = 1000;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Behind the quoted text that begins at `at`: its closing quote is one that nothing but ',', ';' or ')' follows.
size_t skip_quoted(std::string_view text, size_t at) {
    for (size_t i = at + 1; i < text.size(); ++i) {
        if (text[i] == '\\') {
            ++i;
        } else if (text[i] == '"') {
            size_t next = i + 1;
            while (next < text.size() && is_blank(text[next])) ++next;
            if (next == text.size() || text[next] == ',' || text[next] == ';' || text[next] == ')') return i + 1;
        }
    }
    return std::string_view::npos;
}

/// The end of an option's value, its ';', or npos.
size_t value_end(std::string_view text, size_t at) {
    bool begins = true;  // a quote opens only at the start of the value or behind a comma
    for (size_t i = at; i < text.size(); ++i) {
        const char c = text[i];
        if (begins && c == '"') {
            i = skip_quoted(text, i);
            if (i == std::string_view::npos) return i;
            --i;
            begins = false;
        } else if (c == '\\') {
            ++i;
        } else if (c == ';') {
            return i;
        } else if (c == ',') {
            begins = true;
        } else if (!is_blank(c) && c != '!') {
            begins = false;
        }
    }
    return std::string_view::npos;
}

/// Where the options are closed: the first ')' between two options. npos when they are not.
size_t options_end(std::string_view text, size_t open) {
    size_t at = open + 1;
    while (true) {
        while (at < text.size() && (is_blank(text[at]) || text[at] == ';')) ++at;
        if (at >= text.size()) return std::string_view::npos;
        if (text[at] == ')') return at;
        while (at < text.size() && text[at] != ':' && text[at] != ';' && text[at] != ')') ++at;
        if (at < text.size() && text[at] == ':') at = value_end(text, at + 1);
        if (at >= text.size() || text[at] == ')') return at < text.size() ? at : std::string_view::npos;
    }
}

bool begins_rule(std::string_view line) {
    static constexpr std::array<std::string_view, 14> kActions = {
        "alert",     "log",       "pass",       "drop",     "reject",  "sdrop",   "block",
        "rejectsrc", "rejectdst", "rejectboth", "activate", "dynamic", "rewrite", "accept"};
    const std::string_view word = line.substr(0, line.find_first_of(" \t:"));
    return std::find(kActions.begin(), kActions.end(), word) != kActions.end();
}

bool is_open(std::string_view text) {
    const size_t open = text.find('(');
    return open != std::string_view::npos && options_end(text, open) == std::string_view::npos;
}

}  // namespace

std::string_view trim(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

Location RuleText::location(const std::string& file, size_t at) const {
    Location where{file, 0, 0};
    for (const Mark& mark : marks) {
        if (mark.at > at && where.line != 0) break;
        where.line = mark.line;
        where.column = mark.column + static_cast<uint32_t>(at - std::min(at, mark.at));
    }
    return where;
}

std::vector<RuleText> split_rules(std::string_view file_text) {
    std::vector<RuleText> rules;
    bool escaped = false, open = false;  // whether the last rule goes on
    for_each_line(file_text, [&](std::string_view line, uint32_t number) {
        const size_t indent = std::min(line.find_first_not_of(" \t\r"), line.size());
        std::string_view words = trim(line);
        if (number == 1 && words.starts_with("\xef\xbb\xbf")) words.remove_prefix(3);
        if (open && (begins_rule(words) || rules.back().marks.size() > kMaxLines)) open = false;
        if (!escaped && (words.empty() || words.front() == '#')) return;
        if (!escaped && !open) rules.emplace_back();
        RuleText& rule = rules.back();
        rule.marks.push_back({rule.text.size(), number, static_cast<uint32_t>(indent + 1)});
        escaped = words.ends_with('\\');
        if (escaped) words.remove_suffix(1);
        rule.text += words;
        rule.text += ' ';
        open = !escaped && is_open(rule.text);
    });
    return rules;
}

std::vector<Word> split_words(std::string_view text, size_t at) {
    std::vector<Word> words;
    int depth = 0;
    size_t start = std::string_view::npos;
    for (size_t i = 0; i <= text.size(); ++i) {
        const bool blank = i == text.size() || (is_blank(text[i]) && depth <= 0);
        if (i < text.size()) depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
        if (!blank && start == std::string_view::npos) start = i;
        if (blank && start != std::string_view::npos) {
            words.push_back({text.substr(start, i - start), at + start});
            start = std::string_view::npos;
        }
    }
    return words;
}

RuleParts split_rule(std::string_view rule) {
    RuleParts parts;
    const size_t open = rule.find('(');
    if (open == std::string_view::npos)
        throw RuleError{0, "a rule's options are missing",
                        "a rule reads: action protocol src ports -> dst ports (options)"};
    parts.header = split_words(rule.substr(0, open), 0);
    const size_t close = options_end(rule, open);
    if (close == std::string_view::npos)
        throw RuleError{open, "the options are not closed", "a quote, a ';' or the ')' is missing"};
    const std::string_view rest = trim(rule.substr(close + 1));
    if (!rest.empty() && rest.front() != '#')
        throw RuleError{static_cast<size_t>(rest.data() - rule.data()), "there is text behind the closing ')'"};
    size_t at = open + 1;
    while (true) {
        while (at < close && (is_blank(rule[at]) || rule[at] == ';')) ++at;
        if (at >= close) return parts;
        Option option;
        option.at = at;
        while (at < close && rule[at] != ':' && rule[at] != ';') ++at;
        option.keyword = trim(rule.substr(option.at, at - option.at));
        if (at < close && rule[at] == ':') {
            const size_t end = value_end(rule, at + 1);
            option.has_value = true;
            option.value = trim(rule.substr(at + 1, std::min(end, close) - at - 1));
            option.value_at = option.value.empty() ? at + 1 : static_cast<size_t>(option.value.data() - rule.data());
            at = std::min(end, close);
        }
        if (at >= close)
            throw RuleError{option.at, "the option '" + std::string(option.keyword) + "' does not end with ';'"};
        parts.options.push_back(option);
    }
}

std::vector<Word> split_commas(std::string_view value, size_t at) {
    std::vector<Word> words;
    size_t start = 0;
    bool begins = true;
    const auto add = [&](size_t end) {
        const std::string_view word = trim(value.substr(start, end - start));
        words.push_back({word, word.empty() ? at + start : at + static_cast<size_t>(word.data() - value.data())});
        start = end + 1;
    };
    for (size_t i = 0; i < value.size(); ++i) {
        if (begins && value[i] == '"') {
            const size_t end = skip_quoted(value, i);
            if (end == std::string_view::npos) break;
            i = end - 1;
            begins = false;
        } else if (value[i] == ',') {
            add(i);
            begins = true;
        } else if (!is_blank(value[i]) && value[i] != '!') {
            begins = false;
        }
    }
    add(value.size());
    return words;
}

std::string unquote(std::string_view text) {
    text = trim(text);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool escape = text[i] == '\\' && i + 1 < text.size() &&
                            std::string_view("\";\\:").find(text[i + 1]) != std::string_view::npos;
        if (escape) ++i;
        plain += text[i];
    }
    return plain;
}

std::string content_bytes(std::string_view quoted, size_t at) {
    if (quoted.size() < 2 || quoted.front() != '"' || quoted.back() != '"')
        throw RuleError{at, "a content stands in double quotes"};
    const std::string_view text = quoted.substr(1, quoted.size() - 2);
    std::string bytes;
    int high = -1;
    bool hex = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const size_t here = at + 1 + i;
        if (c == '|') {
            if (high >= 0) throw RuleError{here, "half a byte in |hex|"};
            hex = !hex;
        } else if (hex) {
            if (is_blank(c)) continue;
            const int digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) throw RuleError{here, "'" + std::string(1, c) + "' is no hexadecimal digit"};
            if (high >= 0) bytes += static_cast<char>(high << 4 | digit);
            high = high >= 0 ? -1 : digit;
        } else if (c == '\\' && i + 1 < text.size()) {
            bytes += text[++i];
        } else {
            bytes += c;
        }
    }
    if (hex) throw RuleError{at, "|hex| is not closed"};
    if (bytes.empty()) throw RuleError{at, "a content is empty"};
    return bytes;
}

}  // namespace millrace::nf::nids
