#include "millrace/nf/nids/rules/address_set.hpp"

#include <bit>
#include <charconv>
#include <type_traits>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/base/text/prefix.hpp"

namespace millrace::nf::nids {
namespace {

constexpr int kMaxDepth = 16;

struct Piece {
    std::string_view text;
    size_t at;
};

Piece trimmed(std::string_view text, size_t at) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
        text.remove_prefix(1);
        ++at;
    }
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return {text, at};
}

/// The parts between commas that stand in no inner brackets.
std::vector<Piece> split_list(std::string_view text, size_t at) {
    std::vector<Piece> pieces;
    size_t start = 0;
    int depth = 0;
    for (size_t i = 0; i <= text.size(); ++i) {
        if (i < text.size() && text[i] == '[') ++depth;
        if (i < text.size() && text[i] == ']' && --depth < 0) throw RuleError{at + i, "']' without '['"};
        if (i == text.size() || (text[i] == ',' && depth == 0)) {
            const Piece piece = trimmed(text.substr(start, i - start), at + start);
            if (piece.text.empty()) throw RuleError{piece.at, "an element of the list is missing"};
            pieces.push_back(piece);
            start = i + 1;
        }
    }
    if (depth > 0) throw RuleError{at, "'[' without ']'"};
    return pieces;
}

Wide wide(const std::array<uint8_t, 16>& bytes) {
    Wide value = 0;
    for (const uint8_t byte : bytes) value = value << 8 | byte;
    return value;
}

void add(AddressRanges& to, const AddressRanges& other) {
    to.v4 = to.v4 | other.v4;
    to.v6 = to.v6 | other.v6;
}
void add(PortRanges& to, const PortRanges& other) { to = to | other; }
void subtract(AddressRanges& from, const AddressRanges& other) {
    from.v4 = from.v4 - other.v4;
    from.v6 = from.v6 - other.v6;
}
void subtract(PortRanges& from, const PortRanges& other) { from = from - other; }
template <class Ranges>
Ranges everything() {
    if constexpr (std::is_same_v<Ranges, PortRanges>) {
        return PortRanges::all();
    } else {
        return AddressRanges::any();
    }
}

AddressRanges read_prefix(std::string_view text, size_t at) {
    if (text == "any") return AddressRanges::any();
    if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
        const AddressRanges low = read_prefix(text.substr(0, dash), at),
                            high = read_prefix(text.substr(dash + 1), at + dash + 1);
        const auto between = [&](const auto& from, const auto& to) {
            if (from.empty() || to.empty() || from.ranges()[0].low > to.ranges()[0].high)
                throw RuleError{at, "'" + std::string(text) + "' is not a range of addresses"};
            return std::decay_t<decltype(from)>({{from.ranges()[0].low, to.ranges()[0].high}});
        };
        if (low.v4.empty()) return {{}, between(low.v6, high.v6)};
        return {between(low.v4, high.v4), {}};
    }
    std::string address(text);
    // Suricata and Snort take a network mask, too: 10.0.0.0/255.0.0.0.
    if (const size_t slash = address.find('/'); slash != std::string::npos) {
        if (const auto mask = parse_prefix(address.substr(slash + 1));
            mask && !mask->ipv6 && address.find('.', slash) != std::string::npos) {
            const uint32_t bits = mask->ipv4();
            if ((~bits & (~bits + 1)) != 0) throw RuleError{at + slash + 1, "the network mask has holes"};
            address = address.substr(0, slash + 1) + std::to_string(std::popcount(bits));
        }
    }
    const auto prefix = parse_prefix(address, true);
    if (!prefix)
        throw RuleError{at, "'" + std::string(text) + "' is not an address",
                        "write 10.0.0.0/8, 2001:db8::/32, [a, b], !a, $NAME or any"};
    AddressRanges ranges;
    if (prefix->ipv6) {
        const Wide low = wide(prefix->bytes),
                   hosts = prefix->length == 0 ? ~Wide{0} : (Wide{1} << (128 - prefix->length)) - 1;
        ranges.v6 = RangeList<Wide>({{low, low | hosts}});
    } else {
        const uint32_t low = prefix->ipv4(), hosts = prefix->length == 0 ? ~0u : (1u << (32 - prefix->length)) - 1;
        ranges.v4 = RangeList<uint32_t>({{low, low | hosts}});
    }
    return ranges;
}

uint16_t read_port(std::string_view text, size_t at, uint16_t otherwise) {
    const Piece piece = trimmed(text, at);
    if (piece.text.empty()) return otherwise;
    uint16_t value = 0;
    const auto [end, error] = std::from_chars(piece.text.data(), piece.text.data() + piece.text.size(), value);
    if (error != std::errc{} || end != piece.text.data() + piece.text.size())
        throw RuleError{piece.at, "'" + std::string(piece.text) + "' is not a port",
                        "ports are 0 to 65535, ranges low:high, or any"};
    return value;
}

PortRanges read_ports(std::string_view text, size_t at) {
    if (text == "any") return PortRanges::all();
    size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
        const uint16_t port = read_port(text, at, 0);
        return PortRanges({{port, port}});
    }
    const uint16_t low = read_port(text.substr(0, colon), at, 0),
                   high = read_port(text.substr(colon + 1), at + colon + 1, 65535);
    if (low > high) throw RuleError{at, "the range of ports ends before it begins"};
    return PortRanges({{low, high}});
}

}  // namespace

Variables Variables::defaults() {
    Variables variables;
    for (const char* name :
         {"HOME_NET", "EXTERNAL_NET", "HTTP_SERVERS", "SMTP_SERVERS", "SQL_SERVERS", "DNS_SERVERS", "TELNET_SERVERS",
          "SSH_SERVERS", "FTP_SERVERS", "SIP_SERVERS", "SNMP_SERVERS", "AIM_SERVERS", "DC_SERVERS", "DNP3_SERVER",
          "DNP3_CLIENT", "MODBUS_SERVER", "MODBUS_CLIENT", "ENIP_SERVER", "ENIP_CLIENT"})
        variables.set(name, "any");
    variables.set("HTTP_PORTS",
                  "[80,81,311,591,593,901,1220,1414,1830,2301,2381,2809,3128,3702,4343,5250,7001,7145,7510,7777,7779,"
                  "8000,8008,8014,8028,8080,8088,8118,8123,8180,8181,8243,8280,8800,8888,8899,9080,9090,9091,9443,9999,"
                  "11371,55555]");
    variables.set("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]");
    variables.set("SHELLCODE_PORTS", "!80");
    variables.set("ORACLE_PORTS", "1024:");
    variables.set("SSH_PORTS", "22");
    variables.set("FTP_PORTS", "[21,2100,3535]");
    variables.set("SIP_PORTS", "[5060,5061,5600]");
    variables.set("DNP3_PORTS", "20000");
    variables.set("MODBUS_PORTS", "502");
    variables.set("GTP_PORTS", "[2123,2152,3386]");
    variables.set("MAIL_PORTS", "[110,143]");
    variables.set("GENEVE_PORTS", "6081");
    variables.set("VXLAN_PORTS", "4789");
    variables.set("TEREDO_PORTS", "3544");
    return variables;
}

const std::string& Variables::value_of(std::string_view name, size_t at, int depth) const {
    if (depth > kMaxDepth) throw RuleError{at, "variables refer to each other in a circle"};
    const auto found = values_.find(std::string(name));
    if (found != values_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, value] : values_) names.push_back(known);
    const std::string closest = closest_word(std::string(name), names);
    throw RuleError{at, "$" + std::string(name) + " is not defined",
                    closest.empty() ? "define it under 'variables:'"
                                    : "did you mean $" + closest + "? Or define it under 'variables:'"};
}

template <class Ranges, class ReadOne>
Ranges Variables::list(std::string_view whole, size_t whole_at, int depth, const ReadOne& read_one) const {
    if (depth > kMaxDepth) throw RuleError{whole_at, "lists stand too deep in each other"};
    auto [text, at] = trimmed(whole, whole_at);
    if (text.empty()) throw RuleError{at, "an address or a port is missing"};
    if (text.front() == '!') {
        Ranges rest = everything<Ranges>();
        subtract(rest, list<Ranges>(text.substr(1), at + 1, depth + 1, read_one));
        return rest;
    }
    if (text.front() == '$') return list<Ranges>(value_of(text.substr(1), at, depth), at, depth + 1, read_one);
    if (text.front() != '[') return read_one(text, at);
    if (text.back() != ']') throw RuleError{at, "'[' without ']'"};
    Ranges included, excluded;
    bool any_included = false;
    for (const Piece& piece : split_list(text.substr(1, text.size() - 2), at + 1)) {
        if (piece.text.front() == '!') {
            add(excluded, list<Ranges>(piece.text.substr(1), piece.at + 1, depth + 1, read_one));
        } else {
            add(included, list<Ranges>(piece.text, piece.at, depth + 1, read_one));
            any_included = true;
        }
    }
    if (!any_included) included = everything<Ranges>();
    subtract(included, excluded);
    return included;
}

AddressRanges Variables::address_list(std::string_view text, size_t at, int depth) const {
    return list<AddressRanges>(text, at, depth, read_prefix);
}

PortRanges Variables::port_list(std::string_view text, size_t at, int depth) const {
    return list<PortRanges>(text, at, depth, read_ports);
}

}  // namespace millrace::nf::nids
