// What `millrace bench rules --figures` measures is right: lookups on the simulated device, alone, over the bus and
// under changes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "lab/lookup/acl_peer.hpp"
#include "lab/lookup/lookup_changes.hpp"
#include "millrace/base/eal.hpp"
#include "support/data.hpp"
#include "support/devices.hpp"

namespace millrace::lab {
namespace {

using nf::classify::kEngineNames;
using nf::classify::SyntheticSpec;

SyntheticSpec small(unsigned fields) {
    SyntheticSpec spec;
    spec.rules = 300;
    spec.classes = 40;
    spec.overlap = 3;
    spec.fields = fields;
    spec.packets = 500;
    return spec;
}

class Lookups : public testing::TestWithParam<std::string> {
protected:
    std::vector<device::StreamId> streams_;
};

/// All headers, also where they are no multiple of a batch or a batch none of a warp or a block.
TEST_P(Lookups, FindWhatTheDefinitionSays) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    const auto device = test::open_device(GetParam());
    for (const unsigned fields : {5u, 12u}) {
        const auto set = synthetic_lookups(small(fields));
        for (const uint32_t batch : {1u, 31u, 33u, 257u}) {
            LookupRun run(*device, *set, {.batch = batch, .batches = 600 / batch + 1, .streams = 2, .seconds = 0.001},
                          streams_);
            for (const Engine engine : engines_for(*set))
                for (const unsigned lanes : {1u, 2u, 8u, 32u}) {
                    const auto tables = set->build(engine);
                    const auto task = device->load(lookup_task(set->words, engine, lanes), tables->image);
                    const auto found = run.rules(*task, 500);
                    for (size_t i = 0; i < found.size(); ++i)
                        ASSERT_EQ(found[i], set->reference(i))
                            << kEngineNames[static_cast<size_t>(engine)] << ", " << lanes << " lanes, batch " << batch
                            << ", header " << i;
                    EXPECT_GT(run.kernel_rate(*task), 0);
                    EXPECT_GT(run.bus_rate(*task), 0);
                }
        }
    }
}

TEST_P(Lookups, KeepTheirPaceAndTellTheDelay) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    const auto device = test::open_device(GetParam());
    const auto set = synthetic_lookups(small(5));
    LookupRun run(*device, *set, {.batch = 32, .batches = 4, .streams = 4, .seconds = 0.2}, streams_);
    const auto tables = set->build(Engine::merged);
    const auto task = device->load(lookup_task(4, Engine::merged, 1), tables->image);
    const auto paced = run.paced(*task, 32'000);  // a batch each millisecond
    EXPECT_GT(paced.rate, 16'000);
    EXPECT_LT(paced.rate, 40'000);
    EXPECT_GE(paced.p50_us, 1000) << "the first header of a batch waits for the last one";
    EXPECT_GE(paced.p99_us, paced.p50_us);
    EXPECT_GE(paced.highest_us, paced.p99_us);
}

TEST_P(Lookups, AreRightWhileRulesChange) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    const auto device = test::open_device(GetParam());
    for (const unsigned fields : {5u, 12u}) {
        const auto set = synthetic_lookups(small(fields));
        LookupRun run(*device, *set, {.batch = 64, .batches = 8, .streams = 4, .seconds = 0.05}, streams_);
        for (const Engine engine : engines_for(*set)) {
            const ChangeRate rate = measure_changes(*device, *set, engine, 1, run, 0.2,
                                                    {.changes_per_second = 5000, .keys_per_second = 50'000});
            EXPECT_GT(rate.changes_per_second, 100) << kEngineNames[static_cast<size_t>(engine)];
            EXPECT_GT(rate.generations_per_second, 1);
            EXPECT_GT(rate.lookups.rate, 0);
            EXPECT_EQ(rate.checked, 200u);
            EXPECT_EQ(rate.mistakes, 0u) << kEngineNames[static_cast<size_t>(engine)];
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Lookups, testing::ValuesIn(test::offload_devices()), test::device_test_name);

/// What was measured, in words; then the process ends.
[[noreturn]] void measure_acl() {
    const auto set = synthetic_lookups(small(5));
    const auto rates = AclPeers({set}, 0.05).measure(60);
    const AclRate& own = rates.at(0);
    std::cerr << "refusal '" << own.refusal << "', " << (own.one_core > 0 && own.all_cores > 0 ? "rates" : "no rates")
              << ", " << (own.checked > 0 ? "checked" : "not checked") << ", " << own.mistakes
              << " mistakes, in no time " << (AclPeers({set}, 0.05).measure(0)[0].refusal.empty() ? "too" : "none")
              << "\n";
    std::exit(0);
}

/// In a process where DPDK does not run, whatever tests have run before.
TEST(AclPeer, IsRightAndGivenUpWhenItTakesTooLong) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    EXPECT_EXIT(measure_acl(), testing::ExitedWithCode(0), "refusal '', rates, checked, 0 mistakes, in no time none");
}

/// Its processes would write into the memory that DPDK shares with them.
TEST(AclPeer, IsRefusedOnceDpdkRuns) {
    start_eal();
    EXPECT_THROW(AclPeers({synthetic_lookups(small(5))}, 0.05), std::logic_error);
}

TEST(LookupSet, ReadsClassBenchSetsAndTheirTraces) {
    MILLRACE_NEEDS_DATA("classbench/wustl/acl1_1K");
    const auto set = classbench_lookups(test::data_path("classbench/wustl/acl1_1K"),
                                        test::data_path("classbench/wustl/acl1_1K_trace.xz"));
    EXPECT_EQ(set->words, 4u);
    EXPECT_EQ(set->rule_count, 917u);
    EXPECT_GT(set->class_count, 10u);
    EXPECT_GT(set->count(), 900u);
    const auto made = classbench_lookups(test::data_path("classbench/wustl/acl1_1K"), "");
    EXPECT_GT(made->count(), 1000u) << "headers made from the rules";
}

}  // namespace
}  // namespace millrace::lab
