#include "millrace/isolation/analysis/opcodes.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace millrace::isolation {
namespace {

using enum Effect;

// Floating-point functions that GPUs approximate are left out: nothing but a GPU can say what they give.
constexpr Opcode kOpcodes[] = {
    {"abs", compute, 2, 2, "ftz", "num"},
    {"add", compute, 3, 3, "sat rn rz rm rp ftz", "num"},
    {"and", compute, 3, 3, "", "all"},
    {"atom", atomic, 3, 4,
     "relaxed acquire release acq_rel cta gpu sys global shared shared::cta exch cas add inc dec min max and or xor",
     "int"},
    {"bfe", compute, 4, 4, "", "int"},
    {"bfi", compute, 5, 5, "", "int"},
    {"bfind", compute, 2, 2, "shiftamt", "int"},
    {"bra", branch, 1, 1, "uni", ""},
    {"brev", compute, 2, 2, "", "int"},
    {"call", call, 1, 3, "uni", ""},
    {"clz", compute, 2, 2, "", "int"},
    {"cnot", compute, 2, 2, "", "int"},
    {"cvt", compute, 2, 2, "rn rz rm rp rni rzi rmi rpi ftz sat", "num"},
    {"cvta", compute, 2, 2, "to global shared local const", "int"},
    {"div", compute, 3, 3, "rn rz rm rp ftz", "num"},
    {"fence", order, 0, 0, "sc acq_rel acquire release cta gpu sys", ""},
    {"fma", compute, 4, 4, "rn rz rm rp ftz sat", "num"},
    {"isspacep", compute, 2, 2, "global shared local const shared::cta", ""},
    {"ld", load, 2, 2,
     "weak relaxed acquire volatile cta gpu sys global shared shared::cta local const param param::entry param::func "
     "ca cg cs lu cv nc v2 v4 L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
     "L2::64B L2::128B L2::256B",
     "num"},
    {"lop3", compute, 5, 5, "", "int"},
    {"mad", compute, 4, 4, "lo hi wide sat", "int"},
    {"max", compute, 3, 3, "ftz", "num"},
    {"membar", order, 0, 0, "cta gl sys", ""},
    {"min", compute, 3, 3, "ftz", "num"},
    {"mov", compute, 2, 2, "", "all"},
    {"mul", compute, 3, 3, "lo hi wide rn rz rm rp ftz sat", "num"},
    {"mul24", compute, 3, 3, "lo hi", "int"},
    {"mad24", compute, 4, 4, "lo hi", "int"},
    {"neg", compute, 2, 2, "ftz", "num"},
    {"not", compute, 2, 2, "", "all"},
    {"or", compute, 3, 3, "", "all"},
    {"popc", compute, 2, 2, "", "int"},
    {"prmt", compute, 4, 4, "f4e b4e rc8 ecl ecr rc16", "int"},
    {"red", reduction, 2, 2, "relaxed release cta gpu sys global shared shared::cta add inc dec min max and or xor",
     "int"},
    {"rem", compute, 3, 3, "", "int"},
    {"ret", leave, 0, 0, "uni", ""},
    {"sad", compute, 4, 4, "", "int"},
    {"selp", compute, 4, 4, "", "num"},
    {"set", compute, 3, 3, "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan ftz", "num"},
    {"setp", compute, 3, 4, "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan ftz and or xor", "num"},
    {"shf", compute, 4, 4, "l r clamp wrap", "int"},
    {"shl", compute, 3, 3, "", "int"},
    {"shr", compute, 3, 3, "", "int"},
    {"slct", compute, 4, 4, "ftz", "num"},
    {"st", store, 2, 2,
     "weak relaxed release volatile cta gpu sys global shared shared::cta local param param::func wb cg cs wt v2 v4 "
     "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate",
     "num"},
    {"sub", compute, 3, 3, "sat rn rz rm rp ftz", "num"},
    {"xor", compute, 3, 3, "", "all"},
};

struct Known {
    const char *names, *why, *mend;
};
constexpr Known kRefusals[] = {
    {"addc subc madc", "a carry that nothing set would be read from whoever ran before", "add in 64 bits"},
    {"bar barrier", "threads that do not come leave the others waiting for ever",
     "work on one packet with one lane, without barriers"},
    {"shfl vote match redux activemask elect", "it waits for the other lanes of a warp, which may never come",
     "have the device half use one lane a packet"},
    {"trap brkpt", "it ends the GPU's context, and with it everybody's work", "return an outcome"},
    {"exit", "the thread would not come back to the chain", "return an outcome"},
    {"brx", "a branch by a number can go anywhere", "compile without jump tables, or branch by comparisons"},
    {"nanosleep", "it keeps a multiprocessor waiting", "return an outcome"},
    {"alloca stacksave stackrestore", "memory of a size that is found out as it runs cannot be bounded",
     "declare an array of a fixed size"},
    {"cp cp.async st.async st.bulk red.async multimem mbarrier tensormap wgmma wmma mma ldmatrix stmatrix tcgen05 "
     "setmaxnreg cluster mapa getctarank griddepcontrol",
     "it works beside the thread, or for a group of them", "load and store from the thread"},
    {"tex tld4 txq suld sust sured suq ldu", "its address is not one that can be fenced", "load with ld"},
    {"prefetch prefetchu discard applypriority createpolicy", "it names memory without an access that could be fenced",
     "leave it out"},
    {"sin cos ex2 lg2 tanh rcp sqrt rsqrt testp copysign",
     "floating-point functions are not in the list of instructions", "use integers"},
    {"pmevent", "it disturbs those who measure", "leave it out"},
};

template <class F>
void for_each_word(std::string_view words, F&& f) {
    while (!words.empty()) {
        const size_t end = std::min(words.find(' '), words.size());
        f(words.substr(0, end));
        words.remove_prefix(std::min(end + 1, words.size()));
    }
}

}  // namespace

const Opcode* find_opcode(std::string_view name) {
    static const auto table = [] {
        std::unordered_map<std::string_view, const Opcode*> made;
        for (const Opcode& opcode : kOpcodes) made.emplace(opcode.name, &opcode);
        return made;
    }();
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

std::vector<std::string_view> permitted_opcodes() {
    std::vector<std::string_view> names;
    for (const Opcode& opcode : kOpcodes) names.emplace_back(opcode.name);
    return names;
}

Refusal why_not(std::string_view opcode) {
    for (const Known& known : kRefusals) {
        bool here = false;
        for_each_word(known.names, [&](std::string_view name) { here |= name == opcode; });
        if (here) return {known.why, known.mend};
    }
    return {"it is not in the list of permitted instructions", "docs/architecture/isolation.md has the list"};
}

namespace {

using Words = std::unordered_set<std::string_view>;

const Words& modifiers_of(const Opcode& opcode) {
    static const auto table = [] {
        std::unordered_map<const Opcode*, Words> made;
        for (const Opcode& one : kOpcodes)
            for_each_word(one.modifiers, [&](std::string_view word) { made[&one].insert(word); });
        return made;
    }();
    static const Words kNone;
    const auto found = table.find(&opcode);
    return found == table.end() ? kNone : found->second;
}

bool has_type(const Opcode& opcode, ptx::Type type) {
    using Kind = ptx::Type::Kind;
    const std::string_view types = opcode.types;
    if (types.empty()) return false;
    if (type.kind == Kind::real) return types != "int";
    if (type.kind == Kind::predicate) return types == "all";
    return true;
}

}  // namespace

std::optional<std::string> forbidden_modifier(const Opcode& opcode, const ptx::Statement& statement) {
    const Words& permitted = modifiers_of(opcode);
    for (const std::string& modifier : statement.modifiers) {
        ptx::Type type;
        if (permitted.contains(modifier)) continue;
        if (ptx::parse_type(modifier, type) && has_type(opcode, type)) continue;
        return modifier;
    }
    return std::nullopt;
}

bool is_permitted_special(std::string_view name) {
    static const Words kPermitted = {
        "%tid.x",   "%tid.y",       "%tid.z",       "%ntid.x",      "%ntid.y",      "%ntid.z",
        "%ctaid.x", "%ctaid.y",     "%ctaid.z",     "%nctaid.x",    "%nctaid.y",    "%nctaid.z",
        "%laneid",  "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt",
    };
    return kPermitted.contains(name);
}

std::optional<Access> access_of(const ptx::Statement& statement) {
    const Opcode* const opcode = find_opcode(statement.opcode);
    if (opcode == nullptr) return std::nullopt;
    Access access;
    switch (opcode->effect) {
        case load: access.reads = true; break;
        case store: access.writes = true; break;
        case atomic:
        case reduction: access.reads = access.writes = true; break;
        default: return std::nullopt;
    }
    access.operand = opcode->effect == load || opcode->effect == atomic ? 1 : 0;
    uint32_t elements = 1;
    for (const std::string& modifier : statement.modifiers) {
        ptx::Type type;
        if (modifier == "global") access.way = Access::Way::global;
        else if (modifier == "const") access.way = Access::Way::constant;
        else if (modifier == "local") access.way = Access::Way::local;
        else if (modifier.starts_with("shared")) access.way = Access::Way::shared;
        else if (modifier.starts_with("param")) access.way = Access::Way::param;
        else if (modifier == "v2") elements = 2;
        else if (modifier == "v4") elements = 4;
        else if (ptx::parse_type(modifier, type)) access.bytes = type.bytes();
    }
    if (access.bytes == 0) return std::nullopt;
    access.bytes *= elements;
    return access;
}

}  // namespace millrace::isolation
