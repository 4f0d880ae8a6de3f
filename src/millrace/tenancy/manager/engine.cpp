#include "millrace/tenancy/manager/engine.hpp"

#include <rte_pause.h>

namespace millrace::tenancy {

TenantEngine::TenantEngine(Manager& manager, exec::Delivery& delivery, unsigned worker, size_t most_packets)
    : manager_(manager), delivery_(delivery), worker_(worker), room_(most_packets) {}

void TenantEngine::submit(const std::shared_ptr<const chain::Program>& program, exec::ChainCounters& counters,
                          rte_mbuf* const* mbufs, size_t count) {
    const std::string& name = chain::tenant_of(program->nodes.front())->tenant().name;
    auto found = queues_.find(name);
    // At the start, or once for a tenant that is new in this generation.
    if (found == queues_.end())
        found = queues_.emplace(name, std::make_unique<TenantQueue>(delivery_, manager_.seat(name), worker_, room_))
                    .first;
    if (count > 0) found->second->take(program, counters, mbufs, count, TenantQueue::Clock::now());
}

void TenantEngine::poll() {
    if (queues_.empty()) return;
    const auto now = TenantQueue::Clock::now();
    for (const auto& [name, queue] : queues_)
        if (queue->size() > 0) queue->poll(now);
}

size_t TenantEngine::in_flight() const {
    size_t all = 0;
    for (const auto& [name, queue] : queues_) all += queue->size();
    return all;
}

size_t TenantEngine::in_flight_of(const chain::Program& program) const {
    const auto found = queues_.find(chain::tenant_of(program.nodes.front())->tenant().name);
    return found != queues_.end() ? found->second->size() : 0;
}

void TenantEngine::drain() {
    while (in_flight() > 0) {
        poll();
        rte_pause();
    }
}

}  // namespace millrace::tenancy
