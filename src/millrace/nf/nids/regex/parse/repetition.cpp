#include "millrace/nf/nids/regex/parse/repetition.hpp"

#include <string>

#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex {
namespace {

constexpr uint32_t kMaxRepeats = 65535;

bool take(std::string_view text, size_t& at, char what) {
    if (at == text.size() || text[at] != what) return false;
    ++at;
    return true;
}

/// Digits; more than kMaxRepeats is told as one more.
std::optional<uint32_t> take_count(std::string_view text, size_t& at) {
    const size_t from = at;
    uint32_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        value = value * 10 + static_cast<uint32_t>(text[at] - '0');
        if (value > kMaxRepeats) value = kMaxRepeats + 1;
    }
    return at > from ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<Repetition> take_counts(std::string_view text, size_t& at) {
    size_t end = at;
    if (!take(text, end, '{')) return std::nullopt;
    const auto least = take_count(text, end);
    if (!least) return std::nullopt;
    uint32_t most = *least;
    if (take(text, end, ',')) most = take_count(text, end).value_or(kUnlimited);
    if (!take(text, end, '}')) return std::nullopt;
    if (*least > kMaxRepeats || (most > kMaxRepeats && most != kUnlimited))
        throw Refusal{"a count above " + std::to_string(kMaxRepeats), at};
    if (*least > most) throw Refusal{"the counts of {} are out of order", at};
    at = end;
    return Repetition{*least, most};
}

std::optional<Repetition> take_repetition(std::string_view text, size_t& at) {
    if (take(text, at, '*')) return Repetition{0, kUnlimited};
    if (take(text, at, '?')) return Repetition{0, 1};
    if (take(text, at, '+')) return Repetition{1, kUnlimited};
    return take_counts(text, at);
}

}  // namespace millrace::nf::nids::regex
