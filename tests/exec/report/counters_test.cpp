// What chains count, and what becomes of it in the report.
#include "millrace/exec/report/counters.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "millrace/base/eal.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/exec/report/report.hpp"
#include "support/end_of_run.hpp"

namespace millrace::exec {
namespace {

chain::Configuration configuration(const std::string& nfs, const std::string& more = "") {
    return chain::parse_configuration(
        "version: 1\nports: {in: {source: {count: 1000}}, out: {sink: {}}}\nchains: {c: {input: in, output: out" +
            more + ", nfs: [" + nfs + "]}}\n",
        "c.yaml");
}

TEST(Counters, GoOnForAGenerationWithTheSameFunctionsAndOutcomesOnly) {
    const auto first = configuration("mirror, {name: a, firewall: {default: permit}}");
    const ChainCounters counters(*first.chains[0]);
    EXPECT_TRUE(counters.fits(*configuration("mirror, {name: a, firewall: {default: deny}}").chains[0]));
    EXPECT_FALSE(counters.fits(*configuration("mirror, {name: b, firewall: {default: permit}}").chains[0]));
    EXPECT_FALSE(counters.fits(*configuration("mirror").chains[0]));
    EXPECT_FALSE(counters.fits(*configuration("{name: a, firewall: {default: permit}}, mirror").chains[0]));
    EXPECT_FALSE(counters.fits(
        *configuration("mirror, {name: a, firewall: {default: permit}, on: {deny: punt}}", ", punt: out").chains[0]));
}

TEST(Counters, KeepWhatIsInFlightUntilItHasLeftInAnyWay) {
    const auto made = configuration("mirror");
    ChainCounters counters(*made.chains[0]);
    counters.received_packets.add(1000);
    counters.injected.add(10);
    counters.copied.add(20);
    EXPECT_EQ(counters.in_flight(), 1030u);
    counters.sent_packets.add(500);
    counters.dropped_by_nf.add(100);
    for (unsigned i = 0; i < kMalformedCount; ++i) counters.malformed[i].add(1);
    for (unsigned i = 0; i < kExitDropCount; ++i) counters.exit_drops[i].add(2);
    EXPECT_EQ(counters.dropped(), 100u + kMalformedCount + 2 * kExitDropCount);
    counters.punted.add(50);
    counters.passed_on.add(30);
    const uint64_t in_flight = 1030u - 500 - 100 - kMalformedCount - 2 * kExitDropCount - 50 - 30;
    EXPECT_EQ(counters.in_flight(), in_flight);
    for (unsigned i = 0; i < kFragmentDropCount; ++i) counters.fragment_drops[i].add(1);
    counters.joined.add(7);
    counters.split.add(3);
    EXPECT_EQ(counters.in_flight(), in_flight - kFragmentDropCount - 7 + 3);
}

TEST(Counters, HaveANameForEveryReason) {
    for (unsigned i = 0; i < kExitDropCount; ++i) {
        ASSERT_NE(kExitDropNames[i], nullptr) << i;
        for (unsigned j = 0; j < i; ++j) EXPECT_STRNE(kExitDropNames[i], kExitDropNames[j]);
    }
    EXPECT_STREQ(kExitDropNames[static_cast<size_t>(ExitDrop::no_punt_port)], "no-punt-port");
    EXPECT_STREQ(kExitDropNames[static_cast<size_t>(ExitDrop::device_failed)], "device-failed");
}

TEST(StageMeans, AreMeansOfBatchesAndPackets) {
    start_eal();
    StageCycles cycles{};
    cycles[static_cast<size_t>(BatchStage::layout)] = 1'000'000;
    cycles[static_cast<size_t>(BatchStage::round_trip)] = 2'000'000;
    const StageMeans means = means_of(cycles, 10, 1000);
    EXPECT_EQ(means.cycles_per_packet.at("layout"), 1000);
    EXPECT_EQ(means.cycles_per_packet.at("calls"), 0);
    EXPECT_FALSE(means.cycles_per_packet.contains("round-trip")) << "no CPU works meanwhile";
    EXPECT_NEAR(means.us.at("round-trip"), 2 * means.us.at("layout"), 0.01);
}

TEST(StageMeans, AreNotThereWhereNoBatchWentThroughStages) {
    EXPECT_TRUE(means_of({}, 1000, 1000).us.empty()) << "the cpu has no stages";
    EXPECT_TRUE(means_of({}, 1000, 1000).cycles_per_packet.empty());
    StageCycles cycles{};
    cycles[0] = 5;
    EXPECT_TRUE(means_of(cycles, 0, 0).us.empty());
}

/// What a run of this chain reports.
Report run(chain::Configuration configuration) {
    Runtime runtime(std::move(configuration));
    runtime.start();
    return test::end_of_run(runtime);
}

TEST(Report, CountsPuntsWithoutAPortAsDropsByName) {
    auto made = configuration("{firewall: {default: deny}, on: {deny: punt}}");
    ASSERT_EQ(made.warnings.size(), 1u);
    EXPECT_EQ(made.warnings[0].where.line, 3u);
    EXPECT_EQ(made.warnings[0].where.column, 45u);
    EXPECT_EQ(made.warnings[0].message,
              "chain 'c' has no punt port, so packets that 'firewall' punts are dropped (deny)");
    const Report report = run(std::move(made));
    EXPECT_EQ(report.chains[0].punted, 0u);
    EXPECT_EQ(report.chains[0].dropped, 1000u);
    EXPECT_EQ(report.chains[0].drops.at("exit.no-punt-port"), 1000u);
}

TEST(Report, CountsPuntsWithAPortAsPunted) {
    auto made = configuration("{firewall: {default: deny}, on: {deny: punt}}", ", punt: out");
    EXPECT_TRUE(made.warnings.empty());
    const Report report = run(std::move(made));
    EXPECT_EQ(report.chains[0].punted, 1000u);
    EXPECT_TRUE(report.chains[0].drops.empty());
}

TEST(Report, CallsReceivingOnTheCpuWhatTakesPacketsFromPortsOnly) {
    const Report report = run(configuration("mirror, {name: a, firewall: {default: permit}}"));
    EXPECT_GT(report.receive_cycles_per_packet, 0);
    EXPECT_TRUE(report.chains[0].stages.us.empty());
    const auto json = nlohmann::json::parse(report_json(report, 1));
    EXPECT_TRUE(json["chains"][0]["batch-us"].empty());
    EXPECT_EQ(json["stray-injections"], 0);
}

/// A port is asked thousands of times for each of its packets here: between them a millisecond passes, millions of
/// cycles.
TEST(Report, CallsNoIdlePollingReceiving) {
    const Report report = run(
        chain::parse_configuration("version: 1\nports: {in: {source: {count: 200, rate: 1k}}, out: {sink: {}}}\n"
                                   "chains: {c: {input: in, output: out, nfs: [mirror]}}\n",
                                   "c.yaml"));
    EXPECT_EQ(report.chains[0].received_packets, 200u);
    EXPECT_GT(report.receive_cycles_per_packet, 0);
    EXPECT_LT(report.receive_cycles_per_packet, 200'000);
}

}  // namespace
}  // namespace millrace::exec
