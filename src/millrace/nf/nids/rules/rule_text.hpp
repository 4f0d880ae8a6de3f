// From a rule file's text to single rules, and from a rule to its header words and options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/nf/nids/rules/address_set.hpp"

namespace millrace::nf::nids {

/// One rule, which may span lines: joined into one text that remembers where its parts stood.
struct RuleText {
    struct Mark {
        size_t at;
        uint32_t line, column;
    };
    std::string text;
    std::vector<Mark> marks;
    Location location(const std::string& file, size_t at) const;
};

/// The rules of a file. Empty lines and comments are left out. A rule goes on behind a '\' at the end
/// of a line (Snort 2, Suricata) or while its parentheses are open (Snort 3).
std::vector<RuleText> split_rules(std::string_view file_text);

struct Word {
    std::string_view text;
    size_t at = 0;
};

/// `keyword:value;` or `keyword;`
struct Option {
    std::string_view keyword;
    std::string_view value;
    size_t at = 0;  ///< of the keyword in the rule's text
    size_t value_at = 0;
    bool has_value = false;
};

/// A rule's words before the parenthesis, and its options. Throws RuleError.
struct RuleParts {
    std::vector<Word> header;
    std::vector<Option> options;
};
RuleParts split_rule(std::string_view rule);

/// The parts of a value between commas outside of quotes, without blanks around.
std::vector<Word> split_commas(std::string_view value, size_t at);
/// The words of a text.
std::vector<Word> split_words(std::string_view text, size_t at);
std::string_view trim(std::string_view text);
/// The text without quotes around and without escapes.
std::string unquote(std::string_view text);
/// The bytes of a content: text with escapes and |hex|. Throws RuleError.
std::string content_bytes(std::string_view quoted, size_t at);

}  // namespace millrace::nf::nids
