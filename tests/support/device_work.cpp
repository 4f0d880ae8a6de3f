#include "support/device_work.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "lab/compared/forwarding_device.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::test {
namespace {

uint64_t most_retried(Work work, uint64_t packets) { return work == Work::but_long_headers ? packets / 4 + 1 : 0; }

/// The simulated device that does the work; null: it is another kind.
const device::sim::SimDevice* simulated(const device::Device& device) {
    if (const auto* before = dynamic_cast<const lab::ForwardingDevice*>(&device)) return simulated(before->behind());
    return dynamic_cast<const device::sim::SimDevice*>(&device);
}

/// In the proof that a test can fail: it has, and need not go on.
void end_if_proved() {
    if (kernels_are_to_fail() && testing::Test::HasFailure())
        throw std::runtime_error("the device failed, and the test noticed");
}

}  // namespace

void expect_work(Work work, const std::vector<const exec::OffloadEngine*>& engines, const exec::ChainCounters& counters,
                 uint64_t packets) {
    if (work == Work::fault || packets == 0) return;
    claim_device_work();
    for (const exec::OffloadEngine* engine : engines)
        EXPECT_FALSE(engine->failed_over()) << "the device failed: " << engine->describe();
    EXPECT_EQ(counters.received_packets.get(), packets);
    end_if_proved();
    if (work == Work::shared_with_cpu) return;
    EXPECT_EQ(counters.kept_on_cpu.get(), 0u) << "packets stayed on the CPU";
    EXPECT_LE(counters.retried_on_cpu.get(), most_retried(work, packets)) << "packets were decided on the CPU";
}

void expect_work(Work work, const exec::Report& report) {
    const auto idle = [](const exec::ChainReport& chain) { return chain.received_packets == 0; };
    if (work == Work::fault || report.engine == "cpu, run to completion" || std::ranges::all_of(report.chains, idle))
        return;
    claim_device_work();
    EXPECT_EQ(report.engine.find("taken over from a failed device"), std::string::npos) << report.engine;
    end_if_proved();
    if (work == Work::shared_with_cpu) return;
    for (const exec::ChainReport& chain : report.chains) {
        EXPECT_LE(chain.retried_on_cpu, most_retried(work, chain.received_packets))
            << "packets of chain " << chain.name << " were decided on the CPU";
        EXPECT_EQ(chain.kept_on_cpu, 0u) << "packets of chain " << chain.name << " stayed on the CPU";
    }
}

PacketsSeen::PacketsSeen(const std::vector<std::shared_ptr<device::Device>>& devices) {
    for (const auto& device : std::set(devices.begin(), devices.end())) {
        devices_.push_back(device);
        simulated_ &= simulated(*device) != nullptr;
    }
    before_ = count();
}

uint64_t PacketsSeen::count() const {
    uint64_t packets = 0;
    if (!simulated_) return packets;
    for (const auto& device : devices_) packets += simulated(*device)->packets();
    return packets;
}

void PacketsSeen::expect(Work work, uint64_t packets) const {
    if (simulated_ && (work == Work::device_alone || work == Work::but_long_headers)) {
        EXPECT_EQ(count() - before_, packets) << "packets that kernels saw";
    }
}

}  // namespace millrace::test
