#include "mixes.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::schedule::test {

std::vector<Tenant> random_tenants(std::mt19937& random, size_t count, const Gpu& gpu, double share, double patience) {
    const auto between = [&](double least, double most) {
        return least * std::pow(most / least, std::uniform_real_distribution<double>(0, 1)(random));
    };
    std::vector<Tenant> tenants(count);
    for (size_t i = 0; i < count; ++i) {
        Load& load = tenants[i].load;
        load.model.kernel = {between(2e3, 4e4), between(5, 500)};
        load.model.transfer = {between(1e3, 8e3), between(0.2, 2)};
        load.model.most_of_sm = random() % 2 == 0 ? 0 : 1024;
        load.max_batch = random() % 2 == 0 ? 0 : 16384;
        load.overhead_ns = 5e3;
        const double most_rate = std::min(gpu.sms / load.model.kernel.slope, 1 / load.model.transfer.slope) * 1e9;
        load.rate = most_rate * share * between(0.125, 1);
        const double start_ns = load.start_ns();
        load.latency_ns = random() % 4 == 0 ? 0 : 2 * start_ns * patience * between(1.1, 20);
        tenants[i].name = "tenant-" + std::to_string(i);
        tenants[i].weight = 1 + random() % 4;
        tenants[i].offered = random() % 2 == 0 ? 0 : load.rate * between(0.3, 3);
    }
    return tenants;
}

std::vector<Lived> live(const std::vector<Tenant>& tenants, const Plan& plan, int cycles) {
    std::vector<Lived> lived(tenants.size());
    for (const Partition& partition : plan.partitions) {
        double now = 0;
        std::vector<uint64_t> done(partition.tenants.size());
        for (int cycle = 0; cycle < cycles; ++cycle) {
            bool any = false;
            for (size_t i = 0; i < partition.tenants.size(); ++i) {
                const size_t tenant = partition.tenants[i];
                const Load& load = tenants[tenant].load;
                const uint32_t most = plan.assignments[tenant]->batch;
                // Packet n, from 0, comes at n / rate.
                const double rate = load.rate / 1e9;
                const auto come = static_cast<uint64_t>(std::floor(now * rate + 1e-9)) + 1;
                const auto taken = static_cast<uint32_t>(std::min<uint64_t>(come - std::min(come, done[i]), most));
                if (taken == 0) continue;
                any = true;
                const uint32_t of_sm = (taken + partition.sms - 1) / partition.sms;
                now += load.model.kernel.start + load.model.kernel.slope * of_sm + load.model.transfer.start +
                       load.model.transfer.slope * taken + load.overhead_ns;
                lived[tenant].longest_ns = std::max(lived[tenant].longest_ns,
                                                    now - static_cast<double>(done[i]) / rate);
                done[i] += taken;
                lived[tenant].kept_up &= now * rate - static_cast<double>(done[i]) <= 2.0 * most + 2;
            }
            if (!any) now += 1000;
        }
    }
    return lived;
}

}  // namespace millrace::schedule::test
