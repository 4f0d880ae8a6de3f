// Accesses to memory: forced into the window, compared with its bounds, or kept within a variable.
#include <fmt/format.h>

#include <algorithm>

#include "millrace/isolation/rewrite/function_rewriter.hpp"

namespace millrace::isolation {
namespace {

using ptx::Type;

/// Says of a generic access that it is one to global memory: that is where the window lies.
void make_global(ptx::Statement& statement) {
    if (statement.has("global")) return;
    constexpr std::string_view kBefore[] = {"weak",    "volatile", "relaxed", "acquire", "release",
                                            "acq_rel", "cta",      "gpu",     "sys"};
    auto place = statement.modifiers.begin();
    while (place != statement.modifiers.end() && std::ranges::count(kBefore, *place) > 0) ++place;
    statement.modifiers.insert(place, "global");
}

}  // namespace

void FunctionRewriter::forget(const Statement& statement) {
    if (fenced_.empty()) return;
    for_each_written(statement, *find_opcode(statement.opcode), [&](uint32_t written) {
        std::erase_if(fenced_, [&](const auto& known) { return known.first.first == written; });
    });
}

void FunctionRewriter::access(Statement statement, const AccessPlan& plan) {
    switch (plan.kind) {
        case AccessPlan::Kind::proven: ++report_->proven_accesses; break;
        case AccessPlan::Kind::object:
            ++report_->object_accesses;
            clamp(statement, plan);
            break;
        case AccessPlan::Kind::window:
            ++report_->window_accesses;
            make_global(statement);
            if (options_.isolation == Isolation::checked) check(statement, plan);
            else if (!reuse(statement, plan)) fence(statement, plan);
            break;
    }
    body_.push_back(std::move(statement));
}

/// The low half of a 64-bit address takes the window's upper half: two instructions for bytes, three for what must be
/// aligned, one more for an offset.
void FunctionRewriter::fence(Statement& statement, const AccessPlan& plan) {
    constexpr auto kCounter = &FunctionReport::for_window;
    Operand& address = statement.operands[plan.access.operand];
    const uint32_t low = scratch("low", kB32), whole = scratch("address", kB64);
    const Operand& base = address.elements[0];
    if (base.is(Operand::Kind::integer)) {
        emit(kCounter, "mov.b32",
             {reg(low), number((base.value + static_cast<uint64_t>(address.offset)) & 0xffffffffu)});
    } else {
        emit(kCounter, "cvt.u32.u64", {reg(low), base});
        if (address.offset != 0)
            emit(kCounter, "add.s32", {reg(low), reg(low), number(static_cast<uint64_t>(address.offset))});
    }
    if (plan.access.bytes > 1)
        emit(kCounter, "and.b32", {reg(low), reg(low), number(~uint64_t{plan.access.bytes - 1})});
    Operand halves;
    halves.kind = Operand::Kind::vector;
    halves.elements = {reg(low), number(options_.window >> 32)};
    emit(kCounter, "mov.b64", {reg(whole), halves});
    address = at(reg(whole));
}

uint32_t FunctionRewriter::fenced_base(uint32_t base, uint32_t bytes) {
    constexpr auto kCounter = &FunctionReport::for_window;
    const auto found = fenced_.find({base, bytes});
    if (found != fenced_.end()) return found->second;
    const uint32_t low = scratch("low", kB32), whole = new_register("base", kB64);
    emit(kCounter, "cvt.u32.u64", {reg(low), reg(base)});
    if (bytes > 1) emit(kCounter, "and.b32", {reg(low), reg(low), number(~uint64_t{bytes - 1})});
    Operand halves;
    halves.kind = Operand::Kind::vector;
    halves.elements = {reg(low), number(options_.window >> 32)};
    emit(kCounter, "mov.b64", {reg(whole), halves});
    return fenced_[{base, bytes}] = whole;
}

/// With guards beside the window, an offset can stay in the instruction, and all accesses of a block by one pointer
/// share the fence. Their pointer is aligned when they are.
bool FunctionRewriter::reuse(Statement& statement, const AccessPlan& plan) {
    Operand& address = statement.operands[plan.access.operand];
    const int64_t guard = options_.guard_bytes, bytes = plan.access.bytes;
    if (guard == 0 || !address.elements[0].is(Operand::Kind::reg)) return false;
    if (address.offset % bytes != 0 || address.offset < -guard || address.offset > guard) return false;
    address.elements[0] = reg(fenced_base(address.elements[0].index, plan.access.bytes));
    return true;
}

void FunctionRewriter::check(Statement& statement, const AccessPlan& plan) {
    constexpr auto kCounter = &FunctionReport::for_window;
    Operand& address = statement.operands[plan.access.operand];
    const uint32_t whole = scratch("address", kB64), distance = scratch("distance", kB64);
    const uint32_t beyond = scratch("beyond", kPredicate);
    Operand base = address.elements[0];
    if (base.is(Operand::Kind::integer) || address.offset != 0) {
        if (base.is(Operand::Kind::integer))
            emit(kCounter, "mov.b64", {reg(whole), number(base.value + static_cast<uint64_t>(address.offset))});
        else emit(kCounter, "add.s64", {reg(whole), base, number(static_cast<uint64_t>(address.offset))});
        base = reg(whole);
        address = at(base);
    }
    // Where the access is left out, so is what follows from its address.
    const auto when = [&](std::vector<Operand> operands) {
        if (statement.guarded) {
            Operand guard = reg(statement.guard);
            guard.negated = statement.guard_negated;
            operands.push_back(guard);
        }
        return operands;
    };
    const std::string also = statement.guarded ? ".and" : "";
    emit(kCounter, "sub.s64", {reg(distance), base, number(options_.window)});
    emit(kCounter, "setp.gt" + also + ".u64",
         when({reg(beyond), reg(distance), number(kWindowBytes - plan.access.bytes)}));
    emit_branch_to_end(beyond);
    ++(report_->*kCounter);
    if (plan.access.bytes == 1) return;
    emit(kCounter, "and.b64", {reg(distance), reg(distance), number(plan.access.bytes - 1)});
    emit(kCounter, "setp.ne" + also + ".s64", when({reg(beyond), reg(distance), number(0)}));
    emit_branch_to_end(beyond);
    ++(report_->*kCounter);
}

std::string FunctionRewriter::object_name(Object object) const {
    return object.own ? made_.variables[object.index].name : module_.variables[object.index].name;
}

/// A register that holds where an object begins, set at the function's begin.
uint32_t FunctionRewriter::object_base(const AccessPlan& plan, bool wide) {
    constexpr auto kCounter = &FunctionReport::for_objects;
    const bool generic = plan.generic && variable_of(module_, made_, plan.object).space != ptx::Space::global;
    const auto [found, fresh] = bases_.emplace(std::pair(object_name(plan.object), generic ? 2 : wide ? 1 : 0), 0);
    if (!fresh) return found->second;
    Operand variable = own(plan.object.index);
    if (!plan.object.own) variable.kind = Operand::Kind::variable;
    found->second = new_register("object", wide ? kB64 : kB32);
    std::swap(body_, prologue_);
    emit(kCounter, wide ? "mov.u64" : "mov.u32", {reg(found->second), variable});
    if (generic) {
        const ptx::Space space = variable_of(module_, made_, plan.object).space;
        const char* const name = space == ptx::Space::local    ? "local"
                                 : space == ptx::Space::shared ? "shared"
                                                               : "const";
        emit(kCounter, fmt::format("cvta.{}.u64", name), {reg(found->second), reg(found->second)});
    }
    std::swap(body_, prologue_);
    return found->second;
}

/// The distance from the object's begin, at most what lets the access end in it.
void FunctionRewriter::clamp(Statement& statement, const AccessPlan& plan) {
    constexpr auto kCounter = &FunctionReport::for_objects;
    Operand& address = statement.operands[plan.access.operand];
    const uint32_t from = address.elements[0].index;
    const bool wide = made_.registers[from].type.bits == 64;
    const uint32_t base = object_base(plan, wide);
    const uint32_t distance = wide ? scratch("distance", kB64) : scratch("near", kB32);
    const uint32_t whole = wide ? scratch("address", kB64) : scratch("low", kB32);
    const int bits = wide ? 64 : 32;
    const ptx::Variable& variable = variable_of(module_, made_, plan.object);
    const uint64_t size = variable.count == 0 ? options_.shared_bytes : variable.bytes();
    emit(kCounter, fmt::format("sub.s{}", bits), {reg(distance), reg(from), reg(base)});
    if (address.offset != 0)
        emit(kCounter, fmt::format("add.s{}", bits),
             {reg(distance), reg(distance), number(static_cast<uint64_t>(address.offset))});
    emit(kCounter, fmt::format("min.u{}", bits), {reg(distance), reg(distance), number(size - plan.access.bytes)});
    if (plan.access.bytes > 1)
        emit(kCounter, fmt::format("and.b{}", bits),
             {reg(distance), reg(distance), number(~uint64_t{plan.access.bytes - 1})});
    emit(kCounter, fmt::format("add.s{}", bits), {reg(whole), reg(distance), reg(base)});
    address = at(reg(whole));
}

}  // namespace millrace::isolation
