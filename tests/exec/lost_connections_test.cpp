// A device goes that has a million connections: the CPU goes on with all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "exec/wild/device.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/nf/nf.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {
namespace {

/// With room for so many connections. `wild` writes to the first page, where no program has memory.
std::string chain_for(uint32_t connections) {
    return fmt::format(
        "[wild: {{target: 64}}, conntrack: {{max-flows: {}, pick-up: false}}, nat: {{inside: 10.0.0.0/8, pool: "
        "198.51.100.0/{}, ports: 1024-17407}}]",
        2 * connections, connections > 100'000 ? 26 : 31);
}

/// Even ones are of TCP, and not translated; odd ones of UDP, from inside.
constexpr bool is_tcp(uint64_t connection) { return connection % 2 == 0; }

/// Packet `step` of a connection. Of TCP: its handshake (0 to 2), then segments of the client.
Frame packet_of(uint32_t connection, unsigned step, bool marked) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = ipv4(is_tcp(connection) ? "172.16.0.0" : "10.0.0.0") + connection / 16;
    spec.ipv4->dst = ipv4("192.0.2.9");
    const auto port = static_cast<uint16_t>(4096 + connection % 16);
    if (is_tcp(connection)) {
        spec.tcp.emplace();
        spec.tcp->src = port;
        spec.tcp->dst = 443;
        spec.tcp->window = 30000;
        spec.tcp->flags = static_cast<uint8_t>(step == 0 ? tcp::kSyn : step == 1 ? tcp::kSyn | tcp::kAck : tcp::kAck);
        spec.tcp->seq = step == 0 ? 1000 : step == 1 ? 5000 : 1001;
        spec.tcp->ack = step == 0 ? 0 : step == 1 ? 1001 : 5001;
        if (step == 1) {
            std::swap(spec.ipv4->src, spec.ipv4->dst);
            std::swap(spec.tcp->src, spec.tcp->dst);
        }
    } else {
        spec.udp.emplace();
        spec.udp->src = port;
        spec.udp->dst = 53;
    }
    Frame frame = build(spec);
    frame[0] = marked ? Wild::kMark : 0x02;
    return frame;
}

/// Opens so many connections on the device; then it goes, in the midst of their first segments. What went wrong; empty:
/// nothing.
std::string live_on(const std::shared_ptr<device::Device>& device, const std::string& name, uint32_t connections) {
    constexpr uint32_t kBurst = 500;
    frame_pool();
    const auto chain = make_configuration(chain_for(connections), name);
    exec::ChainCounters counters(*chain.chains[0]);
    Collector collector;
    exec::OffloadOptions options;
    options.pinned = device->pin(frame_pool().memory(), frame_pool().memory_bytes());
    uint64_t wrong = 0, others = 0;
    std::vector<uint64_t> sources(connections);  // of UDP, behind NAT
    const auto look = [&] {
        for (const Outcome& outcome : collector.outcomes) {
            const uint64_t connection = outcome.number % connections, step = outcome.number / connections;
            const uint32_t expected = is_tcp(connection) && step > 0 ? 1 : 0;  // established, new
            wrong += outcome.visits.size() != 3 || outcome.visits[1].decision.outcome != expected ? 1 : 0;
            if (is_tcp(connection) || outcome.frame.size() < 36) continue;
            const uint64_t source = uint64_t{load_be32(outcome.frame.data() + 26)} << 16 |
                                    load_be16(outcome.frame.data() + 34);
            if (step == 0) sources[connection] = source;
            else others += sources[connection] != source ? 1 : 0;
        }
        collector.outcomes.clear();
    };
    {
        exec::OffloadEngine engine(device, collector, 16384, options);
        for (unsigned step = 0; step < 5; ++step) {
            for (uint32_t first = 0; first < connections; first += kBurst) {
                std::vector<rte_mbuf*> mbufs;
                for (uint32_t i = first; i < std::min(connections, first + kBurst); ++i)
                    mbufs.push_back(make_mbuf(packet_of(i, step, step == 3 && i == connections / 2),
                                              uint64_t{step} * connections + i));
                engine.submit(chain.chains[0], counters, mbufs.data(), mbufs.size());
                engine.poll();
                if (frame_pool().available() < 2 * kBurst) engine.drain();
                look();
            }
            engine.drain();
            look();
        }
    }
    if (options.pinned) device->unpin(frame_pool().memory());
    std::string text;
    if (counters.retried_on_cpu.get() == 0) text += "the device has not gone; ";
    if (wrong > 0) text += std::to_string(wrong) + " packets are not their connection's; ";
    if (others > 0) text += std::to_string(others) + " packets have another source than those before; ";
    for (const chain::Node& node : chain.chains[0]->nodes)
        for (const nf::Statistic& statistic : node.nf->statistics())
            if (statistic.name == "entries-lost" && statistic.value > 0)
                text += std::to_string(statistic.value) + " entries of " + node.name + " are lost; ";
    return text;
}

TEST(LostConnections, GoOnWithoutASimulatedDevice) {
    constexpr uint32_t kConnections = 20'000;
    device::sim::SimOptions sim;
    sim.faults = {{device::sim::Fault::Kind::device_lost, 800}};
    EXPECT_EQ(live_on(std::make_shared<device::sim::SimDevice>(sim), "sim", kConnections), "");
}

/// A fault poisons the process, so it must be one of its own.
TEST(LostConnections, GoOnWithoutAGpu) {
    MILLRACE_NEEDS_DEVICE("cuda");
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    const auto live = [] {
        alarm(300);
        const std::string wrong = live_on(std::make_shared<device::cuda::CudaDevice>(), "cuda", 1'000'000);
        std::cerr << "wrong: " << (wrong.empty() ? "nothing" : wrong) << "\n";
        std::exit(0);
    };
    EXPECT_EXIT(live(), testing::ExitedWithCode(0), "wrong: nothing");
}

}  // namespace
}  // namespace millrace::test
