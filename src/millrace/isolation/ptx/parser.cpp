#include "millrace/isolation/ptx/parser.hpp"

#include <fmt/format.h>

#include <bit>

namespace millrace::isolation::ptx {

Token Words::take() {
    Token taken = now_;
    now_ = then_;
    then_ = lexer_.next();
    return taken;
}

bool Words::take_mark(char c) {
    if (!now_.is_mark(c)) return false;
    take();
    return true;
}

bool Words::take_dotted(std::string_view text) {
    if (!now_.is_dotted(text)) return false;
    take();
    return true;
}

namespace {

std::string shown(const Token& token) {
    switch (token.kind) {
        case Token::Kind::end: return "the end of the text";
        case Token::Kind::dotted: return fmt::format("'.{}'", token.text);
        default: return fmt::format("'{}'", token.text.substr(0, 80));
    }
}

}  // namespace

void Words::expect_mark(char c, std::string_view where) {
    if (!take_mark(c)) fail_here(fmt::format("expected '{}' {}, found {}", c, where, shown(now_)));
}

Token Words::expect(Token::Kind kind, std::string_view what) {
    if (now_.kind != kind) fail_here(fmt::format("expected {}, found {}", what, shown(now_)));
    return take();
}

uint64_t Words::expect_integer(std::string_view what) {
    const bool negative = take_mark('-');
    const uint64_t value = expect(Token::Kind::integer, what).value;
    return negative ? ~value + 1 : value;
}

bool parse_type(std::string_view name, Type& type) {
    using Kind = Type::Kind;
    static const std::unordered_map<std::string_view, Type> kTypes = {
        {"pred", {Kind::predicate, 1}},    {"b8", {Kind::bits, 8}},           {"b16", {Kind::bits, 16}},
        {"b32", {Kind::bits, 32}},         {"b64", {Kind::bits, 64}},         {"u8", {Kind::unsigned_int, 8}},
        {"u16", {Kind::unsigned_int, 16}}, {"u32", {Kind::unsigned_int, 32}}, {"u64", {Kind::unsigned_int, 64}},
        {"s8", {Kind::signed_int, 8}},     {"s16", {Kind::signed_int, 16}},   {"s32", {Kind::signed_int, 32}},
        {"s64", {Kind::signed_int, 64}},   {"f32", {Kind::real, 32}},         {"f64", {Kind::real, 64}},
    };
    const auto found = kTypes.find(name);
    if (found == kTypes.end()) return false;
    type = found->second;
    return true;
}

std::string type_name(Type type) {
    if (type.kind == Type::Kind::predicate) return "pred";
    constexpr char kLetters[] = {'b', 'u', 's', 'f'};
    return fmt::format("{}{}", kLetters[static_cast<size_t>(type.kind)], type.bits);
}

bool Statement::has(std::string_view modifier) const {
    for (const std::string& m : modifiers)
        if (m == modifier) return true;
    return false;
}

std::string Statement::full_opcode() const {
    std::string text = opcode;
    for (const std::string& m : modifiers) text += "." + m;
    return text;
}

std::string Module::source_name(uint32_t number) const {
    for (const auto& [n, name] : sources)
        if (n == number) return name;
    return "";
}

void Words::check_name(const Token& name) const {
    std::string_view bare = name.text;
    if (bare.starts_with('%') || bare.starts_with('$')) bare.remove_prefix(1);
    if (bare.starts_with(kReservedPrefix) && !reserved_names_)
        fail(name.place, fmt::format("the name '{}' is kept for the rewriter", name.text),
             fmt::format("names do not begin with {}", kReservedPrefix));
    if (bare == "WARP_SZ" || bare == "generic" || bare == "_")
        fail(name.place, fmt::format("'{}' is a word of PTX, and no name", name.text));
}

void Words::check_symbol(const Token& name) const {
    check_name(name);
    if (name.text.starts_with('%'))
        fail(name.place, fmt::format("'{}' is no name of a variable or function", name.text),
             "only registers begin with %");
}

namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 32;

void read_dimensions(Words& words, Variable& variable) {
    while (words.take_mark('[')) {
        if (words.take_mark(']')) {
            if (variable.array) words.fail_here("only the first dimension may be left out");
            variable.array = true;
            variable.count = 0;
            continue;
        }
        const Token size = words.expect(Token::Kind::integer, "the size of an array");
        words.expect_mark(']', "behind an array's size");
        if (size.value == 0 || size.value > kMaxVariableBytes ||
            (variable.count != 0 && size.value > kMaxVariableBytes / variable.count))
            words.fail(size.place, "an array of that size is not read");
        variable.array = true;
        variable.count *= size.value;
    }
}

uint32_t read_alignment(Words& words) {
    const Token value = words.expect(Token::Kind::integer, "an alignment");
    if (value.value == 0 || value.value > 4096 || !std::has_single_bit(value.value))
        words.fail(value.place, "an alignment is a power of two up to 4096");
    return static_cast<uint32_t>(value.value);
}

}  // namespace

Variable read_declaration(Words& words, Space space) {
    Variable variable;
    variable.space = space;
    uint32_t vector = 1;
    bool typed = false;
    while (words.now().kind == Token::Kind::dotted) {
        const Token word = words.take();
        if (word.text == "align") {
            variable.alignment = read_alignment(words);
        } else if (word.text == "v2" || word.text == "v4") {
            vector = word.text == "v2" ? 2 : 4;
        } else if (word.text == "ptr" && space == Space::param) {
            // What a parameter points to: said for optimisers, and believed by nobody here.
            for (const char* pointed : {"global", "const", "shared", "local"})
                if (words.take_dotted(pointed)) break;
            if (words.take_dotted("align")) read_alignment(words);
        } else if (!typed && parse_type(word.text, variable.type)) {
            typed = true;
        } else {
            words.fail(word.place, fmt::format("'.{}' is not understood in a declaration", word.text));
        }
    }
    if (!typed) words.fail_here("expected a type such as .u32 in a declaration");
    if (variable.type.kind == Type::Kind::predicate) words.fail_here("predicates are registers, and no variables");
    const Token name = words.expect(Token::Kind::word, "a name");
    words.check_symbol(name);
    variable.name = name.text;
    variable.place = name.place;
    if (vector > 1) {
        if (variable.alignment == 0) variable.alignment = vector * variable.type.bytes();
        variable.count = vector;
        variable.array = true;
    }
    read_dimensions(words, variable);
    if (variable.bytes() > kMaxVariableBytes) words.fail(name.place, "a variable of that size is not read");
    return variable;
}

}  // namespace millrace::isolation::ptx
