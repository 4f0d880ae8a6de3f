// A program while it is written: its words, the registers that it uses, and jumps whose targets come later.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex {

/// `put` and `reserve` throw Refusal where a program gets too large.
class ProgramWriter {
public:
    /// Begins with a header of zeros.
    ProgramWriter() : code_(kHeaderWords) {}

    /// Where the next word goes.
    uint32_t here() const { return static_cast<uint32_t>(code_.size()); }
    void put(uint32_t word);
    void put(Op op, uint32_t operand) { put(op | (operand << 8)); }
    /// A word that is set later; returns its place.
    uint32_t put_later() {
        put(0);
        return here() - 1;
    }
    void set(uint32_t place, uint32_t word) { code_[place] = word; }
    /// The target at `place` is here.
    void land(uint32_t place) { set(place, here()); }
    /// A jump; returns the place of its target.
    uint32_t put_jump() {
        put(kJump, 0);
        return put_later();
    }
    /// A choice between here and elsewhere, with sets that the next byte must be in (0: any). Returns the place of its
    /// target.
    uint32_t put_choice(bool lazy, uint32_t set_here, uint32_t set_there);
    /// `kLiteral` or `kLiteralFolded`.
    void put_literal(Op op, const std::vector<uint8_t>& bytes);

    /// The first of so many registers, which nobody else gets. `offset`: in the pattern, for messages.
    uint32_t reserve(uint32_t count, size_t offset);
    uint32_t registers() const { return registers_; }

    std::vector<uint32_t> take() { return std::move(code_); }

private:
    std::vector<uint32_t> code_;
    uint32_t registers_ = 0;
};

}  // namespace millrace::nf::nids::regex
