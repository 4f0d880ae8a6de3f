#include "millrace/nf/nids/regex/parse/escape.hpp"

#include <algorithm>

#include "millrace/nf/nids/regex/parse/byte_class.hpp"

namespace millrace::nf::nids::regex {
namespace {

int digit_of(char c, int base) {
    int value = 99;
    if (c >= '0' && c <= '9') value = c - '0';
    if (c >= 'a' && c <= 'f') value = c - 'a' + 10;
    if (c >= 'A' && c <= 'F') value = c - 'A' + 10;
    return value < base ? value : -1;
}

char peek(std::string_view text, size_t at) { return at < text.size() ? text[at] : '\0'; }

/// Up to `most` digits.
uint32_t digits(std::string_view text, size_t& at, int base, size_t most, size_t offset) {
    uint32_t value = 0;
    for (size_t i = 0; i < most && digit_of(peek(text, at), base) >= 0; ++i, ++at) {
        value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit_of(text[at], base));
        if (value > 0xff) throw Refusal{"a character above \\xff", offset};
    }
    return value;
}

/// \x{…} and \o{…}; `at` is behind the brace.
uint32_t braced(std::string_view text, size_t& at, int base, size_t offset) {
    const size_t from = at;
    const uint32_t value = digits(text, at, base, text.size(), offset);
    if (at == from || peek(text, at) != '}') throw Refusal{"an escape with a brace that doesn't close", offset};
    ++at;
    return value;
}

/// One end of a range: a byte, or a whole set (which can't be an end).
struct Member {
    ByteSet set;
    int byte = -1;
};

Member posix_member(std::string_view text, size_t& at) {
    const size_t end = text.find(":]", at + 2);
    const bool negated = peek(text, at + 2) == '^';
    const size_t from = at + 2 + (negated ? 1 : 0);
    const std::string_view name = text.substr(from, end - from);
    const auto set = posix_class(name);
    if (!set) throw Refusal{"there is no class [:" + std::string(name) + ":]", at};
    at = end + 2;
    return {negated ? ~*set : *set};
}

/// Whether "[:name:]" stands at `at`: PCRE takes it as one only if nothing but letters stands within.
bool is_posix(std::string_view text, size_t at) {
    if (peek(text, at) != '[' || (peek(text, at + 1) != ':' && peek(text, at + 1) != '.' && peek(text, at + 1) != '='))
        return false;
    const char kind = text[at + 1];
    size_t end = at + 2;
    if (peek(text, end) == '^') ++end;
    while (peek(text, end) >= 'a' && peek(text, end) <= 'z') ++end;
    if (peek(text, end) != kind || peek(text, end + 1) != ']') return false;
    if (kind != ':') throw Refusal{"collating elements are not supported", at};
    return true;
}

Member member(std::string_view text, size_t& at) {
    if (is_posix(text, at)) return posix_member(text, at);
    const char c = text[at++];
    if (c != '\\') return {{}, static_cast<uint8_t>(c)};
    const char letter = peek(text, at);
    if (letter == 'N') throw Refusal{"\\N in a class", at - 1};
    if (const auto set = escape_class(letter)) {
        ++at;
        return {*set};
    }
    return {{}, escaped_byte(text, at, true)};
}

/// Whether a range goes on at `at`: a hyphen that isn't the last in the class.
bool is_range(std::string_view text, size_t at) { return peek(text, at) == '-' && peek(text, at + 1) != ']'; }

bool take(std::string_view text, size_t& at, std::string_view what) {
    if (!text.substr(std::min(at, text.size())).starts_with(what)) return false;
    at += what.size();
    return true;
}

/// \E without \Q says nothing, wherever it stands.
void skip_ends(std::string_view text, size_t& at) {
    while (take(text, at, "\\E")) continue;
}

/// Takes what stands between \Q and \E into `set`.
bool take_quoted(std::string_view text, size_t& at, ByteSet& set) {
    const size_t offset = at;
    if (!take(text, at, "\\Q")) return false;
    while (at < text.size() && !text.substr(at).starts_with("\\E")) set.set(static_cast<uint8_t>(text[at++]));
    at = std::min(at + 2, text.size());
    skip_ends(text, at);
    if (is_range(text, at)) throw Refusal{"a range that starts in \\Q", offset};
    return true;
}

/// What may stand before the first byte of a class. Returns whether the class is negated.
bool class_start(std::string_view text, size_t& at) {
    bool negated = false;
    while (take(text, at, "\\E") || take(text, at, "\\Q\\E") || (!negated && take(text, at, "^")))
        negated = negated || text[at - 1] == '^';
    return negated;
}

}  // namespace

uint8_t escaped_byte(std::string_view text, size_t& at, bool in_class) {
    const size_t offset = at - 1;
    if (at == text.size()) throw Refusal{"\\ at the end", offset};
    const char c = text[at++];
    switch (c) {
        case 'a': return 0x07;
        case 'e': return 0x1b;
        case 'f': return '\f';
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        case 'c': {
            const char control = peek(text, at);
            if (control < 0x20 || control > 0x7e) throw Refusal{"\\c without a character", offset};
            ++at;
            const int upper = control >= 'a' && control <= 'z' ? control - 32 : control;
            return static_cast<uint8_t>(upper ^ 0x40);
        }
        case 'x':
            if (peek(text, at) == '{') return static_cast<uint8_t>(braced(text, ++at, 16, offset));
            return static_cast<uint8_t>(digits(text, at, 16, 2, offset));
        case 'o':
            if (peek(text, at) != '{') throw Refusal{"\\o without {", offset};
            return static_cast<uint8_t>(braced(text, ++at, 8, offset));
        case 'b':
            if (in_class) return 0x08;
            break;
        default: break;
    }
    if (c >= '0' && c <= '7') return static_cast<uint8_t>(digits(text, --at, 8, 3, offset));
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) throw Refusal{"unsupported escape \\" + std::string(1, c), offset};
    return static_cast<uint8_t>(c);
}

ByteSet byte_class(std::string_view text, size_t& at, bool caseless) {
    const size_t offset = at - 1;
    const bool negated = class_start(text, at);
    ByteSet set;
    for (bool first = true;; first = false) {
        skip_ends(text, at);
        if (at >= text.size()) throw Refusal{"class without ]", offset};
        if (take_quoted(text, at, set)) continue;
        if (text[at] == ']' && !first) break;
        const size_t from_offset = at;
        const Member from = member(text, at);
        skip_ends(text, at);
        if (from.byte < 0) {
            set |= from.set;
            continue;
        }
        if (!is_range(text, at) || at + 1 >= text.size()) {
            set.set(static_cast<size_t>(from.byte));
            continue;
        }
        ++at;
        skip_ends(text, at);
        if (at >= text.size()) throw Refusal{"class without ]", offset};
        const Member to = member(text, at);
        if (to.byte < 0) throw Refusal{"a range that ends in a class", from_offset};
        if (to.byte < from.byte) throw Refusal{"a range out of order", from_offset};
        set |= byte_range(static_cast<uint8_t>(from.byte), static_cast<uint8_t>(to.byte));
    }
    ++at;
    if (caseless) set = both_cases(set);
    return negated ? ~set : set;
}

uint64_t decimal(std::string_view text, size_t& at) {
    uint64_t value = 0;
    for (; peek(text, at) >= '0' && peek(text, at) <= '9'; ++at)
        value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(text[at] - '0'), 0xffffffff);
    return value;
}

std::string group_name(std::string_view text, size_t& at, char end) {
    const size_t from = at;
    while (at < text.size() && escape_class('w')->test(static_cast<uint8_t>(text[at]))) ++at;
    const std::string name(text.substr(from, at - from));
    if (name.empty() || (name[0] >= '0' && name[0] <= '9') || name.size() > 32 || peek(text, at) != end)
        throw Refusal{"not the name of a group", from};
    ++at;
    return name;
}

}  // namespace millrace::nf::nids::regex
