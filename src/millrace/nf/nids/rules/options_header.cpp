// Options about headers: flow, flags, ttl, itype, and the like.
#include <algorithm>
#include <cctype>

#include "millrace/nf/nids/rules/rule_builder.hpp"

namespace millrace::nf::nids {
namespace {

void read_flow(RuleBuilder& builder, const Option& option) {
    static constexpr std::pair<std::string_view, uint16_t> kWords[] = {{"established", RuleHeader::kEstablished},
                                                                       {"not_established", RuleHeader::kNotEstablished},
                                                                       {"to_server", RuleHeader::kToServer},
                                                                       {"from_client", RuleHeader::kToServer},
                                                                       {"to_client", RuleHeader::kToClient},
                                                                       {"from_server", RuleHeader::kToClient},
                                                                       {"only_frag", RuleHeader::kOnlyFragments},
                                                                       {"no_frag", RuleHeader::kNoFragments},
                                                                       {"stateless", 0},
                                                                       {"no_stream", 0},
                                                                       {"only_stream", 0}};
    for (const Word& word : split_commas(option.value, option.value_at)) {
        const auto found = std::find_if(std::begin(kWords), std::end(kWords),
                                        [&](const auto& w) { return w.first == word.text; });
        if (found == std::end(kWords))
            throw RuleError{word.at, "'" + std::string(word.text) + "' says nothing of a flow",
                            "such as established, to_server"};
        builder.rule.header |= found->second;
        if (found->first == "no_stream") builder.rule.no_stream = true;
    }
}

/// Letters to bits, as `flags` and `fragbits` write them.
uint32_t read_letters(const Word& word, const std::pair<char, uint32_t>* letters, size_t count, char zero) {
    uint32_t bits = 0;
    for (const char letter : word.text) {
        if (letter == zero || letter == ' ') continue;
        const auto found = std::find_if(letters, letters + count, [&](const auto& l) {
            return l.first == std::toupper(static_cast<unsigned char>(letter));
        });
        if (found == letters + count)
            throw RuleError{word.at, "'" + std::string(1, letter) + "' is not one of these bits"};
        bits |= found->second;
    }
    return bits;
}

void read_bits(RuleBuilder& builder, const Option& option, Field field, const std::pair<char, uint32_t>* letters,
               size_t count, uint32_t all) {
    const auto parts = split_commas(option.value, option.value_at);
    Word set = parts[0];
    char how = 0;
    const auto is_sign = [](char c) { return c == '!' || c == '+' || c == '*'; };
    if (!set.text.empty() && is_sign(set.text.front())) {
        how = set.text.front();
        set = {trim(set.text.substr(1)), set.at + 1};
    } else if (!set.text.empty() && is_sign(set.text.back())) {
        how = set.text.back();
        set.text = trim(set.text.substr(0, set.text.size() - 1));
    }
    if (set.text.empty()) throw RuleError{option.at, std::string(option.keyword) + " names no bit"};
    const uint32_t bits = read_letters(set, letters, count, '0');
    const uint32_t ignored = parts.size() > 1 ? read_letters(parts[1], letters, count, '0') : 0;
    FieldMask mask{field, all & ~ignored, bits, Comparison::equal};
    if (how == '+') mask.mask = bits & ~ignored, mask.value = mask.mask;
    if (how == '*') mask.comparison = Comparison::any_bit;
    if (how == '!') mask.comparison = Comparison::none_bit;
    builder.add(mask, option);
}

void add_range(RuleBuilder& builder, const Option& option, Field field) {
    const NumberRange range = read_range({option.value, option.value_at});
    builder.add(FieldRange{field, range.low, range.high, range.negated}, option);
}

void read_ip_protocol(RuleBuilder& builder, const Option& option) {
    static constexpr std::pair<std::string_view, uint32_t> kNames[] = {
        {"icmp", 1},   {"igmp", 2}, {"ipip", 4},       {"tcp", 6},    {"udp", 17},  {"gre", 47},
        {"esp", 50},   {"ah", 51},  {"ipv6-icmp", 58}, {"icmp6", 58}, {"ospf", 89}, {"pim", 103},
        {"sctp", 132}, {"egp", 8},  {"igp", 9},        {"ipv6", 41},  {"rsvp", 46}, {"vrrp", 112}};
    std::string_view text = option.value;
    const bool negated = text.starts_with('!');
    if (negated) text = trim(text.substr(1));
    std::string name(text);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const auto& [known, number] : kNames)
        if (known == name) return void(builder.add(FieldRange{Field::ip_protocol, number, number, negated}, option));
    if (!name.empty() && std::isalpha(static_cast<unsigned char>(name[0])))
        return builder.rule.refuse("ip_proto", name);
    add_range(builder, option, Field::ip_protocol);
}

}  // namespace

NumberRange read_range(const Word& word) {
    NumberRange range;
    std::string_view text = word.text;
    range.negated = text.starts_with('!') && !text.starts_with("!=");
    if (text.starts_with("!=")) {
        range.negated = true;
        text.remove_prefix(1);
    }
    if (range.negated) text = trim(text.substr(1));
    const auto value = [&](std::string_view digits) {
        return static_cast<uint32_t>(read_integer({trim(digits), word.at}, 0, 0xffffffff));
    };
    const auto nothing = [&] { range.low = 1, range.high = 0; };
    const auto between = [&](size_t at, size_t bytes, bool inclusive) {
        range.low = value(text.substr(0, at));
        range.high = value(text.substr(at + bytes));
        if (range.low > range.high)
            throw RuleError{word.at, "the range '" + std::string(word.text) + "' ends before it begins"};
        if (inclusive) return;
        if (range.high - range.low < 2) return nothing();
        ++range.low;
        --range.high;
    };
    if (const size_t inclusive = text.find("<=>"); inclusive != std::string_view::npos) {
        between(inclusive, 3, true);
    } else if (const size_t exclusive = text.find("<>"); exclusive != std::string_view::npos) {
        between(exclusive, 2, false);
    } else if (text.starts_with(">=")) {
        range.low = value(text.substr(2));
    } else if (text.starts_with("<=")) {
        range.high = value(text.substr(2));
    } else if (text.starts_with('>')) {
        const uint32_t low = value(text.substr(1));
        low == 0xffffffff ? nothing() : void(range.low = low + 1);
    } else if (text.starts_with('<')) {
        const uint32_t high = value(text.substr(1));
        high == 0 ? nothing() : void(range.high = high - 1);
    } else if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
        range.low = dash == 0 ? 0 : value(text.substr(0, dash));
        if (dash + 1 < text.size()) range.high = value(text.substr(dash + 1));
        if (range.low > range.high)
            throw RuleError{word.at, "the range '" + std::string(word.text) + "' ends before it begins"};
    } else {
        if (text.starts_with('=')) text.remove_prefix(1);
        range.low = range.high = value(text);
    }
    return range;
}

bool read_header_option(RuleBuilder& builder, const Option& option) {
    static constexpr std::pair<std::string_view, Field> kRanges[] = {{"dsize", Field::payload_bytes},
                                                                     {"ttl", Field::ip_ttl},
                                                                     {"tos", Field::ip_tos},
                                                                     {"id", Field::ip_id},
                                                                     {"fragoffset", Field::ip_fragment_offset},
                                                                     {"seq", Field::tcp_seq},
                                                                     {"ack", Field::tcp_ack},
                                                                     {"window", Field::tcp_window},
                                                                     {"tcp.seq", Field::tcp_seq},
                                                                     {"tcp.ack", Field::tcp_ack},
                                                                     {"itype", Field::icmp_type},
                                                                     {"icode", Field::icmp_code},
                                                                     {"icmp_id", Field::icmp_id},
                                                                     {"icmp_seq", Field::icmp_seq}};
    static constexpr std::pair<char, uint32_t> kTcpFlags[] = {{'F', 1},  {'S', 2},  {'R', 4},  {'P', 8},   {'A', 16},
                                                              {'U', 32}, {'E', 64}, {'2', 64}, {'C', 128}, {'1', 128}};
    static constexpr std::pair<char, uint32_t> kFragmentBits[] = {{'R', 4}, {'D', 2}, {'M', 1}};
    const std::string_view keyword = option.keyword;
    const auto range = std::find_if(std::begin(kRanges), std::end(kRanges),
                                    [&](const auto& r) { return r.first == keyword; });
    if (range != std::end(kRanges)) {
        add_range(builder, option, range->second);
    } else if (keyword == "flow") {
        read_flow(builder, option);
    } else if (keyword == "flags" || keyword == "tcp.flags") {
        read_bits(builder, option, Field::tcp_flags, kTcpFlags, std::size(kTcpFlags), 0xff);
    } else if (keyword == "fragbits") {
        read_bits(builder, option, Field::ip_fragment_bits, kFragmentBits, std::size(kFragmentBits), 7);
    } else if (keyword == "ip_proto") {
        read_ip_protocol(builder, option);
    } else if (keyword == "sameip") {
        builder.add(SameIp{}, option);
    } else {
        return false;
    }
    return true;
}

}  // namespace millrace::nf::nids
