// PTX as this program understands it: the module, its variables and functions, and each instruction's operands by what
// they name. What a Module cannot say is not read, and what is written is written from a Module alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::isolation::ptx {

/// A place in the text. Lines and columns count from 1; 0: made by this program.
struct Place {
    uint32_t line = 0;
    uint32_t column = 0;
};

enum class Space { global, constant, shared, local, param };

/// The fundamental types, as PTX ISA 9.0, section 5.2.1 has them, without those of tensor units.
struct Type {
    enum class Kind : uint8_t { bits, unsigned_int, signed_int, real, predicate };
    Kind kind = Kind::bits;
    uint8_t bits = 32;

    uint32_t bytes() const { return bits / 8u; }
    friend bool operator==(const Type&, const Type&) = default;
};
/// The type that `.u32` names; false when there is none. `name` is without the dot.
bool parse_type(std::string_view name, Type& type);
std::string type_name(Type type);

/// What one element of an initialiser holds.
struct Initial {
    uint64_t value = 0;      ///< or what is added to the variable's address
    int32_t variable = -1;   ///< of the module: its address
    bool generic = false;    ///< as a generic address
    bool real_bits = false;  ///< written as 0f… or 0d…
};

/// A variable of a module or of a function, a parameter among them.
struct Variable {
    std::string name;
    Space space = Space::global;
    Type type;
    uint32_t alignment = 0;  ///< bytes; 0: that of its type
    uint64_t count = 1;      ///< elements
    bool array = false;
    bool external = false;  ///< `.extern`: somebody else's, or the block's memory when it is shared and has no size
    std::vector<Initial> initials;
    Place place;

    uint64_t bytes() const { return count * type.bytes(); }
    uint32_t aligned_to() const { return alignment != 0 ? alignment : type.bytes(); }
};

struct Register {
    std::string name;
    Type type;
    Place place;
};

struct Operand {
    enum class Kind : uint8_t {
        none,
        reg,      ///< `index`: of the function's registers
        integer,  ///< `value`
        real32,   ///< the bits of `0f…` in `value`
        real64,
        special,   ///< `text`: "%tid.x"
        variable,  ///< `index`: of the module's variables, as its address
        own,       ///< `index`: of the function's variables
        function,  ///< `index`: of the module's functions
        label,     ///< `index`
        sink,      ///< `_`
        vector,    ///< `{a, b}`
        list,      ///< `(a, b)` of a call
        pair,      ///< `p|q`
        address,   ///< `[a + offset]`, `elements[0]` is a
    };
    Kind kind = Kind::none;
    bool negated = false;  ///< `!p`
    uint32_t index = 0;
    uint64_t value = 0;
    int64_t offset = 0;
    std::string text;
    std::vector<Operand> elements;

    bool is(Kind k) const { return kind == k; }
};

/// `kind`: what a statement is besides an instruction.
struct Statement {
    enum class Kind : uint8_t { instruction, label, open, close, declare };
    Kind kind = Kind::instruction;
    bool guarded = false, guard_negated = false;
    bool added = false;  ///< by the rewriter
    uint32_t guard = 0;  ///< register
    uint32_t index = 0;  ///< label: its number; declare: of the function's variables
    Place place;
    uint32_t source_file = 0, source_line = 0;  ///< by `.loc`; 0: unknown
    std::string opcode;                         ///< "ld"
    std::vector<std::string> modifiers;         ///< "global", "u32"
    std::vector<Operand> operands;

    bool is_instruction() const { return kind == Kind::instruction; }
    bool has(std::string_view modifier) const;
    /// "ld.global.u32"
    std::string full_opcode() const;
};

struct Function {
    std::string name;
    bool entry = false;    ///< a kernel
    bool visible = false;  ///< others may call it
    bool defined = false;  ///< has a body here
    Place place;
    std::vector<uint32_t> results, parameters;  ///< of `variables`
    std::vector<std::string> directives;        ///< ".maxntid 256", of a kernel
    std::vector<Register> registers;
    std::vector<Variable> variables;
    uint32_t labels = 0;
    std::vector<Statement> body;
};

struct Module {
    std::string file;  ///< for messages
    std::string version, target;
    std::vector<Variable> variables;
    std::vector<Function> functions;
    std::vector<std::pair<uint32_t, std::string>> sources;  ///< by `.file`

    std::string source_name(uint32_t number) const;
};

/// Names that begin so are the rewriter's own.
inline constexpr std::string_view kReservedPrefix = "fence_";

}  // namespace millrace::isolation::ptx
