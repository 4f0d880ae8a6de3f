#include "millrace/nf/nids/regex/compiler.hpp"

#include <algorithm>

#include "millrace/nf/nids/regex/emitter.hpp"

namespace millrace::nf::nids::regex {
namespace {

constexpr size_t kMaxPatternBytes = 16384;
constexpr size_t kMaxCodeWords = size_t{1} << 28;  // what the machine's stack can address

}  // namespace

uint32_t RegexSet::set_index(const ByteSet& set) {
    const auto [place, added] = set_indices_.emplace(set.to_string(), static_cast<uint32_t>(sets_.size() / kSetWords));
    if (added) {
        for (uint32_t word = 0; word < kSetWords; ++word) {
            uint32_t bits = 0;
            for (uint32_t bit = 0; bit < 32; ++bit) bits |= static_cast<uint32_t>(set[word * 32 + bit]) << bit;
            sets_.push_back(bits);
        }
    }
    return place->second;
}

RegexCompileResult RegexSet::add(std::string_view pattern, std::string_view flags) {
    std::string sorted(flags);
    std::ranges::sort(sorted);
    const std::pair<std::string, std::string> key{pattern, sorted};
    if (const auto known = programs_.find(key); known != programs_.end()) return {known->second, {}, 0};
    const size_t sets_before = sets_.size();
    try {
        if (pattern.size() > kMaxPatternBytes) throw Refusal{"longer than 16384 bytes", kMaxPatternBytes};
        const std::vector<uint32_t> program = emit_program(parse_pattern(pattern, flags),
                                                           [this](const ByteSet& set) { return set_index(set); });
        if (code_.size() + program.size() > kMaxCodeWords) throw Refusal{"too many programs in one set", 0};
        const uint32_t at = static_cast<uint32_t>(code_.size());
        code_.insert(code_.end(), program.begin(), program.end());
        programs_.emplace(key, at);
        return {at, {}, 0};
    } catch (const Refusal& refusal) {
        sets_.resize(sets_before);
        std::erase_if(set_indices_, [&](const auto& entry) { return entry.second >= sets_before / kSetWords; });
        return {std::nullopt, refusal.reason, refusal.offset};
    }
}

void RegexSet::attach(nf::Image& image, RegexTables& tables) const {
    image.attach(tables.code, code_);
    image.attach(tables.sets, sets_);
}

}  // namespace millrace::nf::nids::regex
