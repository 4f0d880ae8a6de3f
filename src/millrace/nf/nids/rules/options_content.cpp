// content, its modifiers, and pcre.
#include <algorithm>

#include "millrace/nf/nids/rules/rule_builder.hpp"

namespace millrace::nf::nids {
namespace {

/// One modifier, as an option of its own (`depth:5;`) or within the content's (Snort 3: `, depth 5`).
bool modify(RuleBuilder& builder, Content& content, std::string_view name, const Word& value) {
    if (name == "nocase") {
        content.nocase = true;
    } else if (name == "offset") {
        content.offset = builder.number(value, -kMaxOffset, kMaxOffset);
    } else if (name == "depth") {
        content.depth = builder.number(value, 1, kMaxOffset);
    } else if (name == "distance") {
        content.distance = builder.number(value, -kMaxOffset, kMaxOffset);
    } else if (name == "within") {
        content.within = builder.number(value, 0, kMaxOffset);
    } else if (name == "startswith") {
        content.offset = Number{0, -1};
        content.depth = Number{static_cast<int64_t>(content.bytes.size()), -1};
    } else if (name == "endswith") {
        content.ends_with = true;
    } else if (name == "fast_pattern") {
        content.fast_pattern = true;
        if (value.text.empty() || value.text == "only") return true;
        const auto part = split_commas(value.text, value.at);
        if (part.size() != 2)
            throw RuleError{value.at, "fast_pattern takes nothing, 'only', or an offset and a length"};
        content.fast_part = std::pair(static_cast<uint32_t>(read_integer(part[0], 0, kMaxOffset)),
                                      static_cast<uint32_t>(read_integer(part[1], 1, kMaxOffset)));
    } else if (name == "fast_pattern_offset" || name == "fast_pattern_length") {
        content.fast_pattern = true;  // only a hint on which part to look for first
    } else {
        return name == "rawbytes";
    }
    return true;
}

void read_content(RuleBuilder& builder, const Option& option, Buffer buffer) {
    const auto parts = split_commas(option.value, option.value_at);
    Content content;
    Word text = parts[0];
    if (text.text.starts_with('!')) {
        content.negated = true;
        text.text.remove_prefix(1);
        const size_t blanks = text.text.size() - trim(text.text).size();
        text = {trim(text.text), text.at + 1 + blanks};
    }
    content.bytes = content_bytes(text.text, text.at);
    for (size_t i = 1; i < parts.size(); ++i) {
        const auto words = split_words(parts[i].text, parts[i].at);
        if (words.empty()) throw RuleError{parts[i].at, "a modifier is missing"};
        const Word value = words.size() > 1 ? words[1] : Word{{}, words[0].at + words[0].text.size()};
        if (!modify(builder, content, words[0].text, value))
            throw RuleError{words[0].at, "'" + std::string(words[0].text) + "' does not modify a content"};
    }
    Term& term = builder.add(std::move(content), option);
    if (buffer != Buffer::payload) term.buffer = buffer;
    builder.last_content = static_cast<int>(builder.rule.terms.size()) - 1;
}

struct RegexFlag {
    char letter;
    Buffer buffer;
};
/// Flags that name a buffer (Snort 2.9 manual, section 3.5.30; Suricata's keyword pcre).
constexpr RegexFlag kRegexBuffers[] = {
    {'U', Buffer::http_uri},        {'I', Buffer::http_uri},          {'H', Buffer::http_header},
    {'D', Buffer::http_header},     {'P', Buffer::http_request_body}, {'Q', Buffer::http_response_body},
    {'M', Buffer::http_method},     {'C', Buffer::http_cookie},       {'K', Buffer::http_cookie},
    {'V', Buffer::http_user_agent}, {'W', Buffer::http_host},         {'Z', Buffer::http_host_raw},
    {'S', Buffer::http_stat_code},  {'Y', Buffer::http_stat_msg}};

void read_regex(RuleBuilder& builder, const Option& option) {
    std::string_view value = option.value;
    size_t at = option.value_at;
    Regex regex;
    const auto strip_not = [&] {
        if (!value.starts_with('!')) return;
        regex.negated = true;
        value = trim(value.substr(1));
        ++at;
    };
    strip_not();
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
        value = value.substr(1, value.size() - 2);
        ++at;
    }
    strip_not();
    if (value.starts_with('m') && value.size() > 1) value.remove_prefix(1);  // m/…/ with any delimiter
    if (value.empty()) throw RuleError{at, "a pcre reads \"/expression/flags\""};
    const size_t last = value.rfind(value.front());
    if (last == 0) throw RuleError{at, "the expression is not closed", "a pcre reads \"/expression/flags\""};
    // A captured group may be named behind the flags (Suricata: `, flow:name`).
    std::string_view flags = trim(value.substr(last + 1));
    if (flags.find(',') != std::string_view::npos) {
        builder.rule.refuse("pcre that captures");
        flags = trim(flags.substr(0, flags.find(',')));
    }
    regex.pattern = std::string(value.substr(1, last - 1));
    // ';' and '"' may stand escaped for the sake of the rule language; the expression means the same.
    Buffer buffer = builder.buffer;
    for (const char flag : flags) {
        const auto named = std::find_if(std::begin(kRegexBuffers), std::end(kRegexBuffers),
                                        [&](const RegexFlag& f) { return f.letter == flag; });
        if (flag == 'R') {
            regex.relative = true;
        } else if (named != std::end(kRegexBuffers)) {
            buffer = named->buffer;
        } else if (std::string_view("imsxAEG").find(flag) != std::string_view::npos) {
            regex.flags += flag;
        } else if (flag != 'B' && flag != 'O') {  // rawbytes; without the match limit
            throw RuleError{at + last, "'" + std::string(1, flag) + "' is not a flag of pcre"};
        }
    }
    builder.add(std::move(regex), option).buffer = buffer;
}

}  // namespace

bool read_content_option(RuleBuilder& builder, const Option& option) {
    if (option.keyword == "content") {
        read_content(builder, option, Buffer::payload);
    } else if (option.keyword == "uricontent") {
        read_content(builder, option, Buffer::http_uri);
    } else if (option.keyword == "pcre") {
        read_regex(builder, option);
    } else {
        static constexpr std::string_view kModifiers[] = {
            "nocase", "offset", "depth", "distance", "within", "startswith", "endswith", "fast_pattern", "rawbytes"};
        if (std::find(std::begin(kModifiers), std::end(kModifiers), option.keyword) == std::end(kModifiers))
            return false;
        if (option.keyword == "rawbytes") return true;
        Term& term = builder.modified(option);
        modify(builder, std::get<Content>(term.option), option.keyword, {option.value, option.value_at});
    }
    return true;
}

}  // namespace millrace::nf::nids
