// isdataat, byte_test, byte_jump, byte_extract, bsize, bufferlen, urilen.
#include <algorithm>

#include "millrace/nf/nids/rules/rule_builder.hpp"

namespace millrace::nf::nids {
namespace {

void read_data_at(RuleBuilder& builder, const Option& option) {
    DataAt data_at;
    const auto parts = split_commas(option.value, option.value_at);
    Word number = parts[0];
    if (number.text.starts_with('!')) {
        data_at.negated = true;
        number = {trim(number.text.substr(1)), number.at + 1};
    }
    data_at.offset = builder.number(number, 0, kMaxOffset);
    for (size_t i = 1; i < parts.size(); ++i) {
        if (parts[i].text == "relative") data_at.relative = true;
        else if (parts[i].text != "rawbytes")
            throw RuleError{parts[i].at, "'" + std::string(parts[i].text) + "' does not modify isdataat"};
    }
    builder.add(data_at, option);
}

/// A word that all byte_* options take.
bool read_format(RuleBuilder& builder, NumberFormat& format, const std::vector<Word>& words) {
    const std::string_view name = words[0].text;
    if (name == "relative") {
        format.relative = true;
    } else if (name == "little") {
        format.little_endian = true;
    } else if (name == "string") {
        if (format.string == 0) format.string = Op::kDecimal;
    } else if (name == "hex") {
        format.string = Op::kHex;
    } else if (name == "dec") {
        format.string = Op::kDecimal;
    } else if (name == "oct") {
        format.string = Op::kOctal;
    } else if (name == "bitmask") {
        if (words.size() != 2) throw RuleError{words[0].at, "bitmask needs a value"};
        std::string digits(words[1].text);
        if (!digits.starts_with("0x") && !digits.starts_with("0X")) digits = "0x" + digits;
        format.mask = static_cast<uint32_t>(read_integer({digits, words[1].at}, 1, 0xffffffff));
    } else if (name == "dce") {
        builder.rule.refuse("byte order dce");
    } else {
        return name == "big";
    }
    return true;
}

uint32_t read_count(RuleBuilder& builder, const Word& word, int64_t least) {
    const Number count = builder.number(word, least, 23);
    if (count.slot >= 0) builder.rule.refuse("a count of bytes that is a variable");
    return static_cast<uint32_t>(count.value);
}

void check_count(const NumberFormat& format, const Word& word) {
    if (format.string == 0 && format.count > 8) throw RuleError{word.at, "at most 8 bytes make a number"};
}

std::vector<Word> need(const Option& option, size_t least) {
    auto parts = split_commas(option.value, option.value_at);
    if (parts.size() < least)
        throw RuleError{option.at, std::string(option.keyword) + " needs " + std::to_string(least) + " values"};
    return parts;
}

std::vector<Word> words_of(const Word& part) {
    auto words = split_words(part.text, part.at);
    if (words.empty()) throw RuleError{part.at, "a value is missing"};
    return words;
}

[[noreturn]] void unknown(const Option& option, const Word& word) {
    throw RuleError{word.at, "'" + std::string(word.text) + "' does not modify " + std::string(option.keyword)};
}

void read_byte_test(RuleBuilder& builder, const Option& option) {
    static constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
        {"<", Comparison::less},       {"<=", Comparison::less_equal},    {"=", Comparison::equal},
        {"==", Comparison::equal},     {">=", Comparison::greater_equal}, {">", Comparison::greater},
        {"!=", Comparison::not_equal}, {"&", Comparison::any_bit},        {"^", Comparison::xor_bits}};
    auto parts = need(option, 4);
    ByteTest test;
    test.format.count = read_count(builder, parts[0], 0);
    std::string_view sign = parts[1].text;
    const auto lookup = [&](std::string_view text) {
        return std::find_if(std::begin(kComparisons), std::end(kComparisons),
                            [&](const auto& c) { return c.first == text; });
    };
    auto found = lookup(sign);
    if (found == std::end(kComparisons) && sign.starts_with('!')) {
        test.negated = true;
        sign = trim(sign.substr(1));
        found = sign.empty() ? lookup("=") : lookup(sign);
    }
    if (found == std::end(kComparisons))
        throw RuleError{parts[1].at, "'" + std::string(parts[1].text) + "' is not a comparison"};
    test.comparison = found->second;
    test.operand = builder.number(parts[2], 0, std::numeric_limits<int64_t>::max());
    test.format.offset = builder.number(parts[3], -kMaxOffset, kMaxOffset);
    for (size_t i = 4; i < parts.size(); ++i)
        if (!read_format(builder, test.format, words_of(parts[i]))) unknown(option, parts[i]);
    check_count(test.format, parts[0]);
    if (test.format.count == 0 && test.format.string == 0)
        throw RuleError{parts[0].at, "only a string may have 0 bytes, that is: as many as are digits"};
    builder.add(test, option);
}

void read_byte_jump(RuleBuilder& builder, const Option& option) {
    auto parts = need(option, 2);
    ByteJump jump;
    jump.format.count = read_count(builder, parts[0], 0);
    jump.format.offset = builder.number(parts[1], -kMaxOffset, kMaxOffset);
    for (size_t i = 2; i < parts.size(); ++i) {
        const auto words = words_of(parts[i]);
        const std::string_view name = words[0].text;
        if (name == "align") jump.align = true;
        else if (name == "from_beginning") jump.from_beginning = true;
        else if (name == "from_end") jump.from_end = true;
        else if (name == "multiplier" && words.size() == 2)
            jump.multiplier = static_cast<uint32_t>(read_integer(words[1], 1, kMaxOffset));
        else if (name == "post_offset" && words.size() == 2) {
            const Number post = builder.number(words[1], -kMaxOffset, kMaxOffset);
            if (post.slot >= 0) builder.rule.refuse("a post_offset that is a variable");
            jump.post_offset = static_cast<int32_t>(post.value);
        } else if (!read_format(builder, jump.format, words)) unknown(option, parts[i]);
    }
    check_count(jump.format, parts[0]);
    builder.add(jump, option);
}

void read_byte_extract(RuleBuilder& builder, const Option& option) {
    auto parts = need(option, 3);
    ByteExtract extract;
    extract.format.count = read_count(builder, parts[0], 1);
    extract.format.offset = builder.number(parts[1], -kMaxOffset, kMaxOffset);
    for (size_t i = 3; i < parts.size(); ++i) {
        const auto words = words_of(parts[i]);
        const std::string_view name = words[0].text;
        if (name == "align") {
            extract.align = true;
            if (words.size() == 2 && words[1].text != "4") builder.rule.refuse("align other than 4");
        } else if (name == "multiplier" && words.size() == 2)
            extract.multiplier = static_cast<uint32_t>(read_integer(words[1], 1, kMaxOffset));
        else if (!read_format(builder, extract.format, words)) unknown(option, parts[i]);
    }
    check_count(extract.format, parts[0]);
    const std::string name(parts[2].text);
    auto slot = std::find(builder.slots.begin(), builder.slots.end(), name);
    if (slot == builder.slots.end()) slot = builder.slots.insert(slot, name);
    extract.slot = static_cast<int>(slot - builder.slots.begin());
    if (builder.slots.size() > kMaxSlots) builder.rule.refuse("too many variables");
    builder.add(extract, option);
}

void read_buffer_bytes(RuleBuilder& builder, const Option& option) {
    const auto parts = split_commas(option.value, option.value_at);
    const NumberRange range = read_range(parts[0]);
    const bool uri = option.keyword == "urilen";
    for (size_t i = 1; i < parts.size(); ++i) {
        if (parts[i].text == "relative") builder.rule.refuse("bufferlen relative");
        else if (!uri || (parts[i].text != "norm" && parts[i].text != "raw")) unknown(option, parts[i]);
    }
    Term& term = builder.add(BufferBytes{range.low, range.high, range.negated}, option);
    if (uri) {
        term.buffer = Buffer::http_uri;
        term.dot_prefix = false;
    }
}

}  // namespace

bool read_byte_option(RuleBuilder& builder, const Option& option) {
    const std::string_view keyword = option.keyword;
    if (keyword == "isdataat") read_data_at(builder, option);
    else if (keyword == "byte_test") read_byte_test(builder, option);
    else if (keyword == "byte_jump") read_byte_jump(builder, option);
    else if (keyword == "byte_extract") read_byte_extract(builder, option);
    else if (keyword == "bsize" || keyword == "bufferlen" || keyword == "urilen") read_buffer_bytes(builder, option);
    else return false;
    return true;
}

}  // namespace millrace::nf::nids
