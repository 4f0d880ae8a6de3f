#include "millrace/nf/router/route_file.hpp"

#include <array>
#include <charconv>

#include "millrace/base/files/file.hpp"

namespace millrace::nf::router {
namespace {

constexpr std::string_view kBlank = " \t";

struct Words {
    std::array<std::string_view, 3> word;
    std::array<uint32_t, 3> column{};
    unsigned count = 0;
};

/// The first three words of a line; a fourth would be as wrong as the third.
Words split(std::string_view line) {
    Words words;
    size_t at = 0;
    while (words.count < 3) {
        at = line.find_first_not_of(kBlank, at);
        if (at == std::string_view::npos) break;
        size_t end = line.find_first_of(kBlank, at);
        if (end == std::string_view::npos) end = line.size();
        words.word[words.count] = line.substr(at, end - at);
        words.column[words.count++] = static_cast<uint32_t>(at + 1);
        at = end;
    }
    return words;
}

/// Reads `a.b.c.d/n` in its plain form; everything else is left to parse_prefix. A full table has a
/// million lines, and this makes no copy of them.
bool parse_plain_ipv4(std::string_view text, Prefix& prefix) {
    const char* at = text.data();
    const char* end = at + text.size();
    for (unsigned i = 0; i < 5; ++i) {
        const char* begin = at;
        unsigned value = 0;
        for (; at < end && *at >= '0' && *at <= '9' && at - begin < 3; ++at)
            value = value * 10 + static_cast<unsigned>(*at - '0');
        if (at == begin || (*begin == '0' && at - begin > 1) || value > (i < 4 ? 255u : 32u)) return false;
        if (i == 4) {
            prefix.length = static_cast<uint8_t>(value);
            break;
        }
        prefix.bytes[i] = static_cast<uint8_t>(value);
        if (at == end || *at++ != (i < 3 ? '.' : '/')) return false;
    }
    const uint32_t host_bits = prefix.length == 32 ? 0 : 0xffffffffu >> prefix.length;
    return at == end && (prefix.ipv4() & host_bits) == 0;
}

Diagnostic bad_prefix(std::string_view text, Location where) {
    const std::string quoted = "'" + std::string(text) + "'";
    if (const auto masked = parse_prefix(text, true))
        return {std::move(where), quoted + " has bits set behind its length", "write " + masked->text()};
    return {std::move(where), quoted + " is not an IP prefix",
            "a line is a prefix such as 192.0.2.0/24, and a next hop if there is one"};
}

}  // namespace

void read_routes(std::string_view text, const std::string& file, Mistakes& mistakes,
                 const std::function<void(const FileRoute&)>& f) {
    for_each_line(text, [&](std::string_view line, uint32_t number) {
        const Words words = split(line);
        if (words.count == 0 || words.word[0][0] == ';' || words.word[0][0] == '#') return;
        FileRoute route;
        route.line = number;
        route.column = words.column[0];
        if (!parse_plain_ipv4(words.word[0], route.prefix)) {
            const auto prefix = parse_prefix(words.word[0]);
            if (!prefix) return mistakes.add(bad_prefix(words.word[0], {file, number, words.column[0]}));
            route.prefix = *prefix;
        }
        if (words.count > 2)
            return mistakes.add({{file, number, words.column[2]},
                                 "there is more on this line than a prefix and a next hop",
                                 "several next hops are written in the configuration, as a list behind 'via'"});
        route.next_hop = words.word[1];
        route.next_hop_column = words.column[1];
        f(route);
    });
}

}  // namespace millrace::nf::router
