#include "millrace/nf/nids/compile/rare_window.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::nf::nids {
namespace {

/// A part is much rarer when traffic has it eight times less often, by the estimate.
constexpr double kMuchRarer = 3;
/// Bytes that are left of a content at least: shorter ones are found more often than the whole.
constexpr size_t kLeast = 6;
/// What a byte tells that is the same as the one before.
constexpr double kRepeated = 2;
/// How much rarer four bytes seem for each time that half as many rules have them.
constexpr double kByRules = 1.5;

/// About how many bits a byte of traffic tells: few for what text and binary protocols are full of.
double bits_of_byte(char byte) {
    const auto is_one_of = [&](std::string_view bytes) { return bytes.find(byte) != std::string_view::npos; };
    if (byte >= 'a' && byte <= 'z') return is_one_of("etaoinsr") ? 4.5 : 5.5;
    if (byte == ' ' || byte == 0) return 4;
    if ((byte >= '0' && byte <= '9') || is_one_of("./-=:,\"'\r\n<>")) return 6;
    return 8;
}

bool is_run(std::string_view bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte == bytes.front(); });
}

}  // namespace

void RareWindows::learn(std::string_view content) {
    for (size_t i = 0; i + kBytes <= content.size(); ++i) ++rules_[std::string(content.substr(i, kBytes))];
}

double RareWindows::bits_of(std::string_view window) const {
    if (is_run(window)) return 0;
    double bits = 0;
    for (size_t i = 0; i < window.size(); ++i)
        bits += i > 0 && window[i] == window[i - 1] ? kRepeated : bits_of_byte(window[i]);
    const auto known = rules_.find(std::string(window));
    return bits - (known == rules_.end() ? 0 : kByRules * std::log2(1 + known->second));
}

std::string_view RareWindows::from_the_rarest(std::string_view content) const {
    if (content.size() < kBytes) return content;
    size_t best = 0;
    double most = bits_of(content.substr(0, kBytes)) + kMuchRarer;
    for (size_t i = 1; i + kLeast <= content.size(); ++i) {
        const double bits = bits_of(content.substr(i, kBytes));
        if (bits <= most) continue;
        most = bits;
        best = i;
    }
    return content.substr(best);
}

std::string_view RareWindows::without_a_run(std::string_view content) {
    if (is_run(content)) return content;
    while (content.size() > kBytes && is_run(content.substr(0, kBytes))) content.remove_prefix(1);
    return content;
}

}  // namespace millrace::nf::nids
