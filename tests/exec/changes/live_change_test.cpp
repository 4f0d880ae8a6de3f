// Routes, rules and whole chains change a hundred times under traffic: nothing is lost, and no packet is
// processed half by one generation and half by another.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/source/source_port.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

#if defined(__SANITIZE_THREAD__)
// A generation then costs several times as much, and a packet ten times: a sixth of the generations.
constexpr unsigned kGenerations = 16, kRate = 5'000, kLeastPackets = 1'000;
#else
constexpr unsigned kGenerations = 100, kRate = 50'000, kLeastPackets = 10'000;
#endif

/// Generation g of the chain. The firewall's only rule is its line g, the router's only next hop has a
/// MAC that ends in g: a packet's verdict shows which generation each NF was of. Even generations have a
/// mirror in front of the chain.
std::string configuration_text(unsigned g, unsigned packets) {
    std::ostringstream text;
    text << "version: 1\nports:\n  in: {source: {size: 128, flows: 64, addresses: {src: 10.0.0.0/8, dst: "
            "198.18.0.0/16}, count: "
         << packets << ", rate: " << kRate << "}}\n  out: {sink: {}}\n"
         << "chains:\n  test:\n    input: in\n    output: out\n    max-delay: 50us\n    nfs:\n";
    if (g % 2 == 0) text << "      - mirror\n";
    text << "      - firewall: {default: permit, rules: [permit ip from 203.0.113." << g % 250 << "/32]}\n"
         << "      - router:\n"
         << "          next-hops: {hop" << g << ": {mac: \"02:00:00:00:00:01\", src-mac: \"02:00:00:00:00:02\"}}\n"
         << "          routes: [{prefix: 198.18.0.0/16, via: hop" << g << "}]\n"
         << "        on: {martian: next, multicast: next, ttl-expired: next, local: next, bad-checksum: next}\n"
         << "      - ipsec:\n"
         << "          sas: [{name: tunnel, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, "
            "cipher: aes-128-ctr, "
            "key: 7e24067817fae0d743d6ce1f32539163, nonce: \"006cb6db\", auth-key: "
            "1f2e3d4c5b6a79880123456789abcdeffedcba98}]\n"
         << "          policies: [{src: 0.0.0.0/0, dst: 0.0.0.0/0, action: protect, sa: tunnel}]\n          default: "
            "bypass\n";
    return text.str();
}

chain::Configuration configuration(unsigned g, const std::string& device, unsigned packets,
                                   const chain::Configuration* previous) {
    chain::LoadOptions options;
    options.device = device;
    options.previous = previous;
    options.output_folder = testing::TempDir();
    return chain::parse_configuration(configuration_text(g, packets), "(live change)", options);
}

class LiveChange : public testing::TestWithParam<std::tuple<std::string, device::Mode>> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(device()); }
    const std::string& device() const { return std::get<0>(GetParam()); }
    device::Mode mode() const { return std::get<1>(GetParam()); }
    bool shared_with_cpu() const { return device().ends_with("+cpu"); }
};

std::string test_name(const testing::TestParamInfo<LiveChange::ParamType>& info) {
    const auto& [device, mode] = info.param;
    return device_test_name({device, info.index}) + (mode == device::Mode::fused ? "" : device::name_of(mode));
}

TEST_P(LiveChange, LosesAndMixesNothingInAHundredGenerations) {
    // More than will ever be asked for: the traffic flows until the last generation is at work.
    constexpr unsigned kPackets = 100'000'000;
    const std::string verdicts = testing::TempDir() + "/live_change_" + device() + device::name_of(mode()) +
                                 std::to_string(getpid()) + ".json";
    exec::RuntimeOptions options;
    options.verdict_file = verdicts;
    options.offload.mode = mode();
    options.devices = open_devices(device());
    exec::Runtime runtime(configuration(1, device(), kPackets, nullptr), options);
    auto& source = dynamic_cast<io::SourcePort&>(*runtime.ports()[0]);
    runtime.start();
    for (unsigned g = 2; g <= kGenerations; ++g) {
        // Where the CPU has a share, chains go to and fro meanwhile.
        if (shared_with_cpu()) source.set_rate(g % 16 < 4 ? 0 : kRate);
        const auto current = runtime.configuration();
        runtime.apply(configuration(g, device(), kPackets, current.get()));
        EXPECT_EQ(runtime.configuration()->generation, g);
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    const exec::Report report = stop_run(runtime);
    uint64_t received = 0, sent = 0;
    for (const exec::PortReport& port : report.ports) {
        received += port.counters.received_packets;
        sent += port.counters.sent_packets;
    }
    EXPECT_GT(received, kLeastPackets);
    expect_work(shared_with_cpu() ? Work::shared_with_cpu : Work::device_alone, report);
    if (shared_with_cpu()) {
        EXPECT_GT(report.chains[0].kept_on_cpu, 100u);
        EXPECT_GT(report.chains[0].bytes_to_device, 0u);
    }
    EXPECT_EQ(sent, received) << "no outcome of this chain drops";

    // Every packet once, and each by NFs of one generation.
    std::ifstream in(verdicts);
    std::map<std::string, unsigned> hops;
    size_t lines = 0;
    for (std::string line; std::getline(in, line); ++lines) {
        const auto verdict = nlohmann::json::parse(line);
        std::string hop;
        bool mirrored = false;
        for (const auto& visit : verdict["path"]) {
            if (visit["nf"] == "mirror") mirrored = true;
            if (visit["nf"] == "router") hop = visit.value("by", "");
        }
        const size_t at = hop.find("hop");
        ASSERT_NE(at, std::string::npos) << line;
        const unsigned generation = static_cast<unsigned>(std::stoul(hop.substr(at + 3)));
        ASSERT_EQ(mirrored, generation % 2 == 0) << "a packet of two generations: " << line;
        ++hops[hop];
    }
    EXPECT_EQ(lines, received);
    EXPECT_GT(hops.size(), kGenerations * 9 / 10)
        << "the traffic met too few generations for the test to mean anything";
    std::remove(verdicts.c_str());
}

TEST_P(LiveChange, KeepsSequenceNumbersAcrossGenerations) {
    constexpr unsigned kPackets = 20'000;
    const auto first = configuration(1, device(), kPackets, nullptr);
    const auto second = configuration(2, device(), kPackets, &first);
    const auto& before = *first.chains[0]->nodes.back().nf;
    const auto& after = *second.chains[0]->nodes.back().nf;
    // The same memory holds the counters of both generations: none can be used twice.
    for (size_t i = 0; i < before.image().arrays().size(); ++i) {
        if (!before.image().arrays()[i].is_state()) continue;
        EXPECT_EQ(before.image().arrays()[i].data, after.image().arrays()[i].data)
            << before.image().arrays()[i].state_name;
    }
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, LiveChange,
                         testing::Combine(testing::ValuesIn(test_devices()), testing::Values(device::Mode::fused)),
                         test_name);
std::vector<std::string> with_the_cpu() {
    std::vector<std::string> names = offload_devices();
    for (std::string& name : names) name += "+cpu";
    return names;
}
INSTANTIATE_TEST_SUITE_P(WithTheCpu, LiveChange,
                         testing::Combine(testing::ValuesIn(with_the_cpu()), testing::Values(device::Mode::fused)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(OnLists, LiveChange,
                         testing::Combine(testing::ValuesIn(offload_devices()),
                                          testing::Values(device::Mode::persistent)),
                         test_name);

/// A NIDS that runs in parts needs memory of batches that others do not.
class ChangeOfParts : public testing::TestWithParam<std::string> {};

TEST_P(ChangeOfParts, BringsInAFunctionInPartsAndTakesItOut) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    const auto with = [&](bool asks_more, const chain::Configuration* previous) {
        const std::string rule = asks_more ? "dsize:>20000; isdataat:1; " : "";
        chain::LoadOptions options;
        options.device = GetParam();
        options.previous = previous;
        options.output_folder = testing::TempDir();
        return chain::parse_configuration(
            "version: 1\nports: {in: {source: {size: 512, payload: text, rate: 50000}}, out: {sink: {}}}\nchains: {c: "
            "{input: in, output: out, max-delay: 50us, nfs: [nids: {flows: none, eve: parts.json, rule: 'alert ip any "
            "any -> any any (content:\"no such\"; nocase; " +
                rule + "sid:1;)'}]}}\n",
            "(parts)", options);
    };
    exec::RuntimeOptions options;
    options.devices = open_devices(GetParam());
    exec::Runtime runtime(with(false, nullptr), options);
    runtime.start();
    for (const bool asks_more : {true, false, true}) {
        const auto current = runtime.configuration();
        runtime.apply(with(asks_more, current.get()));
        EXPECT_EQ(runtime.configuration()->chains[0]->nodes[0].nf->runs_in_parts(), asks_more);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const exec::Report report = stop_run(runtime, Work::device_alone);
    EXPECT_GT(report.ports[0].counters.received_packets, 1000u);
    EXPECT_EQ(report.ports[0].counters.received_packets, report.ports[1].counters.sent_packets);
}
INSTANTIATE_TEST_SUITE_P(Devices, ChangeOfParts, testing::ValuesIn(offload_devices()));

TEST(LiveChangeRefuses, WhatRunningPortsAndDevicesCannotTakeUp) {
    const std::string running =
        "version: 1\nports: {a: {source: {count: 10}}, b: {sink: {}}}\nchains: {c: {input: a, output: b, nfs: "
        "[mirror]}}\n";
    const auto parse = [](std::string text, const std::string& from = "", const std::string& to = "") {
        if (!from.empty()) text.replace(text.find(from), from.size(), to);
        return chain::parse_configuration(text, "(x)", {});
    };
    exec::Runtime runtime(parse(running));
    const auto refused = [&](const std::string& from, const std::string& to) {
        try {
            runtime.apply(parse(running, from, to));
            return std::string();
        } catch (const ConfigError& e) {
            return std::string(e.what());
        }
    };
    EXPECT_NE(refused("count: 10", "count: 11").find("the ports can't change"), std::string::npos);
    EXPECT_NE(refused("ports:", "device: sim\nports:").find("the device can't change from cpu to sim"),
              std::string::npos);
    EXPECT_NE(refused("output: b", "output: a").find("can't send"), std::string::npos);
    std::string tunnels;  // each adds its own headers
    for (int i = 0; i < 4; ++i)
        tunnels += std::string(i > 0 ? ", " : "") + "{name: t" + std::to_string(i) +
                   ", ipsec: {sas: [{name: s, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, "
                   "cipher: aes-128-ctr, "
                   "key: 7e24067817fae0d743d6ce1f32539163, nonce: \"006cb6db\", auth-key: "
                   "1f2e3d4c5b6a79880123456789abcdeffedcba98}], "
                   "policies: [{dst: 0.0.0.0/0, action: protect, sa: s}], default: bypass}}";
    EXPECT_NE(refused("[mirror]", "[" + tunnels + "]").find("made at the start"), std::string::npos);
    EXPECT_EQ(runtime.configuration()->generation, 1u);
    EXPECT_EQ(refused("[mirror]", "[]"), "") << "and takes what fits";
}

TEST(LiveChangeRefuses, AConfigurationWithOtherPorts) {
    exec::Runtime runtime(configuration(1, "cpu", 10, nullptr));
    chain::LoadOptions options;
    EXPECT_THROW(runtime.apply(chain::parse_configuration(
                     "version: 1\nports: {other: {null: {}}}\nchains: {c: {input: other, nfs: []}}\n", "(x)", options)),
                 ConfigError);
    EXPECT_EQ(runtime.configuration()->generation, 1u);
}

}  // namespace
}  // namespace millrace::test
