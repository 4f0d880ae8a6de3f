#include "isolation/interpreter/decoded.hpp"

#include "isolation/interpreter/compute.hpp"

namespace millrace::test::ptx_machine {
namespace {

using isolation::ptx::Statement;
using Does = Decoded::Does;

Does deed_of(const std::string& opcode, bool reaches_memory) {
    if (opcode == "ret") return Does::ends;
    if (opcode == "bra") return Does::goes_on;
    if (opcode == "call") return Does::calls;
    if (reaches_memory) return opcode == "ld" ? Does::loads : opcode == "st" ? Does::stores : Does::exchanges;
    if (opcode == "membar" || opcode == "fence") return Does::waits;
    if (opcode == "mov") return Does::moves;
    if (opcode == "setp") return Does::compares;
    if (opcode == "cvta" || opcode == "isspacep") return Does::converts;
    return Does::computes;
}

Decoded decode(const Statement& statement) {
    Decoded made;
    for (const std::string& modifier : statement.modifiers)
        if (isolation::ptx::Type type; isolation::ptx::parse_type(modifier, type)) made.types.push_back(type);
    // Moves and selections carry bits, whatever they are.
    if (statement.opcode != "mov" && statement.opcode != "selp")
        for (const isolation::ptx::Type type : made.types)
            made.real = made.real || type.kind == isolation::ptx::Type::Kind::real;
    const auto access = isolation::access_of(statement);
    made.access = access.value_or(isolation::Access{});
    made.does = deed_of(statement.opcode, access.has_value());
    made.operation = operation_of(statement);
    return made;
}

}  // namespace

Decodings::Decodings(const isolation::ptx::Module& module) : functions_(module.functions.data()) {
    for (const isolation::ptx::Function& function : module.functions) {
        Body& body = bodies_.emplace_back();
        body.labels.resize(function.labels);
        for (const Statement& statement : function.body) {
            if (statement.kind == Statement::Kind::label) body.labels[statement.index] = body.statements.size();
            body.statements.push_back(statement.is_instruction() ? decode(statement) : Decoded{});
        }
    }
}

}  // namespace millrace::test::ptx_machine
