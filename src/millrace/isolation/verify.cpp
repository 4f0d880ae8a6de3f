#include "millrace/isolation/verify.hpp"

#include <fmt/format.h>

#include "millrace/isolation/check/checker.hpp"

namespace millrace::isolation {
namespace {

/// A domain does not need the block's memory where nothing of a function names it.
void check_own_variables(const Subject& subject) {
    uint64_t local = 0;
    for (const ptx::Variable& variable : subject.function.variables) {
        if (variable.space == ptx::Space::shared)
            subject.refusals.add(
                variable.place,
                fmt::format("'{}' is in shared memory, where others' bytes may still lie", variable.name),
                "take the block's memory, which is cleared: extern __shared__ without a size");
        if (variable.space == ptx::Space::local) local += variable.bytes();
    }
    if (local > subject.bounds.local_bytes)
        subject.refusals.add(subject.function.place,
                             fmt::format("'{}' has {} bytes of local variables", subject.function.name, local),
                             fmt::format("at most {}", subject.bounds.local_bytes));
}

void check_function(const Subject& subject, FunctionPlan& plan) {
    check_own_variables(subject);
    if (!check_instructions(subject)) return;
    plan.flow = flow_of(subject.function);
    if (plan.flow.falls_off) {
        subject.refusals.add(subject.function.place,
                             fmt::format("'{}' can come to its end without a ret", subject.function.name),
                             "end every way with ret");
        return;
    }
    check_accesses(subject, plan);
    check_calls(subject, plan);
    const std::vector<bool> unset = read_before_written(subject.function, plan.flow);
    for (uint32_t r = 0; r < unset.size(); ++r)
        if (unset[r]) plan.read_before_written.push_back(r);
}

}  // namespace

Verdict verify(const ptx::Module& module, const Bounds& bounds) {
    Verdict verdict;
    verdict.plans.resize(module.functions.size());
    Refusals refusals(module, bounds.most_refusals);
    check_variables(module, bounds, refusals);
    bool visible = false;
    for (size_t i = 0; i < module.functions.size(); ++i) {
        const ptx::Function& function = module.functions[i];
        visible |= function.defined && function.visible;
        if (function.defined) check_function({module, function, bounds, refusals}, verdict.plans[i]);
    }
    if (!visible) refusals.add({1, 1}, "there is no function that others may call", "make one .visible");
    if (refusals.empty()) check_call_graph(module, bounds, verdict.plans, refusals);
    verdict.refusals = refusals.take();
    return verdict;
}

}  // namespace millrace::isolation
