// A thousand ports, and a thousand chains behind one: each packet takes its own way, and none is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/sizes.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

/// A program at work.
struct Running {
    Running(const std::string& text, const std::string& device, const std::string& folder, unsigned workers)
        : runtime(configuration(text, device, folder), options(device, workers)) {
        runtime.start();
    }
    static chain::Configuration configuration(const std::string& text, const std::string& device,
                                              const std::string& folder) {
        chain::LoadOptions load;
        load.device = device;
        load.output_folder = folder;
        return chain::parse_configuration("version: 1\n" + text, "(thousand)", load);
    }
    static exec::RuntimeOptions options(const std::string& device, unsigned workers) {
        exec::RuntimeOptions options;
        options.workers = workers;
        options.devices = open_devices(device);
        return options;
    }
    exec::Runtime runtime;
};

class Thousand : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Thousand, testing::ValuesIn(test_devices()), device_test_name);

/// 500 wires, whose far ends the chains have: what comes by one leaves by the next one, a number of packets of its own.
TEST_P(Thousand, PortsGiveEachTheirOwnPackets) {
    constexpr unsigned kWires = 500, kMaxFrames = 8;
    std::string ports = "ports:\n", chains = "chains:\n";
    for (unsigned i = 0; i < kWires; ++i) {
        const std::string n = std::to_string(i), next = std::to_string((i + 1) % kWires);
        for (const char* end : {"near", "far"}) ports += "  " + (end + n) + ": {ring: wire" + n + ", slots: 64}\n";
        chains += "  c" + n + ": {input: far" + n + ", output: far" + next + ", max-delay: 1ms, nfs: [mirror]}\n";
    }
    const TestFolder folder;
    Running run(ports + chains, GetParam(), folder.path(), 1);
    const auto near = [&](unsigned i) -> io::Port& { return *run.runtime.ports()[2 * i]; };
    const auto count_of = [](unsigned wire) { return 1 + wire % kMaxFrames; };
    std::vector<std::vector<Frame>> sent(kWires), received(kWires);
    for (unsigned i = 0; i < kWires; ++i)
        for (unsigned k = 0; k < count_of(i); ++k) {
            sent[i].push_back(frame_to(ipv4("10.0.0.0") + i, std::to_string(k)));
            rte_mbuf* mbuf = make_mbuf(sent[i].back(), k);
            ASSERT_EQ(near(i).send(0, &mbuf, 1), 1u) << i;
        }
    const auto is_there = [&] {
        bool all = true;
        for (unsigned i = 0; i < kWires; ++i) {
            rte_mbuf* mbuf = nullptr;
            while (near(i).receive(0, &mbuf, 1) == 1) {
                const auto* data = rte_pktmbuf_mtod(mbuf, const uint8_t*);
                received[i].emplace_back(data, data + mbuf->data_len);
                rte_pktmbuf_free(mbuf);
            }
            all = all && received[i].size() == count_of((i + kWires - 1) % kWires);
        }
        return all;
    };
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_there() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    run.runtime.stop();
    const exec::Report report = end_of_shared_run(run.runtime, Work::device_alone);
    ASSERT_EQ(report.ports.size(), 2 * kWires);
    for (unsigned i = 0; i < kWires; ++i) {
        // A mirror's packets have their MAC addresses the other way round.
        std::vector<Frame> expected = sent[(i + kWires - 1) % kWires];
        for (Frame& frame : expected) std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
        ASSERT_EQ(received[i], expected) << i;
        ASSERT_EQ(report.chains[i].received_packets, count_of(i)) << i;
        ASSERT_EQ(report.chains[i].sent_packets, count_of(i)) << i;
        ASSERT_EQ(report.ports[2 * i + 1].counters.received_packets, count_of(i)) << i;
    }
}

/// By port of their destination. Every other chain denies what it is to get, and nothing else.
TEST_P(Thousand, ChainsBehindOnePortGetEachTheirOwnPackets) {
    constexpr unsigned kChains = 1000;
    constexpr uint64_t kPackets = 60'000;
    std::string classify = "classify:\n", chains = "chains:\n";
    for (unsigned i = 0; i < kChains; ++i) {
        const std::string n = std::to_string(i), port = std::to_string(10'000 + i);
        classify += "  - {match: {dst-port: " + port + "}, chain: c" + n + "}\n";
        chains += "  c" + n + ": {output: out, max-delay: 20ms, nfs: [firewall: {default: " +
                  (i % 2 == 0 ? "permit, rules: [deny" : "deny, rules: [permit") + " udp from any to any port " + port +
                  "]}]}\n";
    }
    const TestFolder folder;
    Running run("ports:\n  in: {source: {size: 64, flows: 20000, ports: {dst: 10000-10999}, count: " +
                    std::to_string(kPackets) + "}}\n  out: {sink: {}}\n" + chains + classify,
                GetParam(), folder.path(), 2);
    const exec::Report report = end_of_run(run.runtime, Work::device_alone);
    EXPECT_EQ(report.unclassified_packets, 0u);
    // A device that classifies has one chain more, which passes packets on.
    ASSERT_EQ(report.chains.size(), kChains + (GetParam() == "cpu" ? 0 : 1));
    uint64_t received = 0;
    for (unsigned i = 0; i < kChains; ++i) {
        const exec::ChainReport& chain = report.chains[i];
        ASSERT_EQ(chain.name, "c" + std::to_string(i));
        ASSERT_GT(chain.received_packets, 0u) << i;
        ASSERT_EQ(chain.sent_packets, i % 2 == 0 ? 0u : chain.received_packets) << i;
        ASSERT_EQ(chain.dropped, i % 2 == 0 ? chain.received_packets : 0u) << i;
        received += chain.received_packets;
    }
    EXPECT_EQ(received, kPackets);
}

}  // namespace
}  // namespace millrace::test
