// What the checks of the verifier share.
#pragma once

#include "millrace/isolation/verify.hpp"

namespace millrace::isolation {

/// Collects refusals: of each the line, the instruction, why, and what would mend it.
class Refusals {
public:
    Refusals(const ptx::Module& module, size_t most) : module_(module), most_(most) {}
    void add(ptx::Place place, const std::string& message, const std::string& mend);
    /// Of an instruction.
    void add(const ptx::Function& function, const ptx::Statement& statement, const std::string& why,
             const std::string& mend);
    bool full() const { return list_.size() >= most_; }
    bool empty() const { return list_.empty(); }
    std::vector<Diagnostic> take() { return std::move(list_); }

private:
    const ptx::Module& module_;
    const size_t most_;
    std::vector<Diagnostic> list_;
};

/// What `check_*` look at.
struct Subject {
    const ptx::Module& module;
    const ptx::Function& function;
    const Bounds& bounds;
    Refusals& refusals;
};

/// Whether all instructions are of the list, with operands of the right kinds.
bool check_instructions(const Subject& subject);
/// Plans every access to memory; refuses those that cannot be bounded.
void check_accesses(const Subject& subject, FunctionPlan& plan);
/// That calls name functions of the module and give them what they want, in straight lines.
void check_calls(const Subject& subject, FunctionPlan& plan);
/// Of the module: no recursion, depth, and who is counted.
void check_call_graph(const ptx::Module& module, const Bounds& bounds, std::vector<FunctionPlan>& plans,
                      Refusals& refusals);
/// Of a function whose callees have theirs: what it costs to run straight on. False where that is more than
/// kMaxStraightOn.
inline constexpr uint32_t kMaxStraightOn = 1u << 24;
bool find_costs(const ptx::Module& module, uint32_t function, std::vector<FunctionPlan>& plans);
/// The function that a call names.
uint32_t callee_of(const ptx::Statement& call);
/// Of the module: no other module's variables, none of a block's.
void check_variables(const ptx::Module& module, const Bounds& bounds, Refusals& refusals);

}  // namespace millrace::isolation
