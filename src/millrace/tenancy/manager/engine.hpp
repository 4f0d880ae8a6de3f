// A worker's engine for the functions of tenants.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "millrace/tenancy/manager/manager.hpp"
#include "millrace/tenancy/manager/queue.hpp"

namespace millrace::tenancy {

class TenantEngine : public exec::Engine {
public:
    /// It holds `most_packets`, dealt to the tenants.
    TenantEngine(Manager& manager, exec::Delivery& delivery, unsigned worker, size_t most_packets);

    void submit(const std::shared_ptr<const chain::Program>& program, exec::ChainCounters& counters,
                rte_mbuf* const* mbufs, size_t count) override;
    void poll() override;
    size_t in_flight() const override;
    size_t in_flight_of(const chain::Program& program) const override;
    void drain() override;
    std::string describe() const override { return "processes of tenants"; }

private:
    Manager& manager_;
    exec::Delivery& delivery_;
    const unsigned worker_;
    const size_t room_;                                                        // of a queue
    std::map<std::string, std::unique_ptr<TenantQueue>, std::less<>> queues_;  // by tenant
};

}  // namespace millrace::tenancy
