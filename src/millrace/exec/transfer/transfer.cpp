#include "millrace/exec/transfer/transfer.hpp"

#include <algorithm>

namespace millrace::exec {

Prefixes prefixes_of(const chain::FieldPlan& plan) {
    const auto prefix = [&plan](Fields fields) {
        if (plan.whole_frames) return chain::kWholeFrame;
        const uint32_t bytes = chain::prefix_bytes(fields);
        return bytes > kMaxPrefix ? chain::kWholeFrame : std::max(bytes, plan.least_head);
    };
    const uint32_t back = plan.to_host_total().empty() ? 0 : prefix(plan.to_host_total());
    // What comes back covers what lies on the host, so all of it must have been brought.
    return {std::max(prefix(plan.to_device_total()), back), back};
}

}  // namespace millrace::exec
