// Which part of a content a filter should look for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace millrace::nf::nids {

/// A filter looks at four bytes with which a pattern begins. Where these are `http` or four zeros, most places of
/// ordinary traffic pass it. So a content is searched for from its rarest four bytes on. How rare four bytes are is
/// estimated: by the bytes themselves, and by how many rules have them in any of their contents.
class RareWindows {
public:
    static constexpr size_t kBytes = 4;

    /// Counts the four bytes of a content of a rule, wherever they stand in it.
    void learn(std::string_view content);
    /// `content` from its rarest four bytes on, if these are much rarer than the first four, and at least kLeast bytes
    /// are left; else all of it.
    std::string_view from_the_rarest(std::string_view content) const;
    /// `content` without what makes it begin with four equal bytes, unless it has no others: in a run of one byte, all
    /// places would pass.
    static std::string_view without_a_run(std::string_view content);

private:
    double bits_of(std::string_view window) const;

    std::unordered_map<std::string, uint32_t> rules_;  ///< that have these four bytes
};

}  // namespace millrace::nf::nids
