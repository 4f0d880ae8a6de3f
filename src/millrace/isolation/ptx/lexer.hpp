// PTX text cut into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/isolation/ptx/module.hpp"

namespace millrace::isolation::ptx {

struct Token {
    enum class Kind : uint8_t {
        word,     ///< ld, %r1, $L__BB0_1
        dotted,   ///< .global, .L1::no_allocate; `text` is without the dot
        integer,  ///< `value`
        real32,   ///< 0f3F800000, the bits in `value`
        real64,
        string,  ///< without the quotes
        mark,    ///< one character of , ; : { } [ ] ( ) < > + - ! | @ =
        end,
    };
    Kind kind = Kind::end;
    std::string_view text;
    uint64_t value = 0;
    Place place;

    bool is(Kind k, std::string_view t) const { return kind == k && text == t; }
    bool is_mark(char c) const { return kind == Kind::mark && text[0] == c; }
    bool is_dotted(std::string_view t) const { return is(Kind::dotted, t); }
};

/// Longest name that is read.
inline constexpr size_t kMaxNameBytes = 4096;

/// Goes through a text that outlives it. Throws ConfigError at what is no word of PTX.
class Lexer {
public:
    Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}
    Token next();
    [[noreturn]] void fail(Place place, const std::string& message, const std::string& hint = "") const;

private:
    void skip_space();
    void advance(size_t bytes = 1);
    Token take(Token::Kind kind, size_t begin, size_t end);
    Token number();
    Token bits_of_real(size_t digits, Token::Kind kind);
    Token string();
    char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    Place here() const { return {line_, static_cast<uint32_t>(at_ - line_begin_ + 1)}; }

    std::string_view text_;
    std::string file_;
    size_t at_ = 0, line_begin_ = 0;
    uint32_t line_ = 1;
};

}  // namespace millrace::isolation::ptx
