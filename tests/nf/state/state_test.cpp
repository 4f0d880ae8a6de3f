// State per key: on every device, in every mode, whatever the batch, each packet is decided on as a plain map has it.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "millrace/device/sim/sim_device.hpp"
#include "nf/state/tally.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

/// What the keys of some packets are like.
enum class Keys { one, each, thousand, zipf };
constexpr Keys kKeys[] = {Keys::one, Keys::each, Keys::thousand, Keys::zipf};

uint32_t draw(Keys keys, size_t number, std::mt19937& rng) {
    switch (keys) {
        case Keys::one: return 7;
        case Keys::each: return static_cast<uint32_t>(number + 1);
        case Keys::thousand: return rng() % 1000 + 1;
        case Keys::zipf:  // as steep as flows are
            return static_cast<uint32_t>(std::pow(5000.0, std::generate_canonical<double, 32>(rng)));
    }
    return 0;
}

struct Given {
    std::vector<Frame> frames;
    std::vector<Decision> expected;
    size_t entries = 0;
};

/// Packets, of which many change nothing, and some end an entry, let it time out soon, or only look; now and then one
/// that is not IP.
Given make_packets(Keys keys, size_t count, uint64_t timeout_ns, unsigned seed, bool odd = true) {
    std::mt19937 rng(seed);
    TallyModel model(timeout_ns);
    Given given;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t key = draw(keys, i, rng), dice = odd ? rng() % 40 : 39;
        const uint16_t port = dice < 4 ? static_cast<uint16_t>(dice) : dice < 34 ? Tally::kQuiet : 80;
        given.frames.push_back(keyed_frame(key, i, port));
        given.expected.push_back(model.next(key, port));
    }
    given.entries = model.entries();
    return given;
}

void expect_decisions(const std::vector<Decision>& expected, const EngineRun& run, size_t node = 0) {
    ASSERT_EQ(run.outcomes.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(run.outcomes[i].number, i);
        ASSERT_GT(run.outcomes[i].visits.size(), node) << "packet " << i;
        const Decision& got = run.outcomes[i].visits[node].decision;
        ASSERT_TRUE(got == expected[i]) << "packet " << i << ": outcome " << got.outcome << ", detail " << got.detail
                                        << "; expected " << expected[i].outcome << ", " << expected[i].detail;
    }
}

constexpr size_t kSizes[] = {0, 1, 31, 32, 33, 1023, 1024, 1025};
constexpr uint64_t kShortTimeoutNs = 40'000;

TEST(StatePerKey, IsAMapsOnTheCpu) {
    for (const Keys keys : kKeys)
        for (const size_t size : kSizes)
            for (const uint64_t timeout : {kShortTimeoutNs, uint64_t{1'000'000'000}}) {
                const Given given = make_packets(keys, size, timeout, 3);
                const auto chain = tally_chain("timeout: " + std::to_string(timeout) + "ns", "cpu");
                expect_decisions(given.expected, run_on_cpu(chain, given.frames, 100));
            }
}

class StateOnDevices : public DeviceInMode {
protected:
    /// Packets of `key_of(i)` to `port_of(i)`, which must be decided on in this way as a map has it. The chain.
    template <class KeyOf, class PortOf>
    chain::Configuration expect_as_map(size_t count, uint64_t timeout_us, uint32_t seed, KeyOf key_of, PortOf port_of) {
        TallyModel model(timeout_us * 1000);
        Given given;
        for (size_t i = 0; i < count; ++i) {
            const uint32_t key = key_of(i) + 1;
            const uint16_t port = port_of(i);
            given.frames.push_back(keyed_frame(key, i, port));
            given.expected.push_back(model.next(key, port));
        }
        chain::Configuration chain = tally_chain("timeout: " + std::to_string(timeout_us) + "us", name());
        exec::OffloadOptions options;
        options.mode = mode();
        expect_decisions(given.expected, run_on_device(device(seed), chain, given.frames, 700, options));
        return chain;
    }
};

TEST_P(StateOnDevices, IsAMaps) {
    unsigned seed = 1;
    for (const Keys keys : kKeys)
        for (const size_t size : kSizes) {
            const Given given = make_packets(keys, size, kShortTimeoutNs, ++seed);
            const auto chain = tally_chain("timeout: 40us", name());
            exec::OffloadOptions options;
            options.mode = mode();
            expect_decisions(given.expected, run_on_device(device(seed), chain, given.frames, 1025, options));
        }
}

/// More packets than groups of a GPU have at once, and all of them in one group.
TEST_P(StateOnDevices, IsAMapsForLongBatches) {
    for (const Keys keys : kKeys) {
        const Given given = make_packets(keys, 7000, kShortTimeoutNs, 11);
        const auto chain = tally_chain("timeout: 40us, max-keys: 64k", name());
        exec::OffloadOptions options;
        options.mode = mode();
        expect_decisions(given.expected, run_on_device(device(3), chain, given.frames, given.frames.size(), options));
    }
}

TEST_P(StateOnDevices, GoesOnFromBatchToBatch) {
    const Given given = make_packets(Keys::zipf, 6000, 300'000, 5);
    for (const size_t burst : {1u, 7u, 64u, 1000u}) {
        const size_t count = burst == 1 ? 300 : given.frames.size();
        const auto chain = tally_chain("timeout: 300us", name());
        exec::OffloadOptions options;
        options.mode = mode();
        expect_decisions({given.expected.begin(), given.expected.begin() + static_cast<ptrdiff_t>(count)},
                         run_on_device(device(static_cast<uint32_t>(burst)), chain,
                                       {given.frames.begin(), given.frames.begin() + static_cast<ptrdiff_t>(count)},
                                       burst, options));
    }
}

/// Few packets change anything. Whatever a GPU has decided on ahead, each is decided on as in sequence.
TEST_P(StateOnDevices, IsDecidedOnAheadWhereNothingChanges) {
    std::mt19937 rng(17);
    TallyModel model(1'000'000'000);
    Given given;
    for (size_t i = 0; i < 30'000; ++i) {
        const uint32_t key = draw(Keys::zipf, i, rng), dice = rng() % 400;
        const uint16_t port = dice < 4 ? static_cast<uint16_t>(dice) : Tally::kQuiet;
        given.frames.push_back(keyed_frame(key, i, port));
        given.expected.push_back(model.next(key, port));
    }
    const auto chain = tally_chain("timeout: 1s", name());
    exec::OffloadOptions options;
    options.mode = mode();
    expect_decisions(given.expected, run_on_device(device(4), chain, given.frames, 500, options));
    const uint64_t ahead = tally_of(chain).statistic("decided-ahead");
    if (name() == "sim" || mode() == device::Mode::persistent) EXPECT_EQ(ahead, 0u);
    else EXPECT_GT(ahead, given.frames.size() / 4);
}

/// Few keys, each of whose packets changes what the next one finds.
TEST_P(StateOnDevices, IsDecidedOnTogetherWhereMuchChanges) {
    constexpr size_t kCount = 5000;
    for (const uint32_t keys : {1u, 2u, 9u}) {
        std::mt19937 rng(keys);
        const auto chain = expect_as_map(
            kCount, 40, keys, [&](size_t) { return static_cast<uint32_t>(rng() % keys); },
            [&](size_t) {
                const uint32_t dice = rng() % 300;
                return static_cast<uint16_t>(dice < 5 ? dice : dice % 2 == 0 ? Tally::kQuiet : 80);
            });
        const uint64_t together = tally_of(chain).statistic("decided-together");
        if (name() == "sim" || mode() == device::Mode::persistent) EXPECT_EQ(together, 0u);
        else EXPECT_GT(together, kCount / 2) << keys << " keys";
    }
}

/// What each packet does to its key's entry can be put together with what its neighbours do.
TEST_P(StateOnDevices, IsDecidedOnInOnePassWhereEffectsAreKnown) {
    for (const uint32_t keys : {1u, 2u, 9u, 60u}) {
        for (const size_t size : {31u, 32u, 33u, 255u, 256u, 257u, 5000u}) {
            std::mt19937 rng(keys);
            const auto chain = expect_as_map(
                size, 400, keys,
                [&](size_t i) {
                    return i % 40 < 8 ? static_cast<uint32_t>(rng() % keys) : static_cast<uint32_t>(i) / 8 % keys;
                },
                [&](size_t) {
                    const uint32_t dice = rng() % 500;
                    return static_cast<uint16_t>(dice < 5 ? dice : Tally::kScanned);
                });
            const uint64_t scanned = tally_of(chain).statistic("decided-by-scan");
            const bool has_scans = name() != "sim" && mode() != device::Mode::persistent;
            if (!has_scans) {
                EXPECT_EQ(scanned, 0u);
            } else if (size == 5000) {
                EXPECT_GT(scanned, size / 3) << keys << " keys";
            }
            EXPECT_LE(scanned, tally_of(chain).statistic("decided-together"));
        }
    }
}

TEST_P(StateOnDevices, IsCounted) {
    const Given given = make_packets(Keys::thousand, 3000, 1'000'000'000, 6);
    const auto chain = tally_chain("timeout: 1s", name());
    exec::OffloadOptions options;
    options.mode = mode();
    run_on_device(device(1), chain, given.frames, 500, options);
    const auto on_cpu = tally_chain("timeout: 1s", "cpu");
    run_on_cpu(on_cpu, given.frames, 256);
    EXPECT_EQ(tally_of(on_cpu).entries(), given.entries) << "both have what timed out and was not met again";
    for (const char* name : {"entries", "entries-created", "entries-expired"})
        EXPECT_EQ(tally_of(chain).statistic(name), tally_of(on_cpu).statistic(name)) << name;
    EXPECT_GT(tally_of(chain).statistic("entries-created"), 900u);
    EXPECT_EQ(tally_of(chain).statistic("entries-lost"), 0u);
}

/// A table of one bucket: sixteen keys.
TEST_P(StateOnDevices, RefusesWhatFindsNoRoom) {
    std::vector<Frame> frames;
    std::vector<uint32_t> outcomes;
    for (size_t i = 0; i < 100; ++i) {
        frames.push_back(keyed_frame(static_cast<uint32_t>(i % 20 + 1), i));
        outcomes.push_back(i < 16 ? Tally::kNew : i % 20 < 16 ? Tally::kKnown : Tally::kFull);
    }
    const auto chain = tally_chain("max-keys: 8, timeout: 1s, when-full: refuse", name());
    exec::OffloadOptions options;
    options.mode = mode();
    const EngineRun run = run_on_device(device(1), chain, frames, 33, options);
    ASSERT_EQ(run.outcomes.size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i)
        EXPECT_EQ(run.outcomes[i].visits[0].decision.outcome, outcomes[i]) << "packet " << i;
    EXPECT_EQ(tally_of(chain).statistic("entries-refused"), 20u);
    EXPECT_EQ(tally_of(chain).entries(), 16u);
}

TEST_P(StateOnDevices, EvictsWhatWasUsedLongestAgo) {
    std::mt19937 rng(9);
    std::vector<uint32_t> recent;  // the sixteen that are left, the latest last
    std::vector<Frame> frames;
    std::vector<uint32_t> outcomes;
    uint64_t evicted = 0;
    for (size_t i = 0; i < 500; ++i) {
        const uint32_t key = rng() % 24 + 1;
        frames.push_back(keyed_frame(key, i));
        const auto known = std::erase(recent, key);
        outcomes.push_back(known != 0 ? Tally::kKnown : Tally::kNew);
        if (known == 0 && recent.size() == 16) {
            recent.erase(recent.begin());
            ++evicted;
        }
        recent.push_back(key);
    }
    const auto chain = tally_chain("max-keys: 8, timeout: 1s, when-full: evict", name());
    exec::OffloadOptions options;
    options.mode = mode();
    const EngineRun run = run_on_device(device(1), chain, frames, 70, options);
    ASSERT_EQ(run.outcomes.size(), frames.size());
    for (size_t i = 0; i < frames.size(); ++i)
        EXPECT_EQ(run.outcomes[i].visits[0].decision.outcome, outcomes[i]) << "packet " << i;
    EXPECT_EQ(tally_of(chain).statistic("entries-evicted"), evicted);
    EXPECT_EQ(tally_of(chain).entries(), 16u);
}

/// Other functions around it; headers of any length, which a device that gets heads alone would leave to the CPU.
TEST_P(StateOnDevices, SeesEveryPacketOfAChain) {
    Rng rng(11);
    std::vector<Frame> frames = random_packets(rng, 3000, {});
    const std::string before = "firewall: {default: permit, rules: [deny udp from any to any port 1024-20000]}, ",
                      behind = ", mirror, {tally: {timeout: 1s, max-keys: 100, when-full: evict}, name: again}";
    const auto on_cpu = tally_chain("timeout: 1s", "cpu", before, behind),
               chain = tally_chain("timeout: 1s", name(), before, behind);
    const EngineRun expected = run_on_cpu(on_cpu, frames, 256);
    exec::OffloadOptions options;
    options.mode = mode();
    expect_equal(expected, run_on_device(device(3), chain, frames, 777, options), name());
    EXPECT_EQ(tally_of(chain).statistic("entries"), tally_of(on_cpu).statistic("entries"));
}

INSTANTIATE_TEST_SUITE_P(Devices, StateOnDevices, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

class StateOnEach : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};

TEST_P(StateOnEach, IsTheSameForContiguousFrames) {
    const Given given = make_packets(Keys::zipf, 2000, 100'000, 12);
    const auto chain = tally_chain("timeout: 100us", GetParam());
    const EngineRun run = run_contiguous(open_device(GetParam(), 4), chain, given.frames, 300);
    ASSERT_EQ(run.outcomes.size(), given.expected.size());
    for (size_t i = 0; i < given.expected.size(); ++i) {
        ASSERT_EQ(run.outcomes[i].verdict.decision.outcome, given.expected[i].outcome) << "packet " << i;
        ASSERT_EQ(run.outcomes[i].verdict.decision.detail, given.expected[i].detail) << "packet " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, StateOnEach, testing::ValuesIn(offload_devices()), device_test_name);

TEST(StatePerKey, StaysWithTheNextGeneration) {
    const Given given = make_packets(Keys::thousand, 2000, 1'000'000'000, 21, false);
    const auto before = tally_chain("timeout: 1s, max-keys: 3k", "cpu");
    run_on_cpu(before, given.frames, 256);
    const uint64_t entries = tally_of(before).entries();
    ASSERT_GT(entries, 800u);
    const auto same = tally_chain("timeout: 2s, max-keys: 3k", "cpu", {}, {}, &before);
    EXPECT_EQ(tally_of(same).entries(), entries);
    EXPECT_EQ(tally_of(same).packets(), 2000u);
    const auto larger = tally_chain("timeout: 2s, max-keys: 100k", "cpu", {}, {}, &same);
    EXPECT_EQ(tally_of(larger).entries(), 0u);
    EXPECT_EQ(tally_of(larger).statistic("entries-lost"), entries);
}

TEST(StatePerKey, IsSweptBehindItsTimeOut) {
    // A key a packet, each of them met once: packets come every microsecond, so a second is a million of them.
    const auto chain = tally_chain("timeout: 1us, max-keys: 1k", "cpu");
    frame_pool();
    Collector collector(false);
    exec::CpuEngine engine(collector);
    exec::ChainCounters counters(*chain.chains[0]);
    const auto pass = [&](uint32_t first_key, uint64_t first_number) {
        std::vector<rte_mbuf*> mbufs;
        for (uint32_t i = 0; i < 512; ++i) mbufs.push_back(make_mbuf(keyed_frame(first_key + i, i), first_number + i));
        engine.submit(chain.chains[0], counters, mbufs.data(), mbufs.size());
        collector.outcomes.clear();
    };
    pass(1, 0);
    EXPECT_EQ(tally_of(chain).entries(), 512u) << "packets that come late would find their entry";
    for (int round = 0; round < 8; ++round) pass(100'000, 3'000'000);
    EXPECT_EQ(tally_of(chain).entries(), 512u) << "the table has 128 buckets, and 32 are swept with a vector of 512";
    EXPECT_EQ(tally_of(chain).statistic("entries-expired"), 512u);
}

/// Two workers on one table, each with keys of its own and all of them with some that they share.
TEST(StatePerKey, IsSharedByWorkers) {
    const auto chain = tally_chain("timeout: 1000s, max-keys: 1M", "cpu");
    frame_pool();
    constexpr size_t kEach = 60'000;
    const auto work = [&](uint32_t worker) {
        Collector collector(false);
        exec::CpuEngine engine(collector);
        exec::ChainCounters counters(*chain.chains[0]);
        for (size_t i = 0; i < kEach; i += 250) {
            std::vector<rte_mbuf*> mbufs;
            for (size_t k = i; k < i + 250; ++k) {
                const auto key = static_cast<uint32_t>(k % 3 == 0 ? k % 7 + 1 : (worker << 24) + k);
                mbufs.push_back(make_mbuf(keyed_frame(key, k), k));
            }
            engine.submit(chain.chains[0], counters, mbufs.data(), mbufs.size());
            collector.outcomes.clear();
        }
    };
    std::thread first(work, 1), second(work, 2), third(work, 3);
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(tally_of(chain).packets(), 3 * kEach) << "no packet was counted twice, or not at all";
    EXPECT_EQ(tally_of(chain).entries(), 3 * kEach * 2 / 3 + 7);
}

/// Keys are mixed on purpose: a function that goes by the order of all packets is caught.
TEST(StatePerKey, IsNoOrderOfAllPacketsOnSimulatedDevices) {
    std::vector<Frame> frames;
    for (size_t i = 0; i < 200; ++i) frames.push_back(keyed_frame(static_cast<uint32_t>(i % 50 + 1), i));
    const auto chain = tally_chain("timeout: 1s, counts-all: true", "sim");
    const EngineRun run = run_on_device(open_device("sim", 1), chain, frames, 200);
    size_t in_order = 0;
    for (size_t i = 0; i < run.outcomes.size(); ++i) in_order += run.outcomes[i].visits[0].decision.detail == i;
    EXPECT_LT(in_order, 100u);
}

/// The device is gone: what it had is counted, and the CPU begins anew.
TEST(StatePerKey, IsCountedWhenItGoesWithADevice) {
    const Given given = make_packets(Keys::thousand, 3000, 1'000'000'000, 31, false);
    const auto chain = tally_chain("timeout: 1s, journal: false", "sim");
    device::sim::SimOptions options;
    options.faults = {{device::sim::Fault::Kind::device_lost, 60}};
    const EngineRun run = run_on_device(std::make_shared<device::sim::SimDevice>(options), chain, given.frames, 100, {},
                                        Work::fault);
    expect_conserved(run, given.frames.size());
    EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
    const uint64_t lost = tally_of(chain).statistic("entries-lost");
    EXPECT_GT(lost, 0u) << "some batches had come back";
    EXPECT_LT(tally_of(chain).packets(), 3000u);
    EXPECT_EQ(tally_of(chain).statistic("entries-created") - lost, tally_of(chain).entries());
}

TEST(StatePerKey, RefusesOptionsThatMakeNoSense) {
    for (const char* options : {"max-keys: 0", "max-keys: 17Mi", "timeout: 0s", "when-full: wait", "max-flows: 3"})
        EXPECT_THROW(tally_chain(options, "cpu"), ConfigError) << options;
}

}  // namespace
}  // namespace millrace::test
