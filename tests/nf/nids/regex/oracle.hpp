// PCRE2, the independent opinion, and our engine, asked in the same way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/nf/nids/regex/compiler.hpp"

struct pcre2_real_code_8;

namespace millrace::nf::nids::regex::test {

/// The offset behind the match; nothing when there is none.
using MatchEnd = std::optional<uint32_t>;

/// A pattern compiled by PCRE2.
class Oracle {
public:
    Oracle(std::string_view pattern, std::string_view flags);
    ~Oracle();
    Oracle(const Oracle&) = delete;
    Oracle& operator=(const Oracle&) = delete;

    bool compiled() const { return code_ != nullptr; }
    const std::string& error() const { return error_; }
    /// False when PCRE2 gave up at its own limit; else `end` is its answer.
    bool search(std::string_view data, uint32_t start, MatchEnd& end) const;

private:
    pcre2_real_code_8* code_ = nullptr;
    std::string error_;
};

/// Our engine on a copy of `data` that ends where its allocation ends, so that a sanitizer sees each read too far.
RegexResult search(const RegexSet& set, uint32_t program, std::string_view data, uint32_t start, uint32_t* match_end);

/// "no match", "match to 7", "limit".
std::string words(RegexResult result, uint32_t match_end);
std::string words(const MatchEnd& end);
/// Bytes as C would write them.
std::string printable(std::string_view bytes);

}  // namespace millrace::nf::nids::regex::test
