// State of a chain that the CPU shares, and had no packets of while it was the CPU's turn.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>

#include "exec/tcp_steps.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/hybrid/placement.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {
namespace {

using Place = exec::Placement::Place;

constexpr uint32_t kConnections = 1024;

/// So many chains of connection tracking.
std::string chains_of(unsigned count) {
    std::string ports = "version: 1\nports:\n  out: {sink: {}}\n", chains = "chains:\n";
    for (unsigned i = 0; i < count; ++i) {
        ports += fmt::format("  in{}: {{source: {{}}}}\n", i);
        chains += fmt::format(
            "  c{0}: {{input: in{0}, output: out, nfs: [conntrack: {{max-flows: 8192, pick-up: false}}]}}\n", i);
    }
    return ports + chains;
}

Frame packet_of(uint32_t connection, unsigned step) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = ipv4("10.0.0.0") + connection;
    spec.ipv4->dst = ipv4("192.0.2.9");
    set_tcp_step(spec, 4096, step);
    return build(spec);
}

class LeftOnDevice : public testing::TestWithParam<std::tuple<std::string, unsigned>> {
protected:
    /// Packets of chain `chain`, `at_once` at a time, until the chains are at `place`, if it is given; of all
    /// connections at least.
    void send(size_t chain, unsigned step, uint32_t at_once, std::optional<Place> place) {
        const auto begin = std::chrono::steady_clock::now();
        const auto is_there = [&] { return !place || placement_->place() == *place; };
        for (uint32_t sent = 0; sent < kConnections || !is_there(); sent += at_once) {
            ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "chain " << chain;
            ASSERT_TRUE(!place || retried() == 0) << "the device has gone";
            std::vector<rte_mbuf*> mbufs;
            for (uint32_t i = 0; i < at_once; ++i)
                mbufs.push_back(make_mbuf(packet_of((sent + i) % kConnections, step), sent + i));
            engine_->submit(programs_[chain], *counters_[chain], mbufs.data(), mbufs.size());
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(at_once < 64 ? 1 : 0);
            do engine_->poll();
            while (std::chrono::steady_clock::now() < until);
            look(step);
        }
        engine_->drain();
        look(step);
    }
    void look(unsigned step) {
        for (const Outcome& outcome : collector_.outcomes)
            wrong_ += outcome.visits.size() != 1 || outcome.visits[0].decision.outcome != (step > 0 ? 1u : 0u) ? 1 : 0;
        collector_.outcomes.clear();
    }

    /// So many chains open their connections on the device; then the first one has the CPU's turn for itself.
    void open(const std::string& name, const std::shared_ptr<device::Device>& device, unsigned count) {
        frame_pool();
        chain::LoadOptions load;
        load.device = name;
        for (const auto& program : chain::parse_configuration(chains_of(count), "(chains)", load).chains) {
            programs_.push_back(program);
            counters_.push_back(std::make_unique<exec::ChainCounters>(*program));
        }
        ASSERT_EQ(programs_.size(), count);
        exec::OffloadOptions options;
        options.placement = placement_;
        engine_ = std::make_unique<exec::OffloadEngine>(device, collector_, 16384, options);
        for (size_t chain = 0; chain < count; ++chain)
            for (unsigned step = 0; step < 4 && !HasFatalFailure(); ++step) send(chain, step, 1024, Place::device);
        if (HasFatalFailure()) return;
        send(0, 3, 4, Place::cpu);
        EXPECT_GT(placement_->returns(), 0u);
    }
    uint64_t retried() const {
        uint64_t packets = 0;
        for (const auto& counters : counters_) packets += counters->retried_on_cpu.get();
        return packets;
    }

    std::shared_ptr<exec::Placement> placement_ = std::make_shared<exec::Placement>();
    std::vector<std::shared_ptr<const chain::Program>> programs_;
    std::vector<std::unique_ptr<exec::ChainCounters>> counters_;
    Collector collector_;
    std::unique_ptr<exec::OffloadEngine> engine_;
    uint64_t wrong_ = 0;
};

TEST_P(LeftOnDevice, IsThereStill) {
    const auto& [name, count] = GetParam();
    MILLRACE_NEEDS_DEVICE(name);
    open(name, open_device(name, 0), count);
    for (size_t chain = 0; chain < count && !HasFatalFailure(); ++chain) send(chain, 3, 1024, Place::device);
    EXPECT_EQ(wrong_, 0u);
    EXPECT_EQ(retried(), 0u);
}

TEST_P(LeftOnDevice, IsNotLostWithIt) {
    const auto& [name, count] = GetParam();
    if (name != "sim") GTEST_SKIP() << "only simulated devices go when they are told to";
    device::sim::SimOptions goes;
    goes.faults = {{device::sim::Fault::Kind::device_lost, UINT64_MAX}};  // sooner: when it is told to
    const auto device = std::make_shared<device::sim::SimDevice>(goes);
    open(name, device, count);
    device->inject({});
    for (unsigned round = 0; round == 0 || (retried() == 0 && round < 100); ++round)
        for (size_t chain = 0; chain < count; ++chain) send(chain, 3, 1024, std::nullopt);
    EXPECT_EQ(wrong_, 0u);
    EXPECT_GT(retried(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, LeftOnDevice,
                         testing::Combine(testing::ValuesIn(offload_devices()), testing::Values(1, 2, 50)),
                         [](const auto& info) {
                             return std::get<0>(info.param) + "With" + std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace millrace::test
