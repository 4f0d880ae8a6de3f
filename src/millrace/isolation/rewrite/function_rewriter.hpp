// Rewrites one function.
#pragma once

#include <map>

#include "millrace/isolation/rewrite.hpp"

namespace millrace::isolation {

/// Types of registers that rewriting makes.
inline constexpr ptx::Type kB32{ptx::Type::Kind::bits, 32}, kB64{ptx::Type::Kind::bits, 64},
    kPredicate{ptx::Type::Kind::predicate, 1};

/// What a rewritten function is of the module's.
struct Role {
    bool outer = false;  ///< others call it, as it was declared; else it gets and returns the budget
    /// By function: where calls of it go.
    const std::vector<uint32_t>* callees = nullptr;
};

class FunctionRewriter {
public:
    FunctionRewriter(const ptx::Module& module, const std::vector<FunctionPlan>& plans, uint32_t function,
                     const RewriteOptions& options, Role role);
    ptx::Function run(FunctionReport& report);

private:
    using Operand = ptx::Operand;
    using Statement = ptx::Statement;

    // Making statements.
    uint32_t new_register(const char* name, ptx::Type type);
    uint32_t scratch(const char* name, ptx::Type type);
    void emit(size_t FunctionReport::* counter, const std::string& opcode, std::vector<Operand> operands);
    void emit_branch_to_end(uint32_t predicate);
    void place_label(uint32_t label);
    static Operand reg(uint32_t index);
    static Operand number(uint64_t value);
    static Operand own(uint32_t index);
    static Operand at(Operand base, int64_t offset = 0);

    // Begin and end.
    void begin();
    void clear_registers();
    void clear_locals();
    void clear_parameter(uint32_t variable);
    void begin_budget();
    void end();
    void hand_budget_back();
    void store_verdict();

    // What stands between.
    void copy(size_t index, const Block& block);
    void charge(uint32_t cost);
    void count_loop(uint32_t cost);
    void call(const Statement& statement);

    // Accesses (fence.cpp).
    void access(Statement statement, const AccessPlan& plan);
    void fence(Statement& statement, const AccessPlan& plan);
    void check(Statement& statement, const AccessPlan& plan);
    void clamp(Statement& statement, const AccessPlan& plan);
    bool reuse(Statement& statement, const AccessPlan& plan);
    uint32_t fenced_base(uint32_t base, uint32_t bytes);
    uint32_t object_base(const AccessPlan& plan, bool wide);
    std::string object_name(Object object) const;
    void forget(const Statement& statement);

    const ptx::Module& module_;
    const std::vector<FunctionPlan>& plans_;
    const FunctionPlan& plan_;
    const RewriteOptions options_;
    const Role role_;
    const bool isolated_;
    ptx::Function made_;
    FunctionReport* report_ = nullptr;
    std::vector<Statement> body_;
    std::map<std::string, uint32_t> scratch_;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> fenced_;  ///< by register and width, of this block
    std::map<std::pair<std::string, int>, uint32_t> bases_;     ///< of objects
    std::vector<Statement> prologue_;                           ///< of what the body turned out to need
    uint32_t end_label_ = 0, budget_ = 0, budget_place_ = 0;
    bool end_used_ = false, passes_budget_ = false;
    ptx::Place place_;
};

}  // namespace millrace::isolation
