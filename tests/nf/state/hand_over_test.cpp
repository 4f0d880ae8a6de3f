// State per key that goes between the CPU and a device that share a chain.
#include <gtest/gtest.h>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/offload/finish/ordered_state.hpp"
#include "nf/state/tally.hpp"

namespace millrace::test {
namespace {

/// A chain that has no batch while devices have the chains, as others keep them busy.
TEST(HandOver, LeavesStateWhereItIsWhenNoBatchHasTakenIt) {
    const auto configuration = tally_chain("timeout: 1000s", "sim");
    const auto run_keys = [&](uint32_t from, uint32_t to) {
        std::vector<Frame> frames;
        for (uint32_t key = from; key < to; ++key) frames.push_back(keyed_frame(key, key));
        run_on_cpu(configuration, frames, 256);
    };
    const auto device = std::make_shared<device::sim::SimDevice>();
    exec::OffloadOptions options;
    exec::ChainCounters counters(*configuration.chains[0]);
    const exec::LoadedChain chain(configuration.chains[0], counters, device, *device->order_gate(), options);
    exec::OrderedState states(device, device->order_gate(), options.patience);
    const device::StreamId stream = device->create_stream(false);
    states.expect(chain);

    run_keys(1, 101);
    ASSERT_EQ(states.bring(chain, 1, stream), device::Status::ok);
    states.take_back(chain, stream);
    EXPECT_EQ(tally_of(configuration).packets(), 100u);
    run_keys(101, 301);
    ASSERT_EQ(tally_of(configuration).packets(), 300u);
    states.take_back(chain, stream);
    EXPECT_EQ(tally_of(configuration).packets(), 300u) << "the device's is older";
    ASSERT_EQ(states.bring(chain, 3, stream), device::Status::ok);
    tally_of(configuration).device_lost();
    ASSERT_NE(tally_of(configuration).packets(), 300u);
    for (const uint64_t hand_overs : {4, 5})
        ASSERT_EQ(states.bring(chain, hand_overs, stream), device::Status::ok) << "the CPU has had no packet since";
    states.take_back(chain, stream);
    EXPECT_EQ(tally_of(configuration).packets(), 300u) << "the device's is the latest";
}

}  // namespace
}  // namespace millrace::test
