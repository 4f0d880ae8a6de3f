// What tests of NAT44 and of NAT64 ask of external endpoints.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "millrace/device/sim/sim_device.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {

/// On a simulated device that goes among the first thousand packets.
inline EngineRun run_until_it_goes(const chain::Configuration& chain, const std::vector<Frame>& frames) {
    device::sim::SimOptions sim;
    sim.faults = {{device::sim::Fault::Kind::device_lost, 30}};
    EngineRun run = run_on_device(std::make_shared<device::sim::SimDevice>(sim), chain, frames, 100, {}, Work::fault);
    expect_conserved(run, frames.size());
    EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
    return run;
}

/// By packet: those of endpoints that were there before, of as many new ones, and of these again. None of the new ones
/// has what another has, and each keeps its own.
template <class End>
void expect_given_once_and_kept(const std::vector<End>& external, size_t endpoints) {
    std::set<End> taken;
    for (size_t i = endpoints; i < 2 * endpoints; ++i) {
        EXPECT_TRUE(taken.insert(external[i]).second) << "given away twice";
        EXPECT_EQ(external[i], external[i + endpoints]);
    }
}

}  // namespace millrace::test
