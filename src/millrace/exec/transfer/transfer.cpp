#include "millrace/exec/transfer/transfer.hpp"

#include <algorithm>

namespace millrace::exec {

namespace {

Prefixes prefixes_of(const chain::FieldPlan& plan, uint32_t least) {
    const auto prefix = [&](Fields fields) {
        if (plan.whole_frames) return chain::kWholeFrame;
        const uint32_t bytes = chain::prefix_bytes(fields);
        return bytes > kMaxPrefix ? chain::kWholeFrame : std::max(bytes, least);
    };
    const uint32_t back = plan.to_host_total().empty() ? 0 : prefix(plan.to_host_total());
    // What comes back covers what lies on the host, so all of it must have been brought.
    return {std::max(prefix(plan.to_device_total()), back), back};
}

}  // namespace

Prefixes prefixes_of(const chain::FieldPlan& plan) { return prefixes_of(plan, plan.least_head); }
Prefixes plain_prefixes_of(const chain::FieldPlan& plan) { return prefixes_of(plan, 0); }

}  // namespace millrace::exec
