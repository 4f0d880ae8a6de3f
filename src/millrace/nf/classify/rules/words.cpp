#include "millrace/nf/classify/rules/words.hpp"

#include <charconv>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nf::classify {
namespace {

struct ProtocolName {
    const char* name;
    uint8_t number;
};
/// By the names of IANA's registry; where a number has several names, the first is the one written.
constexpr ProtocolName kProtocols[] = {
    {"icmp", ip::kProtocolIcmp},
    {"igmp", 2},
    {"ipip", ip::kProtocolIpv4},
    {"tcp", ip::kProtocolTcp},
    {"udp", ip::kProtocolUdp},
    {"ipv6", ip::kProtocolIpv6},
    {"gre", ip::kProtocolGre},
    {"esp", ip::kProtocolEsp},
    {"ah", ip::kProtocolAh},
    {"icmpv6", ip::kProtocolIcmpv6},
    {"icmp6", ip::kProtocolIcmpv6},
    {"ipv6-icmp", ip::kProtocolIcmpv6},
    {"eigrp", 88},
    {"ospf", 89},
    {"pim", 103},
    {"vrrp", 112},
    {"l2tp", 115},
    {"sctp", ip::kProtocolSctp},
    {"udplite", 136},
};
/// By Connection.
constexpr const char* kConnectionNames[kConnections] = {"untracked", "new", "established", "related", "invalid"};
constexpr std::string_view kFlagLetters = "FSRPAUEW";  // by bit, from FIN = 1 (RFC 9293, section 3.1)

std::string quoted(std::string_view word) { return "'" + std::string(word) + "'"; }

/// The whole of `digits` as a decimal number of at most `most`; false when it is none.
bool parse_number(std::string_view digits, uint32_t most, uint32_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size() && value <= most;
}

uint16_t parse_port(std::string_view digits, size_t offset) {
    uint32_t port = 0;
    if (!parse_number(digits, 0xffff, port))
        throw WordMistake{offset, quoted(digits) + " is not a port",
                          "write a number from 0 to 65535, or a range such as 8000-8099"};
    return static_cast<uint16_t>(port);
}

uint8_t parse_letters(std::string_view letters, size_t offset) {
    uint8_t flags = 0;
    for (size_t i = 0; i < letters.size(); ++i) {
        const size_t bit = kFlagLetters.find(letters[i]);
        if (bit == std::string_view::npos)
            throw WordMistake{offset + i, quoted(letters.substr(i, 1)) + " is not a TCP flag",
                              "the flags are F(IN), S(YN), R(ST), P(SH), A(CK), U(RG), E(CE) and (C)W(R)"};
        flags = static_cast<uint8_t>(flags | 1u << bit);
    }
    return flags;
}

std::string letters_of(uint8_t flags) {
    std::string letters;
    for (size_t bit = 0; bit < kFlagLetters.size(); ++bit)
        if (flags >> bit & 1) letters += kFlagLetters[bit];
    return letters;
}

}  // namespace

Prefix parse_address(std::string_view word) {
    if (const auto prefix = parse_prefix(word)) return *prefix;
    if (const auto masked = parse_prefix(word, true))
        throw WordMistake{0, quoted(word) + " has bits set behind its length", "write " + masked->text()};
    throw WordMistake{0, quoted(word) + " is not an IP address or prefix",
                      "write it as 192.0.2.0/24, 2001:db8::/32, or 'any'"};
}

PortRange parse_ports(std::string_view word) {
    if (word == "any") return {};
    const size_t dash = word.find('-');
    PortRange range;
    range.low = parse_port(word.substr(0, dash), 0);
    range.high = dash == std::string_view::npos ? range.low : parse_port(word.substr(dash + 1), dash + 1);
    if (range.low > range.high)
        throw WordMistake{0, quoted(word) + " ends before it begins",
                          "write " + std::to_string(range.high) + "-" + std::to_string(range.low)};
    return range;
}

ByteMatch parse_protocol(std::string_view word) {
    if (word == "any" || word == "ip") return {};
    std::vector<std::string> names = {"any", "ip"};
    for (const ProtocolName& known : kProtocols) {
        if (word == known.name) return {known.number, 0xff};
        names.push_back(known.name);
    }
    uint32_t number = 0;
    if (parse_number(word, 0xff, number)) return {static_cast<uint8_t>(number), 0xff};
    const std::string near = closest_word(std::string(word), names);
    throw WordMistake{0, quoted(word) + " is not a protocol",
                      near.empty() ? "write tcp, udp, icmp, another name, or a number from 0 to 255"
                                   : "did you mean '" + near + "'?"};
}

ByteMatch parse_tcp_flags(std::string_view word) {
    const size_t slash = word.find('/');
    if (slash == std::string_view::npos || slash + 1 == word.size())
        throw WordMistake{0, quoted(word) + " does not say which TCP flags count",
                          "write the flags that are set, '/', and those that count: S/SA"};
    const ByteMatch match{parse_letters(word.substr(0, slash), 0), parse_letters(word.substr(slash + 1), slash + 1)};
    if ((match.value & ~match.mask) != 0)
        throw WordMistake{0, quoted(word) + " wants flags set that do not count", "name them behind the '/' too"};
    return match;
}

Connection parse_connection(std::string_view word) {
    std::string all;
    for (unsigned i = 0; i < kConnections; ++i) {
        if (word == kConnectionNames[i]) return static_cast<Connection>(i);
        all += (all.empty() ? "" : ", ") + std::string(kConnectionNames[i]);
    }
    const std::string near = closest_word(std::string(word),
                                          {std::begin(kConnectionNames), std::end(kConnectionNames)});
    throw WordMistake{0, quoted(word) + " is not a state of connections",
                      near.empty() ? "the states are " + all : "did you mean '" + near + "'?"};
}

ConnectionSet set_of(const std::vector<Connection>& connections) {
    if (connections.empty()) return {};
    ConnectionSet set{0};
    for (const Connection connection : connections)
        set.bits = static_cast<uint8_t>(set.bits | 1u << static_cast<unsigned>(connection));
    return set;
}

std::string ports_text(const PortRange& ports) {
    if (ports.any()) return "any";
    if (ports.low == ports.high) return std::to_string(ports.low);
    return std::to_string(ports.low) + "-" + std::to_string(ports.high);
}

std::string protocol_text(const ByteMatch& protocol) {
    if (protocol.any()) return "ip";
    if (protocol.mask != 0xff) return std::to_string(protocol.value) + "/" + std::to_string(protocol.mask);
    for (const ProtocolName& known : kProtocols)
        if (known.number == protocol.value) return known.name;
    return std::to_string(protocol.value);
}

std::string tcp_flags_text(const ByteMatch& flags) { return letters_of(flags.value) + "/" + letters_of(flags.mask); }

std::string connections_text(const ConnectionSet& connections) {
    if (connections.any()) return "any";
    std::string text;
    for (unsigned i = 0; i < kConnections; ++i)
        if (connections.contains(static_cast<Connection>(i)))
            text += (text.empty() ? "" : ",") + std::string(kConnectionNames[i]);
    return text;
}

}  // namespace millrace::nf::classify
