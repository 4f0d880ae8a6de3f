// Options about what other packets have left: flowbits, stream_size, flowint, and the like.
#include <algorithm>
#include <cctype>

#include "millrace/nf/nids/rules/rule_builder.hpp"

namespace millrace::nf::nids {
namespace {

/// Names of bits, joined by '|' or, where all of them are meant, by '&'.
void read_bit_names(FlowBits& bits, const Word& names) {
    bits.all = names.text.find('&') != std::string_view::npos;
    if (bits.all && names.text.find('|') != std::string_view::npos)
        throw RuleError{names.at, "either '|' or '&' stands between names of flowbits"};
    for (size_t at = 0; at <= names.text.size();) {
        const size_t end = std::min(names.text.find(bits.all ? '&' : '|', at), names.text.size());
        const std::string_view name = trim(names.text.substr(at, end - at));
        if (name.empty()) throw RuleError{names.at, "the name of a flowbit is missing"};
        bits.names.emplace_back(name);
        at = end + 1;
    }
}

void read_flow_bits(RuleBuilder& builder, const Option& option) {
    static constexpr std::pair<std::string_view, StateVerb> kVerbs[] = {{"isset", StateVerb::is_set},
                                                                        {"isnotset", StateVerb::is_not_set},
                                                                        {"set", StateVerb::set},
                                                                        {"unset", StateVerb::unset},
                                                                        {"toggle", StateVerb::toggle}};
    const auto words = split_commas(option.value, option.value_at);
    const Word& verb = words[0];
    if (verb.text == "noalert") return void(builder.rule.silent = true);
    // Snort 2.9 knows groups of bits.
    if (verb.text == "setx" || verb.text == "reset" || (words.size() > 2 && verb.text.starts_with("is")))
        return builder.rule.refuse("flowbits of a group");
    const auto found = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                    [&](const auto& known) { return known.first == verb.text; });
    if (found == std::end(kVerbs))
        throw RuleError{verb.at, "'" + std::string(verb.text) + "' is nothing that flowbits does",
                        "it is set, unset, toggle, isset, isnotset or noalert"};
    if (words.size() < 2) throw RuleError{verb.at, "flowbits:" + std::string(verb.text) + " names no bit"};
    FlowBits bits;
    bits.verb = found->second;
    read_bit_names(bits, words[1]);
    if (!bits.asks() && bits.names.size() > 1 && !bits.all)
        throw RuleError{words[1].at, "which of these bits is it?", "several are joined by '&'"};
    builder.rule.flow_bits.push_back(std::move(bits));
}

/// hostbits: setting them is harmless, as no rule that asks is applied.
void read_other_bits(RuleBuilder& builder, const Option& option) {
    const auto words = split_commas(option.value, option.value_at);
    const std::string_view verb = words[0].text;
    const std::string keyword(option.keyword);
    if (verb == "noalert") {
        builder.rule.silent = true;
    } else if (verb == "set" || verb == "setx" || verb == "unset" || verb == "toggle" || verb == "reset") {
        builder.sets_other_state = true;
    } else if (verb == "isset" || verb == "isnotset") {
        builder.rule.refuse(keyword + " " + std::string(verb) + ": needs the packets before");
    } else {
        throw RuleError{words[0].at, "'" + std::string(verb) + "' is nothing that " + keyword + " does",
                        "it is set, unset, toggle, isset, isnotset or noalert"};
    }
}

template <class Value, size_t kCount>
const Value* find_word(const std::pair<std::string_view, Value> (&known)[kCount], std::string_view word) {
    const auto found = std::find_if(std::begin(known), std::end(known), [&](const auto& k) { return k.first == word; });
    return found == std::end(known) ? nullptr : &found->second;
}

void read_flow_int(RuleBuilder& builder, const Option& option) {
    using enum StateVerb;
    static constexpr std::pair<std::string_view, std::pair<StateVerb, Comparison>> kVerbs[] = {
        {"isset", {int_is_set, {}}},
        {"notset", {int_is_not_set, {}}},
        {"isnotset", {int_is_not_set, {}}},
        {"=", {int_becomes, {}}},
        {"+", {int_gains, {}}},
        {"-", {int_loses, {}}},
        {"==", {int_compares, Comparison::equal}},
        {"!=", {int_compares, Comparison::not_equal}},
        {"<", {int_compares, Comparison::less}},
        {"<=", {int_compares, Comparison::less_equal}},
        {">", {int_compares, Comparison::greater}},
        {">=", {int_compares, Comparison::greater_equal}}};
    const auto words = split_commas(option.value, option.value_at);
    if (words.size() < 2 || words[0].text.empty())
        throw RuleError{option.at, "flowint needs a name and what is asked of it", "such as flowint:count,>,10"};
    const auto* const verb = find_word(kVerbs, words[1].text);
    if (verb == nullptr)
        throw RuleError{words[1].at, "'" + std::string(words[1].text) + "' is nothing that flowint does",
                        "it is ==, !=, <, <=, >, >=, =, +, -, isset or notset"};
    FlowInt own{.verb = verb->first, .comparison = verb->second, .name = std::string(words[0].text), .other = {}};
    const bool has_operand = own.verb != int_is_set && own.verb != int_is_not_set;
    if (words.size() != (has_operand ? 3 : 2))
        throw RuleError{words[1].at, has_operand ? "a number, or the name of one, follows the sign and nothing else"
                                                 : "nothing follows " + std::string(words[1].text)};
    if (has_operand) {
        const Word& operand = words[2];
        const char first = operand.text.empty() ? '\0' : operand.text.front();
        if (std::isalpha(static_cast<unsigned char>(first)) || first == '_') own.other = std::string(operand.text);
        else own.value = static_cast<uint32_t>(read_integer(operand, 0, 0xffffffff));
    }
    builder.rule.flow_ints.push_back(std::move(own));
}

/// The number behind "expire".
uint32_t read_expiry(const Word& word) {
    const auto parts = split_words(word.text, word.at);
    if (parts.size() != 2 || parts[0].text != "expire")
        throw RuleError{word.at, "'" + std::string(word.text) + "' says nothing of xbits", "such as expire 60"};
    return static_cast<uint32_t>(read_integer(parts[1], 1, 0xffffffff));
}

void read_host_bits(RuleBuilder& builder, const Option& option) {
    using enum StateVerb;
    using Track = HostBit::Track;
    static constexpr std::pair<std::string_view, StateVerb> kVerbs[] = {
        {"set", set}, {"unset", unset}, {"toggle", toggle}, {"isset", is_set}, {"isnotset", is_not_set}};
    static constexpr std::pair<std::string_view, Track> kTracks[] = {
        {"ip_src", Track::source}, {"ip_dst", Track::destination}, {"ip_pair", Track::pair}};
    const auto words = split_commas(option.value, option.value_at);
    if (words[0].text == "noalert") return void(builder.rule.silent = true);
    const StateVerb* const verb = find_word(kVerbs, words[0].text);
    if (verb == nullptr)
        throw RuleError{words[0].at, "'" + std::string(words[0].text) + "' is nothing that xbits does",
                        "it is set, unset, toggle, isset, isnotset or noalert"};
    if (words.size() < 3 || words.size() > 4 || words[1].text.empty())
        throw RuleError{words[0].at, "xbits names a bit, and whose it is", "such as xbits:set,name,track ip_src"};
    const auto track = split_words(words[2].text, words[2].at);
    if (track.size() == 2 && track[0].text == "track" && track[1].text == "tx")
        return builder.rule.refuse("xbits of a transaction");
    const Track* const found = track.size() == 2 && track[0].text == "track" ? find_word(kTracks, track[1].text)
                                                                             : nullptr;
    if (found == nullptr)
        throw RuleError{words[2].at, "'" + std::string(words[2].text) + "' does not say whose bit it is",
                        "it is track ip_src, track ip_dst or track ip_pair"};
    HostBit bit{.verb = *verb, .name = std::string(words[1].text), .track = *found};
    if (words.size() == 4) bit.seconds = read_expiry(words[3]);
    builder.rule.host_bits.push_back(std::move(bit));
}

void read_stream_size(RuleBuilder& builder, const Option& option) {
    static constexpr std::pair<std::string_view, StreamEnds> kEnds[] = {{"client", StreamEnds::client},
                                                                        {"server", StreamEnds::server},
                                                                        {"both", StreamEnds::both},
                                                                        {"either", StreamEnds::either}};
    static constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
        {"<", Comparison::less},           {"<=", Comparison::less_equal}, {"=", Comparison::equal},
        {">=", Comparison::greater_equal}, {">", Comparison::greater},     {"!=", Comparison::not_equal},
        {"!", Comparison::not_equal}};
    const auto words = split_commas(option.value, option.value_at);
    if (words.size() == 2) return builder.rule.refuse("stream_size in the language of Snort 3");
    if (words.size() != 3)
        throw RuleError{option.at, "stream_size needs 3 values", "such as stream_size:server,<,1000"};
    const StreamEnds* const ends = find_word(kEnds, words[0].text);
    if (ends == nullptr)
        throw RuleError{words[0].at, "'" + std::string(words[0].text) + "' is no end of a stream",
                        "it is client, server, both or either"};
    const Comparison* const comparison = find_word(kComparisons, words[1].text);
    if (comparison == nullptr)
        throw RuleError{words[1].at, "'" + std::string(words[1].text) + "' is not a comparison",
                        "it is <, <=, =, !=, >= or >"};
    const auto bytes = static_cast<uint32_t>(read_integer(words[2], 0, 0xffffffff));
    builder.rule.stream_sizes.push_back({*ends, *comparison, bytes});
}

}  // namespace

bool read_state_option(RuleBuilder& builder, const Option& option) {
    const std::string_view keyword = option.keyword;
    if (keyword == "flowbits") {
        read_flow_bits(builder, option);
    } else if (keyword == "stream_size") {
        read_stream_size(builder, option);
    } else if (keyword == "xbits") {
        read_host_bits(builder, option);
    } else if (keyword == "hostbits") {
        read_other_bits(builder, option);
    } else if (keyword == "flowint") {
        read_flow_int(builder, option);
    } else {
        return false;
    }
    return true;
}

}  // namespace millrace::nf::nids
