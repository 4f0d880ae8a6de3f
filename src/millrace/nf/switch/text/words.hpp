// The words that flows and actions are made of. All throw classify::WordMistake with their place in the line.
#pragma once

#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/base/text/prefix.hpp"
#include "millrace/nf/classify/rules/words.hpp"

namespace millrace::nf::flow_switch {

using classify::WordMistake;

/// A part of a line, and where it begins there.
struct Word {
    std::string_view text;
    size_t offset = 0;

    [[noreturn]] void fail(std::string message, std::string hint = {}) const {
        throw WordMistake{offset, std::move(message), std::move(hint)};
    }
    std::string quoted() const { return "'" + std::string(text) + "'"; }
    Word part(size_t from, size_t count = std::string_view::npos) const {
        return {text.substr(from, count), offset + from};
    }
    /// The parts before and behind the first `sign`; the second is empty where there is none.
    std::pair<Word, Word> split(char sign) const {
        const size_t at = text.find(sign);
        if (at == std::string_view::npos) return {*this, part(text.size())};
        return {part(0, at), part(at + 1)};
    }
    Word trimmed() const {
        const size_t first = text.find_first_not_of(" \t");
        if (first == std::string_view::npos) return part(text.size());
        return part(first, text.find_last_not_of(" \t") + 1 - first);
    }
};

/// Decimal, or hexadecimal behind 0x.
inline uint64_t parse_number(Word word, uint64_t most) {
    const bool hex = word.text.starts_with("0x") || word.text.starts_with("0X");
    const std::string_view digits = word.text.substr(hex ? 2 : 0);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() || value > most)
        word.fail(word.quoted() + " is not a number from 0 to " + std::to_string(most));
    return value;
}

/// `value` or `value/mask`, both up to `most`; the second is the mask.
inline std::pair<uint64_t, uint64_t> parse_masked(Word word, uint64_t most) {
    const auto [value, mask] = word.split('/');
    const uint64_t bits = value.text.size() == word.text.size() ? most : parse_number(mask, most);
    return {parse_number(value, most) & bits, bits};
}

inline uint64_t parse_mac_number(Word word) {
    const auto mac = parse_mac(std::string(word.text));
    if (!mac) word.fail(word.quoted() + " is not a MAC address", "write it as 02:00:00:00:00:01");
    uint64_t value = 0;
    for (const uint8_t byte : *mac) value = value << 8 | byte;
    return value;
}

/// An address alone, in 16 bytes as Prefix holds them.
inline Prefix parse_host(Word word, bool ipv6) {
    const auto prefix = parse_prefix(word.text);
    if (!prefix || prefix->ipv6 != ipv6 || !prefix->is_host())
        word.fail(word.quoted() + " is not an IPv" + (ipv6 ? "6" : "4") + " address");
    return *prefix;
}

}  // namespace millrace::nf::flow_switch
