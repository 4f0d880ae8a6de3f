#include "millrace/nf/nids/regex/parse/byte_class.hpp"

namespace millrace::nf::nids::regex {
namespace {

ByteSet bytes_of(std::string_view text) {
    ByteSet set;
    for (char c : text) set.set(static_cast<uint8_t>(c));
    return set;
}

const ByteSet kUpper = byte_range('A', 'Z');
const ByteSet kLower = byte_range('a', 'z');
const ByteSet kDigit = byte_range('0', '9');
const ByteSet kSpace = bytes_of(" \t\n\v\f\r");

}  // namespace

ByteSet one_byte(uint8_t byte) { return byte_range(byte, byte); }

ByteSet byte_range(uint8_t from, uint8_t to) {
    ByteSet set;
    for (unsigned byte = from; byte <= to; ++byte) set.set(byte);
    return set;
}

ByteSet both_cases(const ByteSet& set) {
    ByteSet both = set;
    for (unsigned upper = 'A'; upper <= 'Z'; ++upper) {
        const bool has = set[upper] || set[upper + 32];
        both[upper] = has;
        both[upper + 32] = has;
    }
    return both;
}

std::optional<ByteSet> escape_class(char letter) {
    switch (letter) {
        case 'd': return kDigit;
        case 'D': return ~kDigit;
        case 'w': return kUpper | kLower | kDigit | one_byte('_');
        case 'W': return ~*escape_class('w');
        case 's': return kSpace;
        case 'S': return ~kSpace;
        case 'h': return bytes_of(" \t\xa0");
        case 'H': return ~*escape_class('h');
        case 'v': return byte_range(0x0a, 0x0d) | one_byte(0x85);
        case 'V': return ~*escape_class('v');
        case 'N': return ~one_byte('\n');
        default: return std::nullopt;
    }
}

std::optional<ByteSet> posix_class(std::string_view name) {
    const ByteSet graph = byte_range(0x21, 0x7e), alnum = kUpper | kLower | kDigit;
    if (name == "alpha") return kUpper | kLower;
    if (name == "lower") return kLower;
    if (name == "upper") return kUpper;
    if (name == "alnum") return alnum;
    if (name == "ascii") return byte_range(0x00, 0x7f);
    if (name == "blank") return bytes_of(" \t");
    if (name == "cntrl") return byte_range(0x00, 0x1f) | one_byte(0x7f);
    if (name == "digit") return kDigit;
    if (name == "graph") return graph;
    if (name == "print") return byte_range(0x20, 0x7e);
    if (name == "punct") return graph & ~alnum;
    if (name == "space") return kSpace;
    if (name == "word") return alnum | one_byte('_');
    if (name == "xdigit") return kDigit | byte_range('a', 'f') | byte_range('A', 'F');
    return std::nullopt;
}

}  // namespace millrace::nf::nids::regex
