#include "millrace/isolation/ptx/lexer.hpp"

#include <fmt/format.h>

namespace millrace::isolation::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

int digit_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

}  // namespace

void Lexer::fail(Place place, const std::string& message, const std::string& hint) const {
    throw ConfigError(Diagnostic{{file_, place.line, place.column}, message, hint});
}

void Lexer::advance(size_t bytes) {
    for (; bytes > 0 && at_ < text_.size(); --bytes, ++at_)
        if (text_[at_] == '\n') {
            ++line_;
            line_begin_ = at_ + 1;
        }
}

void Lexer::skip_space() {
    for (;;) {
        const char c = peek();
        if (at_ >= text_.size()) return;
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            advance();
        } else if (c == '/' && peek(1) == '/') {
            while (at_ < text_.size() && peek() != '\n') advance();
        } else if (c == '/' && peek(1) == '*') {
            const Place begin = here();
            const size_t end = text_.find("*/", at_ + 2);
            if (end == std::string_view::npos) fail(begin, "a comment without an end", "close it with */");
            advance(end + 2 - at_);
        } else {
            return;
        }
    }
}

Token Lexer::take(Token::Kind kind, size_t begin, size_t end) {
    Token token{kind, text_.substr(begin, end - begin), 0, here()};
    if (token.text.size() > kMaxNameBytes)
        fail(token.place, fmt::format("a name of {} characters", token.text.size()),
             fmt::format("names have at most {}", kMaxNameBytes));
    advance(end - at_);
    return token;
}

Token Lexer::bits_of_real(size_t digits, Token::Kind kind) {
    const Place place = here();
    uint64_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
        const int digit = digit_value(peek(2 + i));
        if (digit > 15) fail(place, fmt::format("a floating-point number has {} hexadecimal digits", digits));
        value = value << 4 | static_cast<uint64_t>(digit);
    }
    if (is_name(peek(2 + digits))) fail(place, fmt::format("a floating-point number has {} digits", digits));
    Token token = take(kind, at_, at_ + 2 + digits);
    token.value = value;
    return token;
}

Token Lexer::number() {
    const Place place = here();
    const char second = peek(1);
    if (peek() == '0' && (second == 'f' || second == 'F')) return bits_of_real(8, Token::Kind::real32);
    if (peek() == '0' && (second == 'd' || second == 'D')) return bits_of_real(16, Token::Kind::real64);
    size_t end = at_;
    uint64_t base = 10;
    if (peek() == '0') {
        base = second == 'x' || second == 'X' ? 16 : second == 'b' || second == 'B' ? 2 : 8;
        if (base != 8) end += 2;
    }
    const size_t digits = end;
    uint64_t value = 0;
    for (; end < text_.size() && digit_value(text_[end]) < static_cast<int>(base); ++end) {
        const auto digit = static_cast<uint64_t>(digit_value(text_[end]));
        if (value > (~uint64_t{0} - digit) / base) fail(place, "a number that 64 bits do not hold");
        value = value * base + digit;
    }
    if (end == digits) fail(place, "a number without digits");
    if (end < text_.size() && text_[end] == 'U') ++end;
    if (end < text_.size() && is_name(text_[end]))
        fail(place, "a number that goes on with something else",
             "integers are decimal, 0x…, 0b… or octal; floating-point numbers are 0f… or 0d…");
    Token token = take(Token::Kind::integer, at_, end);
    token.value = value;
    return token;
}

Token Lexer::string() {
    const Place place = here();
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') ++end;
    if (end >= text_.size() || text_[end] != '"') fail(place, "a string without an end");
    Token token = take(Token::Kind::string, at_ + 1, end);
    advance();
    token.place = place;
    return token;
}

Token Lexer::next() {
    skip_space();
    if (at_ >= text_.size()) return {Token::Kind::end, {}, 0, here()};
    const char c = peek();
    if (is_digit(c)) return number();
    if (c == '"') return string();
    size_t end = at_ + 1;
    if (is_letter(c) || ((c == '_' || c == '$' || c == '%') && is_name(peek(1))) || c == '_') {
        while (end < text_.size() && is_name(text_[end])) ++end;
        return take(Token::Kind::word, at_, end);
    }
    if (c == '.') {
        // `::` joins words: .shared::cta
        while (end < text_.size() && (is_name(text_[end]) || (text_[end] == ':' && end + 2 < text_.size() &&
                                                              text_[end + 1] == ':' && is_name(text_[end + 2]))))
            end += text_[end] == ':' ? 2 : 1;
        if (end == at_ + 1) fail(here(), "a dot without a word");
        Token token = take(Token::Kind::dotted, at_, end);
        token.text.remove_prefix(1);
        return token;
    }
    constexpr std::string_view kMarks = ",;:{}[]()<>+-!|@=";
    if (kMarks.find(c) == std::string_view::npos)
        fail(here(), c >= 32 && c < 127
                         ? fmt::format("'{}' is no part of PTX", c)
                         : fmt::format("a byte 0x{:02x}, which is no part of PTX", static_cast<unsigned char>(c)));
    return take(Token::Kind::mark, at_, end);
}

}  // namespace millrace::isolation::ptx
