// Chains that share a port: the device finds each packet's chain. Whatever the device and however frames are received,
// each chain sends the same packets in the same order and counts the same as on the cpu, where workers classify.
#include <gtest/gtest.h>

#include <map>

#include "exec/alternating.hpp"
#include "exec/classified.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/test_chain.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using device::sim::SimDevice;
using device::sim::SimOptions;

/// Chains that read and change much, heads, nothing; one lets malformed packets pass, one has no functions.
std::vector<TestChain> unlike_chains() {
    return {
        {test_chain_nfs(), {"{protocol: tcp, dst-port: 0-30000}", "{src: 10.0.0.0/10}"}, ""},
        {"[firewall: {default: permit, rules: [deny ip from any to 10.128.0.0/10, deny udp from any port 1-999]}]",
         {"{protocol: udp, src-port: 0-20000}", "{src: 10.64.0.0/11, dst-port: 7-60000}"},
         ""},
        {"[mirror]", {"{vlan: 0, dst: 10.128.0.0/9}"}, "malformed: pass"},
        {"[]", {"{dst: '2001:db8::/34'}", "{protocol: 6}"}, ""},
        {into_tunnel_nfs(), {"{protocol: 17, dst-port: 100-65535}"}, ""},
    };
}

/// So many chains of the same functions with tables of their own, by destination port. Some packets skip one of them.
std::vector<TestChain> alike_chains(size_t count) {
    std::vector<TestChain> chains = many_chains(count);
    for (size_t i = 0; i < count; ++i) {
        const std::string net = std::to_string(i % 2 * 128), deny = std::to_string(i * 65535 / count);
        chains[i].nfs =
            "[{firewall: {default: permit, rules: [deny udp from any port 0-" + deny +
            "]}, on: {deny: last}}, {name: second, firewall: {default: permit, rules: [deny tcp from any port 0-" +
            std::to_string(i * 65535 / count) +
            "]}}, {name: last, router: {next-hops: {a: {mac: \"02:00:00:00:00:" + "0" + std::to_string(i % 10) +
            "\"}}, routes: [{prefix: " + net + ".0.0.0/1, via: a}]}}]";
    }
    return chains;
}

/// So many chains with equal rules, which alert and drop by what packets carry; every fourth has others.
std::vector<TestChain> watched_chains(size_t count) {
    std::vector<TestChain> chains = many_chains(count);
    for (size_t i = 0; i < count; ++i) {
        const std::string sid = i % 4 == 3 ? "7" : "1", port = i % 4 == 3 ? "!0" : "any";
        chains[i]
            .nfs = "[{nids: {mode: ips, rule: ['alert ip any any -> any " + port + " (content:\"a\"; sid:" + sid +
                   ";)', 'drop udp any any -> any any (dsize:>300; sid:2;)', "
                   "'alert tcp any any -> any any (dsize:<40; sid:3;)']}}, {name: last, firewall: {default: permit, "
                   "rules: [deny tcp from any port 0-" +
                   std::to_string(i * 65535 / count) + "]}}]";
    }
    return chains;
}

std::vector<TestChain> both(std::vector<TestChain> chains, const std::vector<TestChain>& more) {
    chains.insert(chains.end(), more.begin(), more.end());
    return chains;
}

class ClassifiedOnDevices : public Classified, public testing::WithParamInterface<DeviceInMode::ParamType> {};

TEST_P(ClassifiedOnDevices, GivesTheSameAsWorkersThatClassify) {
    const auto& [device, mode] = GetParam();
    MILLRACE_NEEDS_DEVICE(device);
    const std::pair<const char*, std::vector<TestChain>> kSets[] = {
        {"unlike", unlike_chains()},      {"2 chains", many_chains(2)},
        {"100 chains", many_chains(100)}, {"alike", alike_chains(40)},
        {"watched", watched_chains(20)},  {"alike and unlike", both(alike_chains(3), unlike_chains())}};
    // What the cpu gives is the same for each device and mode.
    static std::map<std::pair<std::string, size_t>, Run> by_cpu;
    for (const auto& [name, chains] : kSets)
        for (const size_t size : {size_t{1}, size_t{33}, size_t{3000}}) {
            const std::string file = write_frames(random_frames(size, 300 + static_cast<unsigned>(size)));
            const auto known = by_cpu.find({name, size});
            const Run& expected = known != by_cpu.end()
                                      ? known->second
                                      : by_cpu[{name, size}] = run(configuration(chains, source(file, size), "cpu"),
                                                                   chains.size());
            const bool is_watched = name == std::string("watched") && size > 1000;
            if (is_watched) {
                for (const exec::ChainReport& chain : expected.report.chains)
                    EXPECT_TRUE(chain.events > 0 && chain.drops.contains("nids.block")) << chain.name;
            }
            for (const bool contiguous : {false, true}) {
                exec::RuntimeOptions options = with(contiguous);
                options.devices = open_devices(device);
                options.offload.mode = mode;
                options.offload.batch_bytes = size_t{1} << 20;
                auto own = configuration(chains, source(file, size), device);
                ASSERT_NE(own.classified, nullptr);
                const Run actual = run(std::move(own), chains.size(), options);
                const std::string what = std::string(name) + ", " + std::to_string(size) +
                                         (contiguous ? " contiguous frames" : " frames in buffers");
                expect_same(expected, actual, what);
                expect_work(Work::but_long_headers, actual.report);
                const exec::ChainReport* const all = find(actual.report, "(classify)");
                ASSERT_NE(all, nullptr) << what;
                EXPECT_EQ(all->received_packets, size) << what;
                EXPECT_EQ(all->passed_on, size) << what;
            }
        }
}
INSTANTIATE_TEST_SUITE_P(All, ClassifiedOnDevices, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ClassifiedOnDevices);

TEST_F(Classified, IsTheWorkersBusinessWhereADeviceHoldsNotAllFunctions) {
    // No two of them lead to the same places.
    auto chains = many_chains(17);
    for (size_t i = 0; i < chains.size(); ++i) {
        const std::string at = std::to_string(i);
        chains[i].nfs = "[{firewall: {default: permit, rules: [deny tcp from any port 0-9999]}, on: {deny: port c" +
                        at + "}}]";
    }
    const std::string file = write_frames(random_frames(500, 9));
    const Run expected = run(configuration(chains, source(file, 500), "cpu"), chains.size());
    auto own = configuration(chains, source(file, 500), "sim");
    EXPECT_EQ(own.classified, nullptr);
    const Run actual = run(std::move(own), chains.size(), with(true));
    expect_same(expected, actual, "17 chains");
    expect_work(Work::but_long_headers, actual.report);
    EXPECT_EQ(find(actual.report, "(classify)"), nullptr);
}

TEST_F(Classified, IsTheWorkersBusinessWhereADeviceHoldsNotAllState) {
    std::vector<TestChain> chains = many_chains(9);
    for (TestChain& chain : chains) {
        chain.nfs = into_tunnel_nfs();
        chain.nfs.insert(chain.nfs.find("sas:"), "sa-slots: 4096, ");  // of its own
    }
    const std::string file = write_frames(random_frames(500, 10));
    const Run expected = run(configuration(chains, source(file, 500), "cpu"), chains.size());
    auto own = configuration(chains, source(file, 500), "sim");
    EXPECT_EQ(own.classified, nullptr);
    const Run actual = run(std::move(own), chains.size(), with(true));
    expect_same(expected, actual, "9 tunnels");
    expect_work(Work::but_long_headers, actual.report);
}

TEST_F(Classified, IsNotNeededWhereThePortDecides) {
    const auto own = configuration({{"[mirror]", {"{port: in}"}, ""}, {"[mirror]", {"{port: third}"}, ""}},
                                   "{source: {count: 1}}", "sim");
    EXPECT_EQ(own.classified, nullptr);
}

TEST_F(Classified, LosesNothingWhenTheDeviceFails) {
    const auto chains = unlike_chains();
    const std::string file = write_frames(random_frames(900, 12));
    const Run expected = run(configuration(chains, source(file, 900), "cpu"), chains.size());
    uint32_t seed = 0;
    for (const bool contiguous : {false, true})
        for (const Fault::Kind kind : {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost})
            for (uint64_t after = 0; after < 40; after += 7) {
                SimOptions sim;
                sim.seed = ++seed;
                sim.faults = {{kind, after}};
                exec::RuntimeOptions options = with(contiguous);
                options.devices = {std::make_shared<SimDevice>(sim)};
                const Run actual = run(configuration(chains, source(file, 900), "sim"), chains.size(), options);
                expect_same(expected, actual, "fault " + std::to_string(seed));
            }
}

TEST_F(Classified, IsSharedWithTheCpu) {
    const auto chains = unlike_chains();
    const std::string file = write_frames(random_frames(2000, 13));
    const Run expected = run(configuration(chains, source(file, 2000), "cpu"), chains.size());
    const Run actual = run(configuration(chains, source(file, 2000), "sim+cpu"), chains.size());
    expect_same(expected, actual, "sim+cpu");
    expect_work(Work::shared_with_cpu, actual.report);
}

TEST_F(Classified, CountsEveryPacketOnceWithSeveralWorkersAndDevices) {
    const auto chains = unlike_chains();
    const std::string file = write_frames(random_frames(2000, 14));
    for (const char* device : {"sim", "sim:0+sim:1"})
        for (const bool contiguous : {false, true}) {
            exec::RuntimeOptions options = with(contiguous);
            options.workers = 3;
            const std::string input = source(file, 6000);
            const Run actual = run(configuration(chains, input.substr(0, input.size() - 1) + ", queues: 3}", device),
                                   chains.size(), options);
            EXPECT_EQ(find(actual.report, "(classify)")->received_packets, 6000u) << device;
            EXPECT_EQ(actual.report.ports[0].counters.received_packets, 6000u) << device;
            expect_work(Work::but_long_headers, actual.report);
        }
}

TEST_F(Classified, GoesOnThroughChangesOfTheConfiguration) {
    const std::string file = write_frames(random_frames(2000, 15));
    const auto both = unlike_chains();
    std::vector<TestChain> others = unlike_chains();
    others[1].nfs = "[mirror, firewall: {default: permit, rules: [deny tcp from any to any]}]";
    std::swap(others[2].lines, others[4].lines);
    for (const bool contiguous : {false, true}) {
        exec::RuntimeOptions options = with(contiguous);
        options.workers = 2;
        std::string input = source(file, 400'000);
        input = input.substr(0, input.size() - 1) + ", queues: 2}";
        exec::Runtime runtime(configuration(both, input, "sim"), options);
        runtime.start();
        for (int change = 0; change < 6; ++change) {
            const auto now = runtime.configuration();
            chain::Configuration next = configuration(change % 2 == 0 ? others : both, input, "sim", now.get());
            ASSERT_NE(next.classified, nullptr);
            runtime.apply(std::move(next));
        }
        const exec::Report report = end_of_run(runtime, Work::but_long_headers);
        EXPECT_EQ(find(report, "(classify)")->received_packets, 400'000u);
        EXPECT_EQ(find(report, "(classify)")->passed_on, 400'000u);
    }
}

}  // namespace
}  // namespace millrace::test
