#include "millrace/isolation/rewrite/function_rewriter.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::isolation {

using ptx::Type;

FunctionRewriter::FunctionRewriter(const ptx::Module& module, const std::vector<FunctionPlan>& plans, uint32_t function,
                                   const RewriteOptions& options, Role role)
    : module_(module), plans_(plans), plan_(plans[function]), options_(options), role_(role),
      isolated_(options.isolation != Isolation::none), made_(module.functions[function]) {}

// --- making statements ---

FunctionRewriter::Operand FunctionRewriter::reg(uint32_t index) {
    Operand made;
    made.kind = Operand::Kind::reg;
    made.index = index;
    return made;
}

FunctionRewriter::Operand FunctionRewriter::number(uint64_t value) {
    Operand made;
    made.kind = Operand::Kind::integer;
    made.value = value;
    return made;
}

FunctionRewriter::Operand FunctionRewriter::own(uint32_t index) {
    Operand made;
    made.kind = Operand::Kind::own;
    made.index = index;
    return made;
}

FunctionRewriter::Operand FunctionRewriter::at(Operand base, int64_t offset) {
    Operand made;
    made.kind = Operand::Kind::address;
    made.elements.push_back(std::move(base));
    made.offset = offset;
    return made;
}

uint32_t FunctionRewriter::new_register(const char* name, Type type) {
    const auto index = static_cast<uint32_t>(made_.registers.size());
    made_.registers.push_back({fmt::format("%fence_{}{}", name, index), type, {}});
    return index;
}

uint32_t FunctionRewriter::scratch(const char* name, Type type) {
    const auto [found, fresh] = scratch_.emplace(name, 0);
    if (fresh) found->second = new_register(name, type);
    return found->second;
}

/// `opcode` with its modifiers: "add.s32".
void FunctionRewriter::emit(size_t FunctionReport::* counter, const std::string& opcode,
                            std::vector<Operand> operands) {
    Statement& made = body_.emplace_back();
    made.added = true;
    made.place = place_;
    size_t begin = 0;
    for (size_t end = opcode.find('.'); begin <= opcode.size(); end = opcode.find('.', begin)) {
        end = std::min(end, opcode.size());
        const std::string word = opcode.substr(begin, end - begin);
        if (begin == 0) made.opcode = word;
        else made.modifiers.push_back(word);
        begin = end + 1;
    }
    made.operands = std::move(operands);
    if (counter != nullptr) ++(report_->*counter);
}

void FunctionRewriter::emit_branch_to_end(uint32_t predicate) {
    Operand target;
    target.kind = Operand::Kind::label;
    target.index = end_label_;
    emit(nullptr, "bra", {target});
    body_.back().guarded = true;
    body_.back().guard = predicate;
    end_used_ = true;
}

void FunctionRewriter::place_label(uint32_t label) {
    Statement& made = body_.emplace_back();
    made.kind = Statement::Kind::label;
    made.index = label;
}

// --- begin and end ---

void FunctionRewriter::clear_registers() {
    for (const uint32_t index : plan_.read_before_written) {
        const Type type = made_.registers[index].type;
        Operand zero = number(0);
        std::string opcode = fmt::format("mov.b{}", type.bits);
        if (type.kind == Type::Kind::predicate) opcode = "mov.pred";
        if (type.kind == Type::Kind::real) {
            opcode = fmt::format("mov.f{}", type.bits);
            zero.kind = type.bits == 64 ? Operand::Kind::real64 : Operand::Kind::real32;
        }
        emit(&FunctionReport::for_clearing, opcode, {reg(index), zero});
    }
}

void FunctionRewriter::clear_locals() {
    for (uint32_t index = 0; index < made_.variables.size(); ++index) {
        ptx::Variable& variable = made_.variables[index];
        if (variable.space != ptx::Space::local) continue;
        variable.alignment = std::max(variable.aligned_to(), 16u);
        const bool first = !scratch_.contains("zero");
        const uint32_t zero = scratch("zero", kB64);
        if (first) emit(&FunctionReport::for_clearing, "mov.b64", {reg(zero), number(0)});
        const auto bytes = static_cast<int64_t>(variable.bytes());
        for (int64_t offset = 0; offset < bytes;) {
            int64_t piece = 16;
            while (piece > bytes - offset) piece /= 2;
            if (piece == 16) {
                Operand both;
                both.kind = Operand::Kind::vector;
                both.elements = {reg(zero), reg(zero)};
                emit(&FunctionReport::for_clearing, "st.local.v2.b64", {at(own(index), offset), both});
            } else {
                emit(&FunctionReport::for_clearing, fmt::format("st.local.b{}", piece * 8),
                     {at(own(index), offset), reg(zero)});
            }
            offset += piece;
        }
    }
}

void FunctionRewriter::clear_parameter(uint32_t index) {
    const ptx::Variable& variable = made_.variables[index];
    const auto bytes = static_cast<int64_t>(variable.bytes());
    for (int64_t offset = 0; offset < bytes;) {
        int64_t piece = std::min<int64_t>(8, variable.aligned_to());
        while (piece > bytes - offset) piece /= 2;
        emit(&FunctionReport::for_clearing, fmt::format("st.param.b{}", piece * 8),
             {at(own(index), offset), number(0)});
        offset += piece;
    }
}

/// The budget is in a register. Functions that call each other hand it on in local memory of the outermost one.
void FunctionRewriter::begin_budget() {
    if (!plan_.counted) return;
    budget_ = new_register("budget", kB32);
    passes_budget_ = std::ranges::any_of(plan_.calls, [&](size_t at) {
        for (const Operand& operand : made_.body[at].operands)
            if (operand.is(Operand::Kind::function) && plans_[operand.index].counted) return true;
        return false;
    });
    if (role_.outer) {
        // May be below 0 from the beginning: then the first loop or call ends it.
        emit(&FunctionReport::for_budget, "mov.u32",
             {reg(budget_), number(static_cast<uint64_t>(int64_t{options_.budget} - plan_.entry_cost))});
        if (!passes_budget_) return;
        ptx::Variable variable;
        variable.name = fmt::format("fence_budget_of_{}", made_.name);
        variable.space = ptx::Space::local;
        budget_place_ = new_register("place", kB64);
        made_.variables.push_back(variable);
        emit(&FunctionReport::for_budget, "mov.u64",
             {reg(budget_place_), own(static_cast<uint32_t>(made_.variables.size() - 1))});
        return;
    }
    ptx::Variable parameter;
    parameter.name = fmt::format("fence_budget_for_{}", made_.name);
    parameter.space = ptx::Space::param;
    parameter.type = kB64;
    made_.parameters.push_back(static_cast<uint32_t>(made_.variables.size()));
    made_.variables.push_back(parameter);
    budget_place_ = new_register("place", kB64);
    emit(&FunctionReport::for_budget, "ld.param.b64", {reg(budget_place_), at(own(made_.parameters.back()))});
    emit(&FunctionReport::for_budget, "ld.local.u32", {reg(budget_), at(reg(budget_place_))});
    charge(plan_.entry_cost);
}

void FunctionRewriter::begin() {
    end_label_ = made_.labels++;
    // Before `begin_budget` adds a variable that needs no clearing.
    clear_locals();
    clear_registers();
    if (!made_.results.empty() && !plan_.fills_result) clear_parameter(made_.results[0]);
    begin_budget();
}

void FunctionRewriter::hand_budget_back() {
    if (plan_.counted && !role_.outer)
        emit(&FunctionReport::for_budget, "st.local.u32", {at(reg(budget_place_)), reg(budget_)});
}

void FunctionRewriter::store_verdict() {
    if (made_.results.empty()) return;
    const uint32_t result = made_.results[0];
    const auto bytes = static_cast<int64_t>(made_.variables[result].bytes());
    for (int64_t offset = 0; offset < bytes;) {
        int64_t piece = std::min<int64_t>(8, made_.variables[result].aligned_to());
        while (piece > bytes - offset) piece /= 2;
        uint64_t value = offset < 8 ? options_.verdict >> offset * 8 : 0;
        if (piece < 8) value &= (uint64_t{1} << piece * 8) - 1;
        emit(&FunctionReport::for_budget, fmt::format("st.param.b{}", piece * 8),
             {at(own(result), offset), number(value)});
        offset += piece;
    }
}

void FunctionRewriter::end() {
    if (!end_used_) return;
    place_label(end_label_);
    hand_budget_back();
    store_verdict();
    emit(&FunctionReport::for_budget, "ret", {});
}

// --- what stands between ---

void FunctionRewriter::charge(uint32_t cost) {
    emit(&FunctionReport::for_budget, "add.s32", {reg(budget_), reg(budget_), number(~uint64_t{cost} + 1)});
}

void FunctionRewriter::count_loop(uint32_t cost) {
    const uint32_t spent = scratch("spent", kPredicate);
    charge(cost);
    emit(&FunctionReport::for_budget, "setp.lt.s32", {reg(spent), reg(budget_), number(0)});
    emit_branch_to_end(spent);
    ++report_->for_budget;
}

void FunctionRewriter::call(const Statement& statement) {
    Statement made = statement;
    std::erase(made.modifiers, "uni");
    size_t name = 0;
    while (!made.operands[name].is(Operand::Kind::function)) ++name;
    const uint32_t callee = made.operands[name].index;
    made.operands[name].index = (*role_.callees)[callee];
    if (!plans_[callee].counted) {
        body_.push_back(std::move(made));
        return;
    }
    emit(&FunctionReport::for_budget, "st.local.u32", {at(reg(budget_place_)), reg(budget_)});
    ptx::Variable argument;
    argument.name = fmt::format("fence_budget_{}", made_.variables.size());
    argument.space = ptx::Space::param;
    argument.type = kB64;
    const auto index = static_cast<uint32_t>(made_.variables.size());
    made_.variables.push_back(argument);
    Statement& declared = body_.emplace_back();
    declared.kind = Statement::Kind::declare;
    declared.index = index;
    emit(&FunctionReport::for_budget, "st.param.b64", {at(own(index)), reg(budget_place_)});
    if (name + 1 == made.operands.size()) {
        Operand list;
        list.kind = Operand::Kind::list;
        made.operands.push_back(list);
    }
    made.operands[name + 1].elements.push_back(own(index));
    body_.push_back(std::move(made));
    const uint32_t spent = scratch("spent", kPredicate);
    emit(&FunctionReport::for_budget, "ld.local.u32", {reg(budget_), at(reg(budget_place_))});
    emit(&FunctionReport::for_budget, "setp.lt.s32", {reg(spent), reg(budget_), number(0)});
    emit_branch_to_end(spent);
    ++report_->for_budget;
}

void FunctionRewriter::copy(size_t index, const Block& block) {
    const Statement& statement = made_.body[index];
    place_ = statement.place;
    if (statement.kind == Statement::Kind::open || statement.kind == Statement::Kind::close) {
        body_.push_back(statement);
        return;
    }
    if (!block.reached && statement.kind != Statement::Kind::declare) return;
    if (statement.kind == Statement::Kind::declare) {
        body_.push_back(statement);
        if (std::ranges::count(plan_.unfilled, statement.index) > 0) clear_parameter(statement.index);
        return;
    }
    if (statement.is_instruction() && statement.opcode == "ret") {
        // A return that some lanes leave out hands the same number back to no harm.
        hand_budget_back();
    }
    if (statement.is_instruction() && statement.opcode == "call") call(statement);
    else body_.push_back(statement);
    // Who says that all lanes go the same way need not be right.
    Statement& copied = body_.back();
    if (copied.opcode == "bra" || copied.opcode == "ret") std::erase(copied.modifiers, "uni");
}

ptx::Function FunctionRewriter::run(FunctionReport& report) {
    report_ = &report;
    report.name = made_.name;
    for (const Statement& statement : made_.body) report.instructions += statement.is_instruction();
    report.loops = plan_.flow.loop_heads.size();
    if (!isolated_) return made_;
    begin();
    size_t next_access = 0;
    std::vector<AccessPlan> accesses = plan_.accesses;
    std::ranges::sort(accesses, {}, &AccessPlan::statement);
    for (uint32_t b = 0; b < plan_.flow.blocks.size(); ++b) {
        const Block& block = plan_.flow.blocks[b];
        fenced_.clear();
        const auto found = std::ranges::lower_bound(plan_.flow.loop_heads, b);
        bool head = found != plan_.flow.loop_heads.end() && *found == b;
        const uint32_t cost = head ? plan_.head_costs[static_cast<size_t>(found - plan_.flow.loop_heads.begin())] : 0;
        for (size_t i = block.begin; i < block.end; ++i) {
            if (head && made_.body[i].kind != Statement::Kind::label) {
                count_loop(cost);
                head = false;
            }
            while (next_access < accesses.size() && accesses[next_access].statement < i) ++next_access;
            if (next_access < accesses.size() && accesses[next_access].statement == i) {
                place_ = made_.body[i].place;
                access(made_.body[i], accesses[next_access]);
            } else {
                copy(i, block);
            }
            if (made_.body[i].is_instruction()) forget(made_.body[i]);
        }
        if (head) count_loop(cost);
    }
    end();
    body_.insert(body_.begin(), prologue_.begin(), prologue_.end());
    made_.body = std::move(body_);
    return std::move(made_);
}

}  // namespace millrace::isolation
