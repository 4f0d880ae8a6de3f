// Any pattern on any bytes: nothing breaks, and where PCRE2 takes the pattern too, it finds the same.
//
// Input: a byte of flags, a byte with the length of the pattern, the pattern, a byte with the start, the data.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/entry.hpp"
#include "millrace/nf/nids/regex/compiler.hpp"

namespace regex_fuzz {

using namespace millrace::nf::nids::regex;

struct Flag {
    char letter;
    uint32_t option;
};
const Flag kFlags[] = {{'i', PCRE2_CASELESS}, {'m', PCRE2_MULTILINE}, {'s', PCRE2_DOTALL},        {'x', PCRE2_EXTENDED},
                       {'A', PCRE2_ANCHORED}, {'G', PCRE2_UNGREEDY},  {'E', PCRE2_DOLLAR_ENDONLY}};

struct Search {
    std::string pattern, flags, data;
    uint32_t options = PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NO_AUTO_POSSESS;
    uint32_t start = 0;
};

Search search_of(const uint8_t* input, size_t size) {
    Search search;
    for (size_t i = 0; i < std::size(kFlags); ++i) {
        if ((input[0] >> i & 1) == 0) continue;
        search.flags += kFlags[i].letter;
        search.options |= kFlags[i].option;
    }
    const size_t pattern_bytes = std::min<size_t>(input[1], size - 3);
    search.pattern.assign(reinterpret_cast<const char*>(input) + 2, pattern_bytes);
    const uint8_t* rest = input + 2 + pattern_bytes;
    search.data.assign(reinterpret_cast<const char*>(rest) + 1, static_cast<size_t>(input + size - rest - 1));
    search.start = static_cast<uint32_t>(*rest % (search.data.size() + 1));
    return search;
}

/// The answer of PCRE2: an end, -1 for none, -2 when it has no answer.
long oracle_answer(const Search& search) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    const std::unique_ptr<pcre2_code, void (*)(pcre2_code*)> code(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(search.pattern.data()), search.pattern.size(), search.options,
                      &error, &offset, nullptr),
        pcre2_code_free);
    if (!code) return -2;
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
        pcre2_match_data_create_from_pattern(code.get(), nullptr), pcre2_match_data_free);
    const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
        pcre2_match_context_create(nullptr), pcre2_match_context_free);
    pcre2_set_match_limit(context.get(), 100000);
    const int result = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(search.data.data()), search.data.size(),
                                   search.start, 0, match.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) return -1;
    return result < 0 ? -2 : static_cast<long>(pcre2_get_ovector_pointer(match.get())[1]);
}

MILLRACE_FUZZER(regex)(const uint8_t* input, size_t size) {
    if (size < 4) return 0;
    const Search search = search_of(input, size);
    RegexSet set;
    const RegexCompileResult compiled = set.add(search.pattern, search.flags);
    if (!compiled) return 0;
    struct Tables {
        RegexTables regex;
    };
    millrace::nf::Image image;
    Tables& tables = image.start<Tables>();
    set.attach(image, tables.regex);
    // Its own allocation, so that a read too far is seen.
    const std::vector<uint8_t> data(search.data.begin(), search.data.end());
    uint32_t end = 0;
    const RegexResult result = regex_search(data.data(), static_cast<uint32_t>(data.size()), search.start,
                                            *compiled.program, tables.regex, &end);
    if (result == RegexResult::limit) return 0;
    const long found = result == RegexResult::match ? static_cast<long>(end) : -1;
    const long expected = oracle_answer(search);
    if (expected == -2 || expected == found) return 0;
    std::fprintf(stderr, "/%s/%s from %u: %ld, PCRE2: %ld\n", search.pattern.c_str(), search.flags.c_str(),
                 search.start, found, expected);
    std::abort();
}

}  // namespace regex_fuzz
