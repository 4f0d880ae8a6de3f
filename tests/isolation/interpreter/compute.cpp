#include "isolation/interpreter/compute.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>

namespace millrace::test::ptx_machine {

using isolation::ptx::Statement;
using isolation::ptx::Type;
using Values = std::vector<uint64_t>;

struct Context {
    const Statement& s;
    const Values& in;
    const std::vector<Type>& types;
    Type type;

    unsigned bits() const { return type.bits; }
    bool is_signed() const { return type.kind == Type::Kind::signed_int; }
    uint64_t u(size_t i) const { return low_bits(in.at(i), bits()); }
    int64_t i(size_t k) const { return as_signed(in.at(k), bits()); }
};

namespace {

__extension__ using Wide = unsigned __int128;

uint64_t saturate_s32(int64_t value) { return static_cast<uint64_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)); }

uint64_t add(const Context& c) {
    if (c.s.has("sat")) return saturate_s32(c.i(0) + c.i(1));
    return c.u(0) + c.u(1);
}

uint64_t sub(const Context& c) {
    if (c.s.has("sat")) return saturate_s32(c.i(0) - c.i(1));
    return c.u(0) - c.u(1);
}

uint64_t product(const Context& c) {
    if (c.s.has("wide")) return c.is_signed() ? static_cast<uint64_t>(c.i(0) * c.i(1)) : c.u(0) * c.u(1);
    if (!c.s.has("hi")) return c.u(0) * c.u(1);
    if (!c.is_signed()) return static_cast<uint64_t>(Wide{c.u(0)} * c.u(1) >> c.bits());
    __extension__ using SignedWide = __int128;
    return static_cast<uint64_t>(SignedWide{c.i(0)} * c.i(1) >> c.bits());
}

uint64_t mad(const Context& c) {
    const unsigned bits = c.s.has("wide") ? 2 * c.bits() : c.bits();
    if (c.s.has("sat")) return saturate_s32(as_signed(product(c), 32) + as_signed(c.in.at(2), 32));
    return product(c) + low_bits(c.in.at(2), bits);
}

uint64_t product24(const Context& c) {
    const uint64_t a = c.is_signed() ? static_cast<uint64_t>(as_signed(c.in[0], 24)) : low_bits(c.in[0], 24);
    const uint64_t b = c.is_signed() ? static_cast<uint64_t>(as_signed(c.in[1], 24)) : low_bits(c.in[1], 24);
    return c.s.has("hi") ? low_bits(a * b, 48) >> 16 : a * b;
}

uint64_t divide(const Context& c) {
    if (c.u(1) == 0) return ~uint64_t{0};
    if (!c.is_signed()) return c.u(0) / c.u(1);
    if (c.i(1) == -1) return uint64_t{0} - c.u(0);
    return static_cast<uint64_t>(c.i(0) / c.i(1));
}

uint64_t remainder(const Context& c) {
    if (c.u(1) == 0) return c.u(0);
    if (!c.is_signed()) return c.u(0) % c.u(1);
    if (c.i(1) == -1) return 0;
    return static_cast<uint64_t>(c.i(0) % c.i(1));
}

uint64_t shift_left(const Context& c) {
    const uint64_t by = low_bits(c.in[1], 32);
    return by >= c.bits() ? 0 : c.u(0) << by;
}

uint64_t shift_right(const Context& c) {
    const uint64_t by = std::min<uint64_t>(low_bits(c.in[1], 32), c.bits());
    if (c.is_signed()) return static_cast<uint64_t>(c.i(0) >> std::min<uint64_t>(by, c.bits() - 1));
    return by >= c.bits() ? 0 : c.u(0) >> by;
}

uint64_t funnel(const Context& c) {
    uint64_t by = low_bits(c.in[2], 32);
    by = c.s.has("wrap") ? by & 31 : std::min<uint64_t>(by, 32);
    const uint64_t both = low_bits(c.in[1], 32) << 32 | low_bits(c.in[0], 32);
    if (c.s.has("r")) return by == 64 ? 0 : both >> by;
    return by == 0 ? both >> 32 : both >> (32 - by);
}

uint64_t extract(const Context& c) {
    const uint64_t position = c.in[1] & 0xff, length = c.in[2] & 0xff;
    const uint64_t top = c.bits() - 1;
    const uint64_t sign = !c.is_signed() || length == 0 ? 0 : c.u(0) >> std::min(position + length - 1, top) & 1;
    uint64_t made = 0;
    for (uint64_t i = 0; i <= top; ++i)
        made |= (i < length && position + i <= top ? c.u(0) >> (position + i) & 1 : sign) << i;
    return made;
}

uint64_t insert(const Context& c) {
    const uint64_t position = c.in[2] & 0xff, length = c.in[3] & 0xff;
    uint64_t made = c.u(1);
    for (uint64_t i = 0; i < length && position + i < c.bits(); ++i) {
        made &= ~(uint64_t{1} << (position + i));
        made |= (c.u(0) >> i & 1) << (position + i);
    }
    return made;
}

uint64_t leading(const Context& c) { return static_cast<uint64_t>(std::countl_zero(c.u(0))) - (64 - c.bits()); }

uint64_t find_highest(const Context& c) {
    const uint64_t value = c.is_signed() && c.i(0) < 0 ? low_bits(~c.u(0), c.bits()) : c.u(0);
    if (value == 0) return 0xffffffff;
    const auto at = static_cast<uint64_t>(63 - std::countl_zero(value));
    return c.s.has("shiftamt") ? c.bits() - 1 - at : at;
}

uint64_t reverse_bits(const Context& c) {
    uint64_t made = 0;
    for (unsigned i = 0; i < c.bits(); ++i) made |= (c.u(0) >> i & 1) << (c.bits() - 1 - i);
    return made;
}

uint64_t permute(const Context& c) {
    const uint64_t both = low_bits(c.in[1], 32) << 32 | low_bits(c.in[0], 32), control = c.in[2];
    const auto byte = [&](uint64_t i) { return both >> 8 * (i & 7) & 0xff; };
    uint64_t made = 0;
    for (uint64_t i = 0; i < 4; ++i) {
        const uint64_t k = control & 3;
        uint64_t picked = 0;
        if (c.s.has("f4e")) picked = byte(k + i);
        else if (c.s.has("b4e")) picked = byte(k - i);
        else if (c.s.has("rc8")) picked = byte(k);
        else if (c.s.has("ecl")) picked = byte(std::max(k, i));
        else if (c.s.has("ecr")) picked = byte(std::min(k, i));
        else if (c.s.has("rc16")) picked = byte((k & 1) * 2 + (i & 1));
        else {
            const uint64_t selector = control >> 4 * i & 15;
            picked = byte(selector);
            if (selector & 8) picked = picked & 0x80 ? 0xff : 0;
        }
        made |= picked << 8 * i;
    }
    return made;
}

uint64_t lop3(const Context& c) {
    uint64_t made = 0;
    for (unsigned i = 0; i < 32; ++i) {
        const uint64_t row = (c.in[0] >> i & 1) << 2 | (c.in[1] >> i & 1) << 1 | (c.in[2] >> i & 1);
        made |= (c.in[3] >> row & 1) << i;
    }
    return made;
}

uint64_t smallest(const Context& c) {
    return c.is_signed() ? static_cast<uint64_t>(std::min(c.i(0), c.i(1))) : std::min(c.u(0), c.u(1));
}
uint64_t largest(const Context& c) {
    return c.is_signed() ? static_cast<uint64_t>(std::max(c.i(0), c.i(1))) : std::max(c.u(0), c.u(1));
}

bool compare(const Context& c) {
    const bool less = c.is_signed() ? c.i(0) < c.i(1) : c.u(0) < c.u(1);
    const bool equal = c.u(0) == c.u(1);
    if (c.s.has("eq")) return equal;
    if (c.s.has("ne")) return !equal;
    if (c.s.has("lt") || c.s.has("lo")) return less;
    if (c.s.has("le") || c.s.has("ls")) return less || equal;
    if (c.s.has("gt") || c.s.has("hi")) return !less && !equal;
    if (c.s.has("ge") || c.s.has("hs")) return !less;
    throw UnknownInstruction(c.s.full_opcode());
}

uint64_t convert(const Context& c) {
    const Type to = c.types.at(0), from = c.types.at(1);
    const bool signed_from = from.kind == Type::Kind::signed_int;
    const uint64_t value = signed_from ? static_cast<uint64_t>(as_signed(c.in[0], from.bits))
                                       : low_bits(c.in[0], from.bits);
    if (!c.s.has("sat")) return value;
    Wide low = 0, high = (Wide{1} << to.bits) - 1;
    if (to.kind == Type::Kind::signed_int) high >>= 1;
    if (signed_from && static_cast<int64_t>(value) < 0) {
        if (to.kind != Type::Kind::signed_int) return static_cast<uint64_t>(low);
        return static_cast<uint64_t>(std::max(static_cast<int64_t>(value), -(int64_t{1} << (to.bits - 1))));
    }
    return static_cast<uint64_t>(std::min<Wide>(value, high));
}

const std::unordered_map<std::string, Operation>& table() {
    static const std::unordered_map<std::string, Operation> kTable = {
        {"add", add},
        {"sub", sub},
        {"mul", product},
        {"mad", mad},
        {"div", divide},
        {"rem", remainder},
        {"mul24", product24},
        {"mad24", [](const Context& c) { return product24(c) + c.in.at(2); }},
        {"min", smallest},
        {"max", largest},
        {"shl", shift_left},
        {"shr", shift_right},
        {"shf", funnel},
        {"bfe", extract},
        {"bfi", insert},
        {"clz", leading},
        {"bfind", find_highest},
        {"brev", reverse_bits},
        {"prmt", permute},
        {"lop3", lop3},
        {"cvt", convert},
        {"abs", [](const Context& c) { return c.i(0) < 0 ? uint64_t{0} - c.u(0) : c.u(0); }},
        {"neg", [](const Context& c) { return uint64_t{0} - c.u(0); }},
        {"and", [](const Context& c) { return c.u(0) & c.u(1); }},
        {"or", [](const Context& c) { return c.u(0) | c.u(1); }},
        {"xor", [](const Context& c) { return c.u(0) ^ c.u(1); }},
        {"not", [](const Context& c) { return ~c.u(0); }},
        {"cnot", [](const Context& c) { return uint64_t{c.u(0) == 0}; }},
        {"mov", [](const Context& c) { return c.u(0); }},
        {"popc", [](const Context& c) { return static_cast<uint64_t>(std::popcount(c.u(0))); }},
        {"sad", [](const Context& c) { return c.u(2) + largest(c) - smallest(c); }},
        {"selp", [](const Context& c) { return c.in.at(2) & 1 ? c.u(0) : c.u(1); }},
        {"slct", [](const Context& c) { return as_signed(c.in.at(2), c.types.at(1).bits) >= 0 ? c.u(0) : c.u(1); }},
        {"setp", [](const Context& c) { return uint64_t{compare(c)}; }},
        {"set",
         [](const Context& c) {
             const bool holds = compare({c.s, c.in, c.types, c.types.at(1)});
             return !holds ? 0 : c.types[0].kind == Type::Kind::real ? 0x3f800000 : ~uint64_t{0};
         }},
    };
    return kTable;
}

}  // namespace

uint64_t low_bits(uint64_t value, unsigned bits) { return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1); }

int64_t as_signed(uint64_t value, unsigned bits) {
    return bits >= 64 ? static_cast<int64_t>(value) : static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

const Operation* operation_of(const Statement& statement) {
    const auto found = table().find(statement.opcode);
    return found == table().end() ? nullptr : &found->second;
}

uint64_t compute(const Statement& statement, const Decoded& decoded, const Values& in) {
    const auto& types = decoded.types;
    if (types.empty()) throw UnknownInstruction(statement.full_opcode());
    if (decoded.real) {
        if (statement.opcode == "cvt") return convert_real(statement, types, in.at(0));
        return compute_real(statement, types, in);
    }
    if (decoded.operation == nullptr) throw UnknownInstruction(statement.full_opcode());
    return (*decoded.operation)({statement, in, types, types.back()});
}

uint64_t atomic_result(const Statement& statement, const Decoded& decoded, uint64_t old, const Values& in) {
    Values both = {old, in.at(0)};
    const Context c{statement, both, decoded.types, decoded.types.at(0)};
    if (statement.has("add")) return c.u(0) + c.u(1);
    if (statement.has("exch")) return c.u(1);
    if (statement.has("cas")) return c.u(0) == c.u(1) ? low_bits(in.at(1), c.bits()) : c.u(0);
    if (statement.has("min")) return smallest(c);
    if (statement.has("max")) return largest(c);
    if (statement.has("and")) return c.u(0) & c.u(1);
    if (statement.has("or")) return c.u(0) | c.u(1);
    if (statement.has("xor")) return c.u(0) ^ c.u(1);
    if (statement.has("inc")) return c.u(0) >= c.u(1) ? 0 : c.u(0) + 1;
    if (statement.has("dec")) return c.u(0) == 0 || c.u(0) > c.u(1) ? c.u(1) : c.u(0) - 1;
    throw UnknownInstruction(statement.full_opcode());
}

}  // namespace millrace::test::ptx_machine
