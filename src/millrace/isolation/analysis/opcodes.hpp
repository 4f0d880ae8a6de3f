// The instructions that a domain's functions may have. What is not in this list is refused, so that a new instruction
// of a new GPU is refused until somebody has thought about it.
#pragma once

#include <optional>
#include <string>

#include "millrace/isolation/ptx/module.hpp"

namespace millrace::isolation {

enum class Effect : uint8_t {
    compute,    ///< writes its first operand and nothing else
    load,       ///< ld: first operand from the address in the second
    store,      ///< st: the address in the first operand from the second
    atomic,     ///< atom: the first operand and the address in the second
    reduction,  ///< red: the address in the first operand
    order,      ///< membar, fence: orders this thread's accesses
    branch,
    call,
    leave,  ///< ret
};

struct Opcode {
    const char* name;
    Effect effect;
    uint8_t fewest, most;   ///< operands
    const char* modifiers;  ///< words that may stand behind it, with a space between; types besides, where `typed`
    const char* types;      ///< "int": b, u and s of 8 to 64 bits; "all": floating-point numbers and predicates, too
};

/// nullptr when it is not permitted.
const Opcode* find_opcode(std::string_view name);
/// All of them by name.
std::vector<std::string_view> permitted_opcodes();
/// Why an instruction that is not in the list is not, and what to use in its place; for those that people will miss.
struct Refusal {
    std::string why, mend;
};
Refusal why_not(std::string_view opcode);
/// The first modifier that its opcode must not have; nothing when all are permitted.
std::optional<std::string> forbidden_modifier(const Opcode& opcode, const ptx::Statement& statement);

/// Whether a special register tells a function no more than its place in its own block and grid.
bool is_permitted_special(std::string_view name);

/// An instruction's access to memory.
struct Access {
    enum class Way : uint8_t { generic, global, constant, shared, local, param };
    Way way = Way::generic;
    uint32_t bytes = 0;    ///< all elements of a vector together, which is also the alignment that is wanted
    uint32_t operand = 0;  ///< index of the address
    bool reads = false, writes = false;
};
/// Of a permitted load, store, atomic or reduction; nothing of others, or when its type is missing.
std::optional<Access> access_of(const ptx::Statement& statement);

/// Calls `f(register)` for each register that a statement of the list writes.
template <class F>
void for_each_written(const ptx::Statement& statement, const Opcode& opcode, F&& f) {
    if (opcode.effect != Effect::compute && opcode.effect != Effect::load && opcode.effect != Effect::atomic) return;
    if (statement.operands.empty()) return;
    const ptx::Operand& first = statement.operands[0];
    if (first.is(ptx::Operand::Kind::reg)) f(first.index);
    for (const ptx::Operand& element : first.elements)
        if (element.is(ptx::Operand::Kind::reg)) f(element.index);
}

/// Calls `f(register)` for each register that a statement reads, its guard and addresses' among them.
template <class F>
void for_each_read(const ptx::Operand& operand, F&& f) {
    if (operand.is(ptx::Operand::Kind::reg)) f(operand.index);
    for (const ptx::Operand& element : operand.elements) for_each_read(element, f);
}
template <class F>
void for_each_read(const ptx::Statement& statement, const Opcode& opcode, F&& f) {
    if (statement.guarded) f(statement.guard);
    const bool writes = opcode.effect == Effect::compute || opcode.effect == Effect::load ||
                        opcode.effect == Effect::atomic;
    for (size_t i = writes ? 1 : 0; i < statement.operands.size(); ++i) for_each_read(statement.operands[i], f);
}

}  // namespace millrace::isolation
