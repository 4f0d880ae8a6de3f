// What outlives a device of state per key: what it has written down, and what the CPU makes of that.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "millrace/device/sim/sim_device.hpp"
#include "nf/state/tally.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using nf::JournalRecord;

struct Talk {
    std::vector<Frame> frames;
    std::vector<Decision> expected;
    std::map<uint32_t, uint32_t> kept;
};

/// Packets of so many sources to some of these ports.
Talk make_talk(size_t count, uint32_t sources, std::vector<uint16_t> ports, uint64_t timeout_ns) {
    std::mt19937 rng(sources);
    TallyModel model(timeout_ns);
    Talk given;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t key = rng() % sources + 1;
        const uint16_t port = ports[rng() % ports.size()];
        given.frames.push_back(keyed_frame(key, i, port));
        given.expected.push_back(model.next(key, port));
    }
    given.kept = model.kept();
    return given;
}

class Journals : public DeviceInMode {
protected:
    EngineRun run(const chain::Configuration& chain, const std::vector<Frame>& frames, size_t burst) {
        exec::OffloadOptions options;
        options.mode = mode();
        return run_on_device(device(5), chain, frames, burst, options);
    }
};

/// Entries that are made, changed, ended, timed out and met again, by few packets of a key and by many.
TEST_P(Journals, HaveWhatADeviceKnows) {
    const std::vector<uint16_t> ports = {80,           80,          Tally::kQuiet, Tally::kQuiet,
                                         Tally::kLook, Tally::kEnd, Tally::kShort, Tally::kScanned};
    for (const uint32_t sources : {1u, 2u, 33u, 1000u, 100'000u}) {
        const Talk given = make_talk(6000, sources, ports, 300'000);
        const auto chain = tally_chain("timeout: 300us, max-keys: 64k", name());
        run(chain, given.frames, 700);
        EXPECT_EQ(tally_of(chain).written(), given.kept) << sources << " sources";
        const auto without = tally_chain("timeout: 300us, max-keys: 64k, journal: false", name());
        run(without, given.frames, 700);
        EXPECT_TRUE(tally_of(without).written().empty());
    }
}

TEST_P(Journals, HaveWhoIsThereWhenOthersAreEvicted) {
    const Talk given = make_talk(3000, 100, {80}, 1'000'000'000);
    const auto chain = tally_chain("max-keys: 32, timeout: 1s, when-full: evict", name());
    const EngineRun ran = run(chain, given.frames, 100);
    const auto on_cpu = tally_chain("max-keys: 32, timeout: 1s, when-full: evict", "cpu");
    run_on_cpu(on_cpu, given.frames, 100);
    EXPECT_EQ(tally_of(chain).written(), tally_of(on_cpu).kept());
    EXPECT_GT(tally_of(chain).statistic("entries-evicted"), 1000u);
}

/// Packets are a microsecond apart. What has timed out goes a second later, by the sweep.
TEST_P(Journals, HaveWhatIsSwept) {
    const auto chain = tally_chain("timeout: 1us, max-keys: 1k", name());
    frame_pool();
    Collector collector(false);
    exec::ChainCounters counters(*chain.chains[0]);
    exec::OffloadOptions options;
    options.mode = mode();
    options.patience = std::chrono::minutes(1);
    {
        exec::OffloadEngine engine(device(5), collector, 1024, options);
        const auto pass = [&](uint32_t keys, uint32_t first_key, uint64_t first_number) {
            std::vector<rte_mbuf*> mbufs;
            for (uint32_t i = 0; i < 500; ++i)
                mbufs.push_back(make_mbuf(keyed_frame(first_key + i % keys, i), first_number + i));
            engine.submit(chain.chains[0], counters, mbufs.data(), mbufs.size());
            engine.drain();
        };
        pass(500, 1, 0);
        EXPECT_EQ(tally_of(chain).written().size(), 500u);
        for (uint32_t round = 0; round < 4; ++round) pass(1, 10'000, 3'000'000);
        EXPECT_EQ(counters.retried_on_cpu.get(), 0u);
    }
    EXPECT_EQ(tally_of(chain).written().size(), 1u);
    EXPECT_EQ(tally_of(chain).statistic("entries-expired"), 500u);
}

INSTANTIATE_TEST_SUITE_P(Devices, Journals, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

/// Whenever the device goes, and whatever goes first: each packet is decided on as if it had not.
TEST(Journal, LetsTheCpuGoOnFromWhereTheDeviceWas) {
    const Talk given = make_talk(4000, 500, {80, 80, Tally::kQuiet}, 1'000'000'000);
    for (const device::Mode mode : {device::Mode::fused, device::Mode::pipelined})
        for (const Fault::Kind kind : {Fault::Kind::device_lost, Fault::Kind::kernel_fails, Fault::Kind::copy_fails})
            for (const uint64_t after : {0u, 1u, 7u, 30u, 31u, 32u, 33u, 60u, 90u}) {
                const auto chain = tally_chain("timeout: 1s", "sim");
                device::sim::SimOptions sim;
                sim.faults = {{kind, after}};
                exec::OffloadOptions options;
                options.mode = mode;
                const EngineRun run = run_on_device(std::make_shared<device::sim::SimDevice>(sim), chain, given.frames,
                                                    100, options, Work::fault);
                EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
                ASSERT_EQ(run.outcomes.size(), given.expected.size());
                for (size_t i = 0; i < given.expected.size(); ++i)
                    ASSERT_TRUE(run.outcomes[i].verdict.decision == given.expected[i])
                        << "packet " << i << ", fault after " << after;
                EXPECT_EQ(tally_of(chain).statistic("entries-lost"), 0u);
                EXPECT_EQ(tally_of(chain).entries(), given.kept.size());
                EXPECT_EQ(tally_of(chain).kept(), given.kept);
            }
}

/// What a device was to keep beyond the packets that were written down is kept for its time-out at least.
TEST(Journal, LetsNothingTimeOutWithTheDevice) {
    std::vector<Frame> frames;
    for (size_t i = 0; i < 4000; ++i) frames.push_back(keyed_frame(i % 50 + 1, i, i < 50 ? 80 : Tally::kQuiet));
    const auto chain = tally_chain("timeout: 200us", "sim");
    device::sim::SimOptions sim;
    sim.faults = {{Fault::Kind::device_lost, 100}};
    const EngineRun run = run_on_device(std::make_shared<device::sim::SimDevice>(sim), chain, frames, 100, {},
                                        Work::fault);
    EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
    EXPECT_LT(run.counters->retried_on_cpu.get(), 3500u);
    ASSERT_EQ(run.outcomes.size(), frames.size());
    for (size_t i = 50; i < frames.size(); ++i)
        ASSERT_EQ(run.outcomes[i].verdict.decision.outcome, Tally::kKnown) << "packet " << i;
}

/// A record of a source.
struct alignas(16) SourceRecord {
    JournalRecord record;
    Tally::Source source;
};
SourceRecord record_of(uint32_t place, uint32_t key, uint32_t last) {
    return {{0, JournalRecord::lasting, place, last}, {{__builtin_bswap32(key), 0, 0, 0}}};
}
/// Applies it to a function, or to a table.
template <class Table>
uint32_t apply(Table& table, const SourceRecord& record, uint64_t batch, uint32_t bytes = sizeof(SourceRecord)) {
    return table.apply(reinterpret_cast<const uint8_t*>(&record), bytes, 0, batch);
}

TEST(Journal, IsAppliedInTheOrderOfBatches) {
    const auto chain = tally_chain("timeout: 1s", "sim");
    TallyHost& tally = tally_of(chain);
    for (const auto& [place, around] : {std::pair{3u, uint64_t{100}},
                                        {4u, 0},
                                        {5u, 0xfffffff6},
                                        {6u, 0xfffffff7},
                                        {7u, 0xfffffff8},
                                        {8u, 0xfffffff9},
                                        {9u, 0xfffffffa},
                                        {10u, 0xfffffffb}}) {
        EXPECT_NE(apply(tally, record_of(place, 1, 10), around + 5), 0u);
        EXPECT_NE(apply(tally, record_of(place, 1, 9), around + 4), 0u) << "it is late, and as it should be";
        EXPECT_EQ(tally.written(), (std::map<uint32_t, uint32_t>{{1, 10}}));
        EXPECT_NE(apply(tally, record_of(place, 2, 11), around + 5), 0u) << "of the same batch";
        EXPECT_EQ(tally.written(), (std::map<uint32_t, uint32_t>{{2, 11}}));
        SourceRecord freed{};
        freed.record = {0, JournalRecord::freed, place, 0};
        EXPECT_EQ(apply(tally, freed, around + 7, sizeof(JournalRecord)), sizeof(JournalRecord));
        apply(tally, record_of(place, 1, 12), around + 6);
        EXPECT_TRUE(tally.written().empty()) << "it was freed later";
    }
}

TEST(Journal, RefusesWhatCanBeNone) {
    const auto chain = tally_chain("timeout: 1s, max-keys: 8", "sim");
    TallyHost& tally = tally_of(chain);
    SourceRecord made = record_of(16, 1, 1);
    EXPECT_EQ(apply(tally, made, 1), 0u) << "there is no such place";
    made.record.place = 15;
    EXPECT_EQ(apply(tally, made, 1, sizeof made - 16), 0u) << "it is cut off";
    for (const unsigned kind : {2u, 3u, 9u}) {
        made.record.kind = static_cast<JournalRecord::Kind>(kind);
        EXPECT_EQ(apply(tally, made, 1), 0u) << kind;
    }
    EXPECT_TRUE(tally.written().empty());
    made.record.kind = JournalRecord::lasting;
    EXPECT_EQ(apply(tally, made, 1), sizeof made);

    // Of a function that names parts.
    constexpr nf::KeptParts kParts[] = {{0, 4, 2}, {8, 8, 1}};
    nf::KeyedTable<Tally::Source, Tally::Seen> table({.most = 8, .timeout_ns = 1}, nf::Environment{}, nullptr, false,
                                                     kParts);
    auto& parts = table.written();
    made.record.kind = JournalRecord::part;
    for (const auto& [offset, bytes] :
         {std::pair{0u, 8u}, {2u, 4u}, {8u, 4u}, {16u, 4u}, {17u, 0u}, {0xfffffff0u, 16u}, {4u, 0xffffffffu}}) {
        made.record.more = JournalRecord::part_at(offset, bytes);
        EXPECT_EQ(apply(parts, made, 1), 0u) << offset << ", " << bytes;
    }
    made.record.more = JournalRecord::part_at(4, 4);
    EXPECT_EQ(apply(parts, made, 1), 32u);
    made.record.kind = JournalRecord::lasting;
    EXPECT_EQ(apply(parts, made, 2), 0u) << "it says no such thing";
}

/// What devices had before, and what the CPU has done since, is no more what counts.
TEST(Journal, BeginsAnewWhenTheCpuHasHadTheState) {
    const auto chain = tally_chain("timeout: 1s", "sim");
    TallyHost& tally = tally_of(chain);
    ASSERT_NE(apply(tally, record_of(3, 1, 10), 1), 0u);
    std::vector<Frame> frames;
    for (uint32_t key = 1; key < 60; ++key) frames.push_back(keyed_frame(key, key));
    tally.returned();
    EXPECT_TRUE(tally.written().empty());
    run_on_cpu(chain, frames, 256);
    const std::map<uint32_t, uint32_t> before = tally.kept();
    ASSERT_EQ(before.size(), 59u);
    tally.device_lost();
    EXPECT_EQ(tally.kept(), before);
}

/// What was missing is there again when the whole table has come back.
TEST(Journal, IsOfUseAgainWhenTheCpuHasHadTheState) {
    const Talk given = make_talk(1000, 100, {80}, 1'000'000'000);
    const auto chain = tally_chain("timeout: 1s", "sim");
    TallyHost& tally = tally_of(chain);
    run_on_cpu(chain, given.frames, 256);
    const std::map<uint32_t, uint32_t> before = tally.kept();
    ASSERT_EQ(before.size(), 100u);
    tally.missed();
    tally.returned();
    tally.device_lost();
    EXPECT_EQ(tally.kept(), before);
    EXPECT_EQ(tally.statistic("entries-lost"), 0u);
}

/// A generation without a journal lets changes go by: the next one's is of no use.
TEST(Journal, IsOfNoUseBehindAGenerationWithoutOne) {
    const Talk given = make_talk(1000, 100, {80}, 1'000'000'000);
    const auto first = tally_chain("timeout: 1s", "sim"),
               second = tally_chain("timeout: 1s, journal: false", "sim", {}, {}, &first),
               third = tally_chain("timeout: 1s", "sim", {}, {}, &second);
    run_on_device(open_device("sim", 1), first, given.frames, 100);
    EXPECT_EQ(tally_of(first).written().size(), 100u);
    tally_of(third).device_lost();
    EXPECT_TRUE(tally_of(third).kept().empty());
    EXPECT_EQ(tally_of(third).statistic("entries-lost"), 100u);
}

/// With records missing nobody knows what the device knew: the CPU begins anew, and it is counted.
TEST(Journal, IsOfNoUseWithoutSomeOfIt) {
    const Talk given = make_talk(1000, 100, {80}, 1'000'000'000);
    const auto chain = tally_chain("timeout: 1s", "sim");
    run_on_device(open_device("sim", 1), chain, given.frames, 100);
    TallyHost& tally = tally_of(chain);
    ASSERT_EQ(tally.written().size(), 100u);
    tally.missed();
    tally.device_lost();
    EXPECT_TRUE(tally.kept().empty());
    EXPECT_EQ(tally.entries(), 0u);
    EXPECT_EQ(tally.statistic("entries-lost"), 100u);
}

}  // namespace
}  // namespace millrace::test
