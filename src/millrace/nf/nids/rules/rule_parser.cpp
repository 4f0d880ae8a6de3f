#include "millrace/nf/nids/rules/rule_parser.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "millrace/nf/nids/rules/rule_builder.hpp"

namespace millrace::nf::nids {
namespace {

struct Protocol {
    std::string_view name;
    uint16_t header;
    Application application = Application::none;
    std::array<uint16_t, 6> ports{};  ///< 0 ends them
    int ip_protocol = -1;
};

constexpr uint16_t kTcp = RuleHeader::kTcp, kUdp = RuleHeader::kUdp, kBoth = kTcp | kUdp;

/// Applications without a sign of their own in every packet are known by their ports (README.md).
constexpr Protocol kProtocols[] = {
    {"ip", RuleHeader::kAnyProtocol},
    {"ip4", RuleHeader::kAnyProtocol | RuleHeader::kIpv4Only},
    {"ipv4", RuleHeader::kAnyProtocol | RuleHeader::kIpv4Only},
    {"ip6", RuleHeader::kAnyProtocol | RuleHeader::kIpv6Only},
    {"ipv6", RuleHeader::kAnyProtocol | RuleHeader::kIpv6Only},
    {"tcp", kTcp},
    {"tcp-pkt", kTcp},
    {"tcp-stream", kTcp},
    {"udp", kUdp},
    {"icmp", RuleHeader::kIcmp},
    {"icmpv4", RuleHeader::kIcmp | RuleHeader::kIpv4Only},
    {"icmpv6", RuleHeader::kIcmp | RuleHeader::kIpv6Only},
    {"sctp", RuleHeader::kOther, Application::none, {}, 132},
    {"igmp", RuleHeader::kOther, Application::none, {}, 2},
    {"http", kTcp, Application::http},
    {"http1", kTcp, Application::http},
    {"tls", kTcp, Application::tls},
    {"ssl", kTcp, Application::tls},
    {"dns", kBoth, Application::ports, {53}},
    {"mdns", kUdp, Application::ports, {5353}},
    {"smtp", kTcp, Application::ports, {25, 465, 587}},
    {"ftp", kTcp, Application::ports, {21}},
    {"ftp-data", kTcp, Application::ports, {20}},
    {"ssh", kTcp, Application::ports, {22}},
    {"smb", kTcp, Application::ports, {139, 445}},
    {"netbios-ssn", kTcp, Application::ports, {139}},
    {"imap", kTcp, Application::ports, {143, 993}},
    {"pop3", kTcp, Application::ports, {110, 995}},
    {"sip", kBoth, Application::ports, {5060, 5061}},
    {"tftp", kUdp, Application::ports, {69}},
    {"snmp", kUdp, Application::ports, {161, 162}},
    {"ntp", kUdp, Application::ports, {123}},
    {"dhcp", kUdp, Application::ports, {67, 68}},
    {"ike", kUdp, Application::ports, {500, 4500}},
    {"krb5", kBoth, Application::ports, {88}},
    {"ldap", kBoth, Application::ports, {389, 3268}},
    {"rdp", kTcp, Application::ports, {3389}},
    {"rfb", kTcp, Application::ports, {5900, 5901}},
    {"telnet", kTcp, Application::ports, {23}},
    {"mqtt", kTcp, Application::ports, {1883}},
    {"modbus", kTcp, Application::ports, {502}},
    {"dnp3", kTcp, Application::ports, {20000}},
    {"enip", kBoth, Application::ports, {44818}},
    {"nfs", kBoth, Application::ports, {2049}},
    {"pgsql", kTcp, Application::ports, {5432}},
    {"dcerpc", kBoth, Application::ports, {135}},
};
constexpr std::string_view kOtherProtocols[] = {"arp",      "ether",          "pkthdr",    "http2",  "quic",  "file",
                                                "rpc",      "bittorrent-dht", "websocket", "user",   "eth",   "doh2",
                                                "template", "nntp",           "failed",    "bacnet", "decode"};

void read_protocol(Rule& rule, const Word& word) {
    std::string name(word.text);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto found = std::find_if(std::begin(kProtocols), std::end(kProtocols),
                                    [&](const Protocol& p) { return p.name == name; });
    if (found == std::end(kProtocols)) {
        if (std::find(std::begin(kOtherProtocols), std::end(kOtherProtocols), name) == std::end(kOtherProtocols) &&
            name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.:") != std::string::npos)
            throw RuleError{word.at, "'" + name + "' is not a protocol"};
        rule.header |= RuleHeader::kAnyProtocol;
        rule.refuse("protocol " + name);
        return;
    }
    rule.header |= found->header;
    rule.application = found->application;
    if (found->application != Application::none) rule.application_name = name;
    std::vector<PortRanges::Range> ports;
    for (const uint16_t port : found->ports)
        if (port != 0) ports.push_back({port, port});
    rule.application_ports = PortRanges(std::move(ports));
    if (found->ip_protocol >= 0) {
        Term term;
        const auto protocol = static_cast<uint32_t>(found->ip_protocol);
        term.option = FieldRange{Field::ip_protocol, protocol, protocol};
        rule.terms.push_back(term);
    }
}

Action read_action(const Word& word) {
    static constexpr std::pair<std::string_view, Action> kActions[] = {
        {"alert", Action::alert},      {"log", Action::log},          {"pass", Action::pass},
        {"drop", Action::drop},        {"block", Action::drop},       {"sdrop", Action::silent_drop},
        {"reject", Action::reject},    {"rejectsrc", Action::reject}, {"rejectdst", Action::reject},
        {"rejectboth", Action::reject}};
    std::vector<std::string> known;
    for (const auto& [name, action] : kActions) {
        if (name == word.text) return action;
        known.emplace_back(name);
    }
    const std::string closest = closest_word(std::string(word.text), known);
    throw RuleError{
        word.at, "'" + std::string(word.text) + "' is not an action",
        closest.empty() ? "a rule begins with alert, log, pass, drop or reject" : "did you mean '" + closest + "'?"};
}

void read_header(Rule& rule, const std::vector<Word>& words, const Variables& variables) {
    if (words.empty()) throw RuleError{0, "the rule's action is missing"};
    // Suricata's firewall mode: accept:hook, drop:flow.
    const bool firewall = words[0].text.find(':') != std::string_view::npos || words[0].text == "accept";
    if (firewall) rule.refuse("action " + std::string(words[0].text));
    else rule.action = read_action(words[0]);
    if (words.size() == 1) {
        throw RuleError{words[0].at, "the protocol is missing"};
    }
    read_protocol(rule, words[1]);
    rule.src = rule.dst = AddressRanges::any();
    rule.src_ports = rule.dst_ports = PortRanges::all();
    if (words.size() == 2) return;  // Snort 3: any addresses
    if (words.size() != 7)
        throw RuleError{words.back().at, "a rule's header has " + std::to_string(words.size()) + " words, not 7",
                        "action protocol address port -> address port (options)"};
    const std::string_view direction = words[4].text;
    if (direction != "->" && direction != "<>" && direction != "=>")
        throw RuleError{words[4].at, "'" + std::string(direction) + "' is not a direction", "it is -> or <>"};
    rule.both_ways = direction == "<>";
    rule.src = variables.addresses(words[2].text, words[2].at);
    rule.src_ports = variables.ports(words[3].text, words[3].at);
    rule.dst = variables.addresses(words[5].text, words[5].at);
    rule.dst_ports = variables.ports(words[6].text, words[6].at);
    if (rule.src.empty() || rule.dst.empty()) rule.refuse("the header's addresses are none");
    if (rule.src_ports.empty() || rule.dst_ports.empty()) rule.refuse("the header's ports are none");
}

/// Whether `http_uri;` and the like select a buffer (Snort 3) or modify the content before them.
bool is_snort3(const RuleParts& parts) {
    if (parts.header.size() == 2) return true;
    bool content = false;
    for (const Option& option : parts.options) {
        if (option.keyword == "service" || option.keyword == "rem" || option.keyword == "bufferlen") return true;
        if (option.keyword == "content") {
            if (split_commas(option.value, 0).size() > 1) return true;
            content = true;
        }
        const auto buffer = find_buffer(option.keyword);
        if (buffer && buffer->modifier && !content) return true;
    }
    return false;
}

/// What can only be judged once all options are known.
void check_whole(RuleBuilder& builder) {
    Rule& rule = builder.rule;
    const bool alerts = rule.action == Action::alert || rule.action == Action::log;
    if (rule.silent && alerts && !rule.sets_state())
        rule.refuse(builder.sets_other_state ? "it only sets hostbits" : "noalert: it never alerts");
    if (rule.action == Action::pass) rule.silent = true;
    if (rule.both_ways) rule.header |= RuleHeader::kBothWays;
}

}  // namespace

Rule parse_rule(std::string_view text, const Variables& variables) {
    const RuleParts parts = split_rule(text);
    RuleBuilder builder;
    read_header(builder.rule, parts.header, variables);
    builder.snort3 = is_snort3(parts);
    for (const Option& option : parts.options) {
        if (option.keyword.empty()) throw RuleError{option.at, "an option has no keyword"};
        const bool known = read_description(builder, option) || read_content_option(builder, option) ||
                           read_byte_option(builder, option) || read_header_option(builder, option) ||
                           read_buffer_option(builder, option) || read_state_option(builder, option);
        if (!known) builder.rule.refuse("keyword " + std::string(option.keyword));
    }
    check_whole(builder);
    return std::move(builder.rule);
}

Term& RuleBuilder::modified(const Option& option) {
    if (last_content < 0) throw RuleError{option.at, "'" + std::string(option.keyword) + "' has no content before it"};
    return rule.terms[static_cast<size_t>(last_content)];
}

Number RuleBuilder::number(const Word& word, int64_t least, int64_t most) {
    const auto slot = std::find(slots.begin(), slots.end(), word.text);
    if (slot != slots.end()) return {0, static_cast<int>(slot - slots.begin())};
    if (!word.text.empty() &&
        (std::isalpha(static_cast<unsigned char>(word.text.front())) || word.text.front() == '_')) {
        rule.refuse("a variable that byte_extract does not set", std::string(word.text));
        return {};
    }
    return {read_integer(word, least, most), -1};
}

int64_t read_integer(const Word& word, int64_t least, int64_t most) {
    std::string_view digits = word.text;
    const bool minus = digits.starts_with('-');
    if (minus || digits.starts_with('+')) digits.remove_prefix(1);
    const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
    if (hex) digits.remove_prefix(2);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    if (digits.empty() || error == std::errc::invalid_argument || end != digits.data() + digits.size())
        throw RuleError{word.at, "'" + std::string(word.text) + "' is not a number"};
    const bool fits = error == std::errc{} && value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const int64_t number = fits ? (minus ? -static_cast<int64_t>(value) : static_cast<int64_t>(value)) : 0;
    if (!fits || number < least || number > most)
        throw RuleError{word.at, std::string(word.text) + " is not between " + std::to_string(least) + " and " +
                                     std::to_string(most)};
    return number;
}

}  // namespace millrace::nf::nids
