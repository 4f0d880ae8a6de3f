#include "millrace/isolation/rewrite.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/isolation/rewrite/function_rewriter.hpp"

namespace millrace::isolation {
namespace {

/// So much that every access within a variable is aligned when its distance is.
void align_variables(ptx::Module& module) {
    constexpr uint32_t kWidest = 16;
    for (ptx::Variable& variable : module.variables) variable.alignment = std::max(variable.aligned_to(), kWidest);
}

}  // namespace

Rewritten rewrite(const ptx::Module& module, const Verdict& verdict, const RewriteOptions& options) {
    Rewritten made;
    made.module = module;
    std::vector<ptx::Function>& functions = made.module.functions;
    if (options.isolation != Isolation::none) align_variables(made.module);
    // A function that others call stays as it was declared. Where the module calls it, too, there is another one of it.
    std::vector<uint32_t> callees(module.functions.size());
    std::vector<uint32_t> doubled;
    for (uint32_t f = 0; f < module.functions.size(); ++f) {
        const FunctionPlan& plan = verdict.plans[f];
        callees[f] = f;
        if (!module.functions[f].visible || !plan.counted || !plan.called) continue;
        callees[f] = static_cast<uint32_t>(module.functions.size() + doubled.size());
        doubled.push_back(f);
    }
    for (uint32_t f = 0; f < module.functions.size(); ++f) {
        if (!module.functions[f].defined) continue;
        const Role role{module.functions[f].visible, &callees};
        functions[f] = FunctionRewriter(module, verdict.plans, f, options, role).run(made.functions.emplace_back());
    }
    if (options.isolation == Isolation::none) return made;
    for (const uint32_t f : doubled) {
        ptx::Function inner = FunctionRewriter(module, verdict.plans, f, options, {false, &callees})
                                  .run(made.functions.emplace_back());
        inner.visible = false;
        inner.name = fmt::format("fence_inner_{}", inner.name);
        made.functions.back().name = inner.name;
        functions.push_back(std::move(inner));
    }
    return made;
}

}  // namespace millrace::isolation
