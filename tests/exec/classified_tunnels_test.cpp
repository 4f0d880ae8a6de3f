// Many chains with a tunnel each that share a port: a device runs their gateways as one stage, and each tunnel numbers
// its own packets.
#include <utility>

#include "exec/alternating.hpp"
#include "exec/classified.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using device::sim::SimDevice;
using device::sim::SimOptions;

/// So many chains with a tunnel each, into them or, by where packets go to, out of them.
std::vector<TestChain> tunnel_chains(size_t count, bool out_of_them = false) {
    std::vector<TestChain> chains = many_chains(count);
    for (size_t i = 0; i < count; ++i) {
        const std::string number = std::to_string(i), near = "192.0.2." + number, far = "198.51.100." + number;
        const std::string sa = "{name: t, spi: " + std::to_string(0x1001 + i) + ", direction: " +
                               (out_of_them ? "in, local: " + far + ", remote: " + near
                                            : "out, local: " + near + ", remote: " + far) +
                               ", cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: \"006cb6" +
                               std::to_string(10 + i) + "\", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}";
        chains[i].nfs = "[{ipsec: {sas: [" + sa + "], default: bypass" +
                        (out_of_them ? "" : ", policies: [{dst: 0.0.0.0/0, action: protect, sa: t}]") +
                        "}}, {firewall: {default: permit, rules: [deny udp from any port 0-" +
                        std::to_string(i * 65535 / count) + "]}}]";
        if (out_of_them) chains[i].lines = {"{dst: " + far + "/32}"};
    }
    return chains;
}

class Tunnels : public Classified {};
class TunnelsOnDevices : public Classified, public testing::WithParamInterface<DeviceInMode::ParamType> {};

/// Into 40 tunnels, as into one: each numbers its own.
TEST_P(TunnelsOnDevices, NumberTheirPacketsInOneStage) {
    const auto& [device, mode] = GetParam();
    MILLRACE_NEEDS_DEVICE(device);
    const auto chains = tunnel_chains(40);
    for (const size_t size : {size_t{1}, size_t{33}, size_t{3000}}) {
        const std::string file = write_frames(random_frames(size, 400 + static_cast<unsigned>(size)));
        const Run expected = run(configuration(chains, source(file, size), "cpu"), chains.size());
        for (const bool contiguous : {false, true}) {
            exec::RuntimeOptions options = with(contiguous);
            options.devices = open_devices(device);
            options.offload.mode = mode;
            auto own = configuration(chains, source(file, size), device);
            ASSERT_NE(own.classified, nullptr);
            EXPECT_EQ(own.classified->stages.size(), 2u);
            const Run actual = run(std::move(own), chains.size(), options);
            expect_same(expected, actual, std::to_string(size) + (contiguous ? " contiguous frames" : " buffers"));
            expect_work(Work::but_long_headers, actual.report);
        }
    }
}

/// What 40 chains have sent into tunnels, half of it twice, comes out of those of 40 others: each has a window of its
/// own.
TEST_P(TunnelsOnDevices, KeepsTheWindowsOfManyTunnelsInOneStage) {
    const auto& [device, mode] = GetParam();
    MILLRACE_NEEDS_DEVICE(device);
    constexpr size_t kChains = 40;
    const std::string file = write_frames(random_frames(3000, 16));
    const Run sent = run(configuration(tunnel_chains(kChains), source(file, 3000), "cpu"), kChains);
    std::vector<Frame> wrapped;
    for (size_t k = 0, before = 1; wrapped.size() != std::exchange(before, wrapped.size()); ++k)
        for (const auto& of_chain : sent.sent)
            if (k < of_chain.size())
                for (size_t times = 0; times < 1 + k % 2; ++times) wrapped.push_back(of_chain[k]);
    const std::string esp = write_frames(wrapped);
    const auto chains = tunnel_chains(kChains, true);
    const Run expected = run(configuration(chains, source(esp, wrapped.size()), "cpu"), kChains);
    exec::RuntimeOptions options = with(true);
    options.devices = open_devices(device);
    options.offload.mode = mode;
    auto own = configuration(chains, source(esp, wrapped.size()), device);
    ASSERT_NE(own.classified, nullptr);
    EXPECT_EQ(own.classified->stages.size(), 2u);
    const Run actual = run(std::move(own), kChains, options);
    expect_same(expected, actual, "windows");
    expect_work(Work::but_long_headers, actual.report);
    for (size_t i = 0; i < kChains; ++i)
        EXPECT_GT(find(actual.report, "c" + std::to_string(i))->drops.at("ipsec.replayed"), 5u) << i;
}

INSTANTIATE_TEST_SUITE_P(All, TunnelsOnDevices, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TunnelsOnDevices);

/// Before its first batch, and behind some that have come back: the CPU goes on with the numbers that these left.
TEST_F(Tunnels, LoseNoNumberWhenTheDeviceFails) {
    auto chains = tunnel_chains(20);
    for (TestChain& chain : chains) chain.more = "max-batch: 64";
    const std::string file = write_frames(random_frames(900, 18));
    const Run expected = run(configuration(chains, source(file, 900), "cpu"), chains.size());
    uint64_t again = 0, by_device = 0;
    for (const Fault::Kind kind : {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost})
        for (uint64_t after = 0; after < 40; after += 9) {
            SimOptions sim;
            sim.faults = {{kind, after}};
            exec::RuntimeOptions options = with(true);
            options.devices = {std::make_shared<SimDevice>(sim)};
            const Run actual = run(configuration(chains, source(file, 900), "sim"), chains.size(), options);
            expect_same(expected, actual, "a fault after " + std::to_string(after));
            const exec::ChainReport& all = *find(actual.report, "(classify)");
            again += all.retried_on_cpu;
            if (all.retried_on_cpu > 0) by_device += 900 - all.retried_on_cpu;
        }
    EXPECT_GT(again, 0u) << "no device has failed";
    EXPECT_GT(by_device, 0u) << "none had done anything before";
}

/// Ways in and ways out behind one port have other steps, and a stage for each.
TEST_F(Tunnels, OfBothWaysShareAStageEach) {
    auto chains = tunnel_chains(10);
    const auto others = tunnel_chains(20, true);
    chains.insert(chains.end(), others.begin() + 10, others.end());
    const std::string file = write_frames(random_frames(900, 19));
    const Run expected = run(configuration(chains, source(file, 900), "cpu"), chains.size());
    auto own = configuration(chains, source(file, 900), "sim");
    ASSERT_NE(own.classified, nullptr);
    EXPECT_EQ(own.classified->stages.size(), 4u);
    const Run actual = run(std::move(own), chains.size(), with(true));
    expect_same(expected, actual, "both ways");
    expect_work(Work::but_long_headers, actual.report);
}

/// A chain more joins the others' stage, and none begins its numbers anew; one that asks for slots of its own does not.
TEST_F(Tunnels, ShareAStageThroughChangesOfTheConfiguration) {
    auto chains = tunnel_chains(9);
    const std::string file = write_frames(random_frames(100, 17));
    const auto first = configuration(chains, source(file, 100), "sim");
    ASSERT_NE(first.classified, nullptr);
    EXPECT_EQ(first.classified->stages.size(), 2u);
    auto more = tunnel_chains(10);
    more[3].nfs = tunnel_chains(12)[11].nfs;
    const auto second = configuration(more, source(file, 100), "sim", &first);
    ASSERT_NE(second.classified, nullptr);
    EXPECT_EQ(second.classified->stages.size(), 2u);
    const auto tickets = [](const chain::Configuration& own, size_t chain) {
        const chain::Node& node = own.chains[chain]->nodes[0];
        return node.type->tickets(node.nf->image().tables()).data();
    };
    EXPECT_EQ(tickets(first, 0), tickets(second, 0));
    EXPECT_EQ(tickets(first, 0), tickets(second, 9));
    more[4].nfs.insert(more[4].nfs.find("sas:"), "sa-slots: 4096, ");
    const auto third = configuration(more, source(file, 100), "sim");
    ASSERT_NE(third.classified, nullptr);
    EXPECT_EQ(third.classified->stages.size(), 4u);
    EXPECT_NE(tickets(third, 0), tickets(third, 4));
}

}  // namespace
}  // namespace millrace::test
