// The set of all regular expressions of an NF: compiled one by one, handed to a device as one table.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/nids/regex/device.hpp"
#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex {

/// A program, or why the pattern isn't supported.
struct RegexCompileResult {
    std::optional<uint32_t> program;  ///< for regex_search
    std::string reason;
    size_t offset = 0;  ///< where in the pattern, bytes from 0

    explicit operator bool() const { return program.has_value(); }
};

class RegexSet {
public:
    /// Compiles a pattern, given without its slashes. `flags` are letters of "imsxAEG" in any order; every
    /// other letter is refused: what R and the buffer letters of Snort and Suricata (U I P H D M C K S Y B O …)
    /// say of where to search is the caller's to see to and to strip.
    /// The same pattern with the same flags gives the same program again. A refused one leaves the set as it was.
    RegexCompileResult add(std::string_view pattern, std::string_view flags);

    /// Hands the programs over; `tables` is a member of the image's Tables.
    void attach(nf::Image& image, RegexTables& tables) const;

    /// Words of all programs.
    size_t code_words() const { return code_.size(); }
    /// Words of all sets of bytes.
    size_t set_words() const { return sets_.size(); }

private:
    uint32_t set_index(const ByteSet& set);

    std::vector<uint32_t> code_;
    std::vector<uint32_t> sets_ = std::vector<uint32_t>(kSetWords, 0xffffffffu);  // set 0
    std::map<std::string, uint32_t> set_indices_;
    std::map<std::pair<std::string, std::string>, uint32_t> programs_;
};

}  // namespace millrace::nf::nids::regex
