// What the readers of modules and of functions share: words, and how a declaration goes.
#pragma once

#include <unordered_map>

#include "millrace/isolation/ptx/lexer.hpp"
#include "millrace/isolation/ptx/reader.hpp"

namespace millrace::isolation::ptx {

/// The words of a text, two of them in sight.
class Words {
public:
    Words(std::string_view text, const std::string& file, bool reserved_names)
        : reserved_names_(reserved_names), lexer_(text, file) {
        now_ = lexer_.next();
        then_ = lexer_.next();
    }
    const Token& now() const { return now_; }
    const Token& then() const { return then_; }
    /// Refuses a name that the rewriter or PTX has for itself.
    void check_name(const Token& name) const;
    /// Of a variable or function, which must not be taken for a register where it is written.
    void check_symbol(const Token& name) const;
    Token take();
    bool take_mark(char c);
    bool take_dotted(std::string_view text);
    void expect_mark(char c, std::string_view where);
    Token expect(Token::Kind kind, std::string_view what);
    /// An integer with its sign, as 64 bits.
    uint64_t expect_integer(std::string_view what);
    [[noreturn]] void fail(Place place, const std::string& message, const std::string& hint = "") const {
        lexer_.fail(place, message, hint);
    }
    [[noreturn]] void fail_here(const std::string& message, const std::string& hint = "") const {
        lexer_.fail(now_.place, message, hint);
    }

private:
    const bool reserved_names_;
    Lexer lexer_;
    Token now_, then_;
};

/// What a name of the module means.
struct ModuleNames {
    std::unordered_map<std::string, uint32_t> variables, functions;
};

/// `[.align n] [.ptr …] .type name[dimensions]` behind the state space.
Variable read_declaration(Words& words, Space space);
/// From `{` to `}` of a function whose head is read.
void read_body(Words& words, const ModuleNames& names, Function& function, const Limits& limits, size_t& statements);

}  // namespace millrace::isolation::ptx
