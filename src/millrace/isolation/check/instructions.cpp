#include <fmt/format.h>

#include "millrace/isolation/check/checker.hpp"

namespace millrace::isolation {
namespace {

using ptx::Operand;
using ptx::Statement;
using Kind = Operand::Kind;

class InstructionCheck {
public:
    explicit InstructionCheck(const Subject& subject) : s_(subject) {}

    bool run() {
        bool sound = true;
        for (const Statement& statement : s_.function.body) {
            if (s_.refusals.full()) return false;
            if (statement.is_instruction()) sound &= check(statement);
        }
        return sound;
    }

private:
    bool refuse(const Statement& statement, const std::string& why, const std::string& mend) {
        s_.refusals.add(s_.function, statement, why, mend);
        return false;
    }

    bool check(const Statement& statement) {
        const Opcode* const opcode = find_opcode(statement.opcode);
        if (opcode == nullptr) {
            const Refusal refusal = why_not(statement.opcode);
            return refuse(statement, refusal.why, refusal.mend);
        }
        if (const auto modifier = forbidden_modifier(*opcode, statement))
            return refuse(statement, fmt::format(".{} is not permitted of {}", *modifier, opcode->name),
                          mend_of(*modifier));
        const size_t operands = statement.operands.size();
        if (operands < opcode->fewest || operands > opcode->most)
            return refuse(statement,
                          fmt::format("{} has {} to {} operands", opcode->name, opcode->fewest, opcode->most),
                          "write it as the PTX manual does");
        for (size_t i = 0; i < operands; ++i)
            if (!check_operand(statement, *opcode, i)) return false;
        if (access_of(statement) == std::nullopt && is_access(*opcode))
            return refuse(statement, "it has no type, so nobody knows how much it touches", "write its type behind it");
        return true;
    }

    static std::string mend_of(const std::string& modifier) {
        if (modifier == "cc") return "add in 64 bits";
        if (modifier.starts_with("shared::cluster")) return "use the memory of the thread's own block";
        if (modifier == "f16" || modifier == "bf16" || modifier == "f16x2" || modifier == "b128")
            return "use types of 8 to 64 bits";
        return "leave it out, or use another instruction";
    }

    static bool is_access(const Opcode& opcode) {
        return opcode.effect == Effect::load || opcode.effect == Effect::store || opcode.effect == Effect::atomic ||
               opcode.effect == Effect::reduction;
    }

    bool check_operand(const Statement& statement, const Opcode& opcode, size_t i) {
        const Operand& operand = statement.operands[i];
        if (opcode.effect == Effect::branch)
            return operand.is(Kind::label) ||
                   refuse(statement, "a branch to what is no label can go anywhere", "branch to labels");
        if (opcode.effect == Effect::call) return check_call_operand(statement, i);
        const bool addressed = is_access(opcode) &&
                               i == (opcode.effect == Effect::load || opcode.effect == Effect::atomic);
        if (addressed)
            return operand.is(Kind::address) ||
                   refuse(statement, "what stands where its address should is none", "write [register+offset]");
        const bool result = i == 0 && (opcode.effect == Effect::compute || opcode.effect == Effect::load ||
                                       opcode.effect == Effect::atomic);
        return check_value(statement, operand, result, false);
    }

    bool check_value(const Statement& statement, const Operand& operand, bool result, bool inner) {
        switch (operand.kind) {
            case Kind::reg: return true;
            case Kind::sink: return result || refuse(statement, "'_' is no value", "name a register");
            case Kind::integer:
            case Kind::real32:
            case Kind::real64: break;
            case Kind::variable:
            case Kind::own:
                if (!result && !inner && (statement.opcode == "mov" || statement.opcode == "cvta"))
                    return check_taken_address(statement, operand);
                return refuse(statement, "a variable's address stands among the operands of a calculation",
                              "bring it into a register with mov first");
            case Kind::special:
                if (result) break;
                if (statement.opcode == "mov" && is_permitted_special(operand.text)) return true;
                return refuse(statement,
                              fmt::format("there is no register '{}', and it is not among the special "
                                          "registers that may be read",
                                          operand.text),
                              "declare it, or do without: %tid, %ntid, %ctaid, %nctaid, %laneid and %lanemask may be "
                              "read, with mov");
            case Kind::vector:
            case Kind::pair:
                if (inner) break;
                for (const Operand& element : operand.elements)
                    if (!check_value(statement, element, result, true)) return false;
                return true;
            case Kind::function:
                return refuse(statement, "a function's address makes indirect calls", "call functions by name");
            default: break;
        }
        if (!result && (operand.is(Kind::integer) || operand.is(Kind::real32) || operand.is(Kind::real64))) return true;
        return refuse(statement, "an operand is of a kind that the instruction does not have",
                      "write it as the PTX manual does");
    }

    bool check_taken_address(const Statement& statement, const Operand& operand) {
        if (operand.is(Kind::own) && s_.function.variables[operand.index].space == ptx::Space::param)
            return refuse(statement, "the address of a parameter is taken", "copy the parameter into a variable");
        return true;
    }

    bool check_call_operand(const Statement& statement, size_t i) {
        const Operand& operand = statement.operands[i];
        const bool listed = operand.is(Kind::list);
        size_t name = 0;
        while (name < statement.operands.size() && statement.operands[name].is(Kind::list)) ++name;
        if (name >= statement.operands.size() || !statement.operands[name].is(Kind::function))
            return refuse(statement, "an indirect call can go anywhere", "call functions by name");
        if (i != name && !listed)
            return refuse(statement, "a call has a result, a function and arguments", "call functions by name");
        if (listed)
            for (const Operand& element : operand.elements)
                if (!element.is(Kind::own))
                    return refuse(statement, "what a call passes are .param variables", "store it into one first");
        return true;
    }

    const Subject& s_;
};

}  // namespace

bool check_instructions(const Subject& subject) { return InstructionCheck(subject).run(); }

}  // namespace millrace::isolation
