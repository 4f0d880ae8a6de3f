#include <algorithm>

#include "millrace/isolation/check/checker.hpp"

namespace millrace::isolation {

uint32_t callee_of(const ptx::Statement& call) {
    for (const ptx::Operand& operand : call.operands)
        if (operand.is(ptx::Operand::Kind::function)) return operand.index;
    return 0;
}

bool find_costs(const ptx::Module& module, uint32_t function, std::vector<FunctionPlan>& plans) {
    FunctionPlan& plan = plans[function];
    const Flow& flow = plan.flow;
    if (flow.blocks.empty()) return true;
    const auto is_head = [&](uint32_t b) { return std::ranges::binary_search(flow.loop_heads, b); };
    std::vector<uint64_t> cost(flow.blocks.size());
    // Without the ways into heads there is no circle, and a block's successors stand behind it in a depth-first order.
    for (auto b = flow.in_order.rbegin(); b != flow.in_order.rend(); ++b) {
        const Block& block = flow.blocks[*b];
        uint64_t behind = 0;
        for (const uint32_t next : block.next)
            if (!is_head(next)) behind = std::max(behind, cost[next]);
        uint64_t own = 0;
        for (size_t i = block.begin; i < block.end; ++i) {
            const ptx::Statement& statement = module.functions[function].body[i];
            if (!statement.is_instruction()) continue;
            ++own;
            if (statement.opcode != "call") continue;
            const FunctionPlan& callee = plans[callee_of(statement)];
            if (!callee.counted) own += callee.entry_cost;
        }
        cost[*b] = std::min<uint64_t>(own + behind, kMaxStraightOn + 1);
    }
    plan.entry_cost = static_cast<uint32_t>(cost[0]);
    bool sound = cost[0] <= kMaxStraightOn;
    plan.head_costs.clear();
    for (const uint32_t head : flow.loop_heads) {
        plan.head_costs.push_back(static_cast<uint32_t>(cost[head]));
        sound &= cost[head] <= kMaxStraightOn;
    }
    return sound;
}

}  // namespace millrace::isolation
