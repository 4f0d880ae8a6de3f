// Floating-point instructions, by the host's.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>

#include "isolation/interpreter/compute.hpp"

namespace millrace::test::ptx_machine {
namespace {

using isolation::ptx::Statement;
using isolation::ptx::Type;
using Types = std::vector<Type>;

/// The host rounds as the instruction says for as long as one of these lives.
class Rounding {
public:
    explicit Rounding(const Statement& s) {
        if (s.has("rz") || s.has("rzi")) std::fesetround(FE_TOWARDZERO);
        else if (s.has("rm") || s.has("rmi")) std::fesetround(FE_DOWNWARD);
        else if (s.has("rp") || s.has("rpi")) std::fesetround(FE_UPWARD);
    }
    ~Rounding() { std::fesetround(FE_TONEAREST); }
    Rounding(const Rounding&) = delete;
    Rounding& operator=(const Rounding&) = delete;
};

template <class Real>
struct Bits;
template <>
struct Bits<float> {
    using Word = uint32_t;
    static constexpr uint32_t kNan = 0x7fffffff;
};
template <>
struct Bits<double> {
    using Word = uint64_t;
    static constexpr uint64_t kNan = 0x7ff8000000000000;
};

template <class Real>
Real read(const Statement& s, uint64_t value) {
    const Real made = std::bit_cast<Real>(static_cast<typename Bits<Real>::Word>(value));
    return s.has("ftz") && std::fpclassify(made) == FP_SUBNORMAL ? std::copysign(Real{0}, made) : made;
}

template <class Real>
uint64_t write(const Statement& s, Real value) {
    if (s.has("sat")) value = std::isnan(value) ? Real{0} : std::clamp(value, Real{0}, Real{1});
    if (std::isnan(value)) return Bits<Real>::kNan;
    if (s.has("ftz") && std::fpclassify(value) == FP_SUBNORMAL) value = std::copysign(Real{0}, value);
    return std::bit_cast<typename Bits<Real>::Word>(value);
}

template <class Real>
bool compare(const Statement& s, Real a, Real b) {
    const bool unordered = std::isnan(a) || std::isnan(b);
    if (s.has("num")) return !unordered;
    if (s.has("nan")) return unordered;
    if (s.has("eq")) return a == b;
    if (s.has("ne")) return !unordered && a != b;
    if (s.has("lt")) return a < b;
    if (s.has("le")) return a <= b;
    if (s.has("gt")) return a > b;
    if (s.has("ge")) return a >= b;
    if (s.has("equ")) return unordered || a == b;
    if (s.has("neu")) return unordered || a != b;
    if (s.has("ltu")) return unordered || a < b;
    if (s.has("leu")) return unordered || a <= b;
    if (s.has("gtu")) return unordered || a > b;
    if (s.has("geu")) return unordered || a >= b;
    throw UnknownInstruction(s.full_opcode());
}

template <class Real>
uint64_t calculate(const Statement& s, const Types& types, const std::vector<uint64_t>& in) {
    // Volatile, so that the host does not calculate before it rounds as it is told.
    const volatile Real a = read<Real>(s, in.at(0));
    const volatile Real b = in.size() > 1 ? read<Real>(s, in[1]) : Real{0};
    if (s.opcode == "setp") return compare<Real>(s, a, b);
    if (s.opcode == "set") {
        if (!compare<Real>(s, a, b)) return 0;
        return types.at(0).kind == Type::Kind::real ? 0x3f800000 : 0xffffffff;
    }
    const Rounding rounding(s);
    volatile Real made = 0;
    if (s.opcode == "add") made = a + b;
    else if (s.opcode == "sub") made = a - b;
    else if (s.opcode == "mul") made = a * b;
    else if (s.opcode == "div") made = a / b;
    else if (s.opcode == "fma") made = std::fma(a, b, read<Real>(s, in.at(2)));
    else if (s.opcode == "neg") made = -a;
    else if (s.opcode == "abs") made = std::fabs(a);
    else if (s.opcode == "min") made = std::fmin(a, b);
    else if (s.opcode == "max") made = std::fmax(a, b);
    else throw UnknownInstruction(s.full_opcode());
    return write<Real>(s, made);
}

uint64_t to_integer(const Statement& s, long double value, Type to) {
    if (std::isnan(value)) return 0;
    const Rounding rounding(s);
    value = std::nearbyint(value);
    const bool is_signed = to.kind == Type::Kind::signed_int;
    const long double low = is_signed ? -std::ldexp(1.0L, to.bits - 1) : 0.0L;
    const long double high = std::ldexp(1.0L, is_signed ? to.bits - 1 : to.bits) - 1;
    value = std::clamp(value, low, high);
    return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
}

template <class Real>
uint64_t from_integer(const Statement& s, uint64_t in, Type from) {
    const Rounding rounding(s);
    volatile Real made = from.kind == Type::Kind::signed_int ? static_cast<Real>(as_signed(in, from.bits))
                                                             : static_cast<Real>(low_bits(in, from.bits));
    return write<Real>(s, made);
}

}  // namespace

uint64_t compute_real(const Statement& s, const Types& types, const std::vector<uint64_t>& in) {
    if (s.opcode == "slct") {
        const bool positive = read<float>(s, in.at(2)) >= 0;
        return low_bits(in.at(positive ? 0 : 1), types[0].bits);
    }
    return types.back().bits == 64 ? calculate<double>(s, types, in) : calculate<float>(s, types, in);
}

uint64_t convert_real(const Statement& s, const Types& types, uint64_t in) {
    const Type to = types.at(0), from = types.at(1);
    if (from.kind != Type::Kind::real)
        return to.bits == 64 ? from_integer<double>(s, in, from) : from_integer<float>(s, in, from);
    const double value = from.bits == 64 ? read<double>(s, in) : read<float>(s, in);
    if (to.kind != Type::Kind::real) return to_integer(s, value, to);
    const Rounding rounding(s);
    volatile double whole = value;
    if (s.has("rni") || s.has("rzi") || s.has("rmi") || s.has("rpi")) whole = std::nearbyint(whole);
    if (to.bits == 64) return write<double>(s, whole);
    volatile float narrow = static_cast<float>(whole);
    return write<float>(s, narrow);
}

}  // namespace millrace::test::ptx_machine
