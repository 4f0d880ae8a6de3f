#include "oracle.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdio>
#include <stdexcept>
#include <cstring>
#include <memory>

namespace millrace::nf::nids::regex::test {

Oracle::Oracle(std::string_view pattern, std::string_view flags) {
    // Without its own possessive runs: 10.42 takes a \R* before \s for one, against its manual.
    uint32_t options = PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NO_AUTO_POSSESS;
    for (char flag : flags) {
        if (flag == 'i') options |= PCRE2_CASELESS;
        if (flag == 'm') options |= PCRE2_MULTILINE;
        if (flag == 's') options |= PCRE2_DOTALL;
        if (flag == 'x') options |= PCRE2_EXTENDED;
        if (flag == 'A') options |= PCRE2_ANCHORED;
        if (flag == 'E') options |= PCRE2_DOLLAR_ENDONLY;
        if (flag == 'G') options |= PCRE2_UNGREEDY;
    }
    int code = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &code, &offset,
                          nullptr);
    if (code_ == nullptr) {
        char message[256];
        pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
        error_ = std::string(message) + " at " + std::to_string(offset);
    }
}

Oracle::~Oracle() { pcre2_code_free(code_); }

bool Oracle::search(std::string_view data, uint32_t start, MatchEnd& end) const {
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
        pcre2_match_data_create_from_pattern(code_, nullptr), pcre2_match_data_free);
    const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
        pcre2_match_context_create(nullptr), pcre2_match_context_free);
    pcre2_set_match_limit(context.get(), 300000);
    const int result = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(data.data()), data.size(), start, 0, match.get(),
                                   context.get());
    end.reset();
    if (result == PCRE2_ERROR_NOMATCH) return true;
    if (result < 0) return false;
    end = static_cast<uint32_t>(pcre2_get_ovector_pointer(match.get())[1]);
    return true;
}

RegexResult search(const RegexSet& set, uint32_t program, std::string_view data, uint32_t start, uint32_t* match_end) {
    // The image is made anew only when the set has grown.
    struct Tables {
        RegexTables regex;
    };
    static Image image;
    static Tables* tables = nullptr;
    static const RegexSet* owner = nullptr;
    static size_t words = 0;
    if (tables == nullptr || owner != &set || words != set.code_words() || program == 0) {
        tables = &image.start<Tables>();
        set.attach(image, tables->regex);
        owner = &set;
        words = set.code_words();
    }
    const std::unique_ptr<uint8_t[]> copy(new uint8_t[data.size()]);
    if (!data.empty()) std::memcpy(copy.get(), data.data(), data.size());
    const auto by = [&](auto lanes) {
        uint32_t end = *match_end;
        const RegexResult result = regex_search(copy.get(), static_cast<uint32_t>(data.size()), start, program,
                                                tables->regex, &end, lanes);
        return std::pair(result, end);
    };
    // However many lanes share the work, to the step at which the budget ends.
    const auto alone = by(Lanes<1>{});
    if (by(Lanes<8>{}) != alone || by(Lanes<32>{}) != alone)
        throw std::logic_error("lanes disagree about \"" + printable(data) + "\"");
    *match_end = alone.second;
    return alone.first;
}

std::string words(const MatchEnd& end) { return end ? "match to " + std::to_string(*end) : "no match"; }
std::string words(RegexResult result, uint32_t match_end) {
    if (result == RegexResult::limit) return "limit";
    return words(result == RegexResult::match ? MatchEnd(match_end) : MatchEnd());
}

std::string printable(std::string_view bytes) {
    std::string text;
    for (char c : bytes) {
        char buffer[8];
        const bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
        std::snprintf(buffer, sizeof buffer, plain ? "%c" : "\\x%02x", static_cast<uint8_t>(c));
        text += buffer;
    }
    return text;
}

}  // namespace millrace::nf::nids::regex::test
