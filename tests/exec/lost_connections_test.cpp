// A device goes that has a million connections: the CPU goes on with all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <thread>

#include "exec/tcp_steps.hpp"
#include "exec/wild/device.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/hybrid/placement.hpp"
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
        set_tcp_step(spec, port, step);
    } else {
        spec.udp.emplace();
        spec.udp->src = port;
        spec.udp->dst = 53;
    }
    Frame frame = build(spec);
    frame[0] = marked ? Wild::kMark : 0x02;
    return frame;
}

/// What has become of packets.
struct Found {
    uint64_t wrong = 0;        ///< not decided on as their connection's
    uint64_t others = 0;       ///< with another source than the connection's first one had
    uint64_t retried = 0;      ///< on the CPU, as the device had gone
    uint64_t kept_on_cpu = 0;  ///< while it was there
};

/// Worker `worker` of `workers` opens its share of connections, on an engine of its own, and goes on with them until
/// the device has gone. `sources`: what connections of UDP have behind NAT. Where the CPU shares the chain it has the
/// state in between, while few packets come.
Found go_on(const std::shared_ptr<device::Device>& device, const chain::Configuration& chain,
            const exec::OffloadOptions& options, std::vector<uint64_t>& sources, const std::function<void()>& lose,
            uint32_t worker, uint32_t workers) {
    constexpr uint32_t kBurst = 1024, kFew = 4;     // a CPU that gets so many at once is behind
    constexpr unsigned kGoes = 3, kMaxSteps = 300;  // steps: in which the device goes, at the earliest; and in all
    const auto connections = static_cast<uint32_t>(sources.size());
    exec::ChainCounters counters(*chain.chains[0]);
    Collector collector;
    Found found;
    const auto look = [&] {
        for (const Outcome& outcome : collector.outcomes) {
            const uint64_t connection = outcome.number % connections, step = outcome.number / connections;
            const uint32_t expected = is_tcp(connection) && step > 0 ? 1 : 0;  // established, new
            found.wrong += outcome.visits.size() != 3 || outcome.visits[1].decision.outcome != expected ? 1 : 0;
            if (is_tcp(connection) || outcome.frame.size() < 36) continue;
            const uint64_t source = uint64_t{load_be32(outcome.frame.data() + 26)} << 16 |
                                    load_be16(outcome.frame.data() + 34);
            if (step == 0) sources[connection] = source;
            else found.others += sources[connection] != source ? 1 : 0;
        }
        collector.outcomes.clear();
    };
    exec::OffloadEngine engine(device, collector, 16384, options);
    const exec::Placement* const shared = options.placement.get();
    const auto cpu_has_had_it = [&] { return shared == nullptr || shared->returns() > 0; };
    bool on_device = false;
    for (unsigned step = 0; step < kGoes + 2 || (counters.retried_on_cpu.get() == 0 && step < kMaxSteps); ++step) {
        for (uint32_t first = worker; first < connections;) {
            on_device = on_device || (shared != nullptr && shared->place() == exec::Placement::Place::device);
            const bool slowly = on_device && !cpu_has_had_it();
            const uint32_t end = std::min(connections, first + (slowly ? kFew : kBurst) * workers);
            std::vector<rte_mbuf*> mbufs;
            for (; first < end; first += workers) {
                const bool marked = step >= kGoes && first == connections / 2 && cpu_has_had_it();
                mbufs.push_back(make_mbuf(packet_of(first, step, marked), uint64_t{step} * connections + first));
                if (marked) lose();
            }
            engine.submit(chain.chains[0], counters, mbufs.data(), mbufs.size());
            engine.poll();
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(slowly ? 2 : 0);
            while (std::chrono::steady_clock::now() < until) engine.poll();
            if (frame_pool().available() < 2 * kBurst * workers) engine.drain();
            look();
        }
        engine.drain();
        look();
    }
    found.retried = counters.retried_on_cpu.get();
    found.kept_on_cpu = counters.kept_on_cpu.get();
    return found;
}

/// Opens so many connections on the device, which then goes: a GPU by a packet in the midst of all, another by `lose`,
/// at the same time. `with_cpu`: the CPU shares the chain. What went wrong; empty: nothing.
std::string live_on(const std::shared_ptr<device::Device>& device, const std::string& name, uint32_t connections,
                    const std::function<void()>& lose, uint32_t workers, bool with_cpu) {
    frame_pool();
    const auto chain = make_configuration(chain_for(connections), name);
    exec::OffloadOptions options;
    options.pinned = device->pin(frame_pool().memory(), frame_pool().memory_bytes());
    options.workers = workers;
    if (with_cpu) options.placement = std::make_shared<exec::Placement>();
    std::vector<uint64_t> sources(connections);
    std::vector<Found> found(workers);
    {
        std::vector<std::jthread> threads;
        for (uint32_t i = 0; i < workers; ++i)
            threads.emplace_back([&, i] { found[i] = go_on(device, chain, options, sources, lose, i, workers); });
    }
    if (options.pinned) device->unpin(frame_pool().memory());
    std::string text;
    uint64_t kept_on_cpu = 0;
    for (const Found& one : found) kept_on_cpu += one.kept_on_cpu;
    if (with_cpu && (options.placement->returns() == 0 || kept_on_cpu == 0))
        text += "the CPU has not had the device's state; ";
    for (uint32_t i = 0; i < workers; ++i) {
        const std::string who = " of worker " + std::to_string(i) + "; ";
        if (found[i].retried == 0) text += "the device has not gone" + who;
        if (found[i].wrong > 0) text += std::to_string(found[i].wrong) + " packets are not their connection's" + who;
        if (found[i].others > 0) text += std::to_string(found[i].others) + " packets have another source" + who;
    }
    for (const chain::Node& node : chain.chains[0]->nodes)
        for (const nf::Statistic& statistic : node.nf->statistics())
            if (statistic.name == "entries-lost" && statistic.value > 0)
                text += std::to_string(statistic.value) + " entries of " + node.name + " are lost; ";
    return text;
}

/// So many workers; whether the CPU shares the chain.
class LostConnections : public testing::TestWithParam<std::tuple<uint32_t, bool>> {
protected:
    std::string live_on(const std::shared_ptr<device::Device>& device, const std::string& name, uint32_t connections,
                        const std::function<void()>& lose) {
        return test::live_on(device, name, connections, lose, std::get<0>(GetParam()), std::get<1>(GetParam()));
    }
};
INSTANTIATE_TEST_SUITE_P(OfWorkers, LostConnections, testing::Combine(testing::Values(1, 4), testing::Bool()),
                         [](const auto& info) {
                             return std::to_string(std::get<0>(info.param)) +
                                    (std::get<1>(info.param) ? "WithTheCpu" : "");
                         });

TEST_P(LostConnections, GoOnWithoutASimulatedDevice) {
    constexpr uint32_t kConnections = 20'000;
    device::sim::SimOptions goes;
    goes.faults = {{device::sim::Fault::Kind::device_lost, UINT64_MAX}};  // sooner: when it is told to
    const auto device = std::make_shared<device::sim::SimDevice>(goes);
    EXPECT_EQ(live_on(device, "sim", kConnections, [&] { device->inject({}); }), "");
}

/// A fault poisons the process, so it must be one of its own.
TEST_P(LostConnections, GoOnWithoutAGpu) {
    MILLRACE_NEEDS_DEVICE("cuda");
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    const auto live = [this] {
        alarm(300);
        const std::string wrong = live_on(std::make_shared<device::cuda::CudaDevice>(), "cuda", 1'000'000, [] {});
        std::cerr << "wrong: " << (wrong.empty() ? "nothing" : wrong) << "\n";
        std::exit(0);
    };
    EXPECT_EXIT(live(), testing::ExitedWithCode(0), "wrong: nothing");
}

}  // namespace
}  // namespace millrace::test
