#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

TEST(Policer, DoesWhatItsGoldenPacketsSay) { run_golden("policer"); }

/// A bucket by the book, in exact fractions of a second: it fills continuously.
class Model {
public:
    Model(double rate, double burst) : rate_(rate), burst_(burst) {}
    bool passes(uint32_t key, double seconds, double price) {
        auto [found, is_new] = buckets_.try_emplace(key, Bucket{burst_, seconds});
        Bucket& bucket = found->second;
        bucket.tokens = std::min(burst_, bucket.tokens + (seconds - bucket.seconds) * rate_);
        bucket.seconds = seconds;
        if (bucket.tokens < price - 1e-6) return false;
        bucket.tokens -= price;
        return true;
    }

private:
    struct Bucket {
        double tokens, seconds;
    };
    const double rate_, burst_;
    std::map<uint32_t, Bucket> buckets_;
};

struct Given {
    std::vector<Frame> frames;
    std::vector<uint32_t> keys;
};

/// As packets come: of a few sources many, of many a few.
Given make_packets(size_t count) {
    std::mt19937 rng(4);
    Given given;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t prefix = std::min(rng() % 40, rng() % 40);
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = 0x0a000000 + (prefix << 8) + rng() % 256;
        spec.udp.emplace();
        spec.payload = Frame(rng() % 600);
        given.frames.push_back(build(spec));
        given.keys.push_back(prefix);
    }
    return given;
}

void expect_model(const EngineRun& run, const Given& given, Model model, bool bits) {
    ASSERT_EQ(run.outcomes.size(), given.frames.size());
    size_t passed = 0;
    for (size_t i = 0; i < given.frames.size(); ++i) {
        const double price = bits ? static_cast<double>(given.frames[i].size() * 8) : 1;
        const bool passes = model.passes(given.keys[i], static_cast<double>(i) * 1e-6, price);
        passed += passes;
        ASSERT_EQ(run.outcomes[i].visits[0].decision.outcome, passes ? 0u : 1u) << "packet " << i;
    }
    EXPECT_GT(passed, given.frames.size() / 5);
    EXPECT_LT(passed, given.frames.size() * 4 / 5);
}

constexpr const char* kBits = "[policer: {rate: 64Mbps, burst: 3000, per: source/24}]";
constexpr const char* kPackets = "[policer: {rate: 8kpps, burst: 30, per: source/24}]";
Model bits() { return {64e6, 24000}; }
Model packets() { return {8e3, 30}; }

TEST(Policer, IsATokenBucketOnTheCpu) {
    const Given given = make_packets(7000);
    expect_model(run_on_cpu(make_configuration(kBits, "cpu"), given.frames, 256), given, bits(), true);
    expect_model(run_on_cpu(make_configuration(kPackets, "cpu"), given.frames, 256), given, packets(), false);
}

class Policers : public DeviceInMode {};

TEST_P(Policers, AreTokenBuckets) {
    const Given given = make_packets(7000);
    exec::OffloadOptions options;
    options.mode = mode();
    const auto by_bits = make_configuration(kBits, name()), by_packets = make_configuration(kPackets, name());
    expect_model(run_on_device(device(1), by_bits, given.frames, 1025, options), given, bits(), true);
    expect_model(run_on_device(device(2), by_packets, given.frames, 33, options), given, packets(), false);
}

/// All packets are one bucket's: each finds fewer tokens than the one before it, and a GPU takes many at a time.
TEST_P(Policers, AreOneForAllPackets) {
    Given given = make_packets(7000);
    for (uint32_t& key : given.keys) key = 0;
    exec::OffloadOptions options;
    options.mode = mode();
    for (const bool bits : {true, false}) {
        const auto chain = make_configuration(
            bits ? "[policer: {rate: 1Gbps, burst: 30000}]" : "[policer: {rate: 500kpps, burst: 30}]", name());
        const Model model = bits ? Model(1e9, 240'000) : Model(500e3, 30);
        expect_model(run_on_device(device(3), chain, given.frames, 1000, options), given, model, bits);
        uint64_t together = 0;
        for (const nf::Statistic& each : chain.chains[0]->nodes[0].nf->statistics())
            if (each.name == "decided-together") together = each.value;
        if (name() == "sim" || mode() == device::Mode::persistent) EXPECT_EQ(together, 0u);
        else EXPECT_GT(together, given.frames.size() / 2);
    }
}
INSTANTIATE_TEST_SUITE_P(Devices, Policers, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

TEST(Policer, LetsHundredsOfGigabitsBy) {
    NfRunner runner("policer", "{rate: 400Gbps, burst: 10M}");
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.udp.emplace();
    spec.payload = Frame(1400);
    const std::vector<Frame> frames(7000, build(spec));  // a burst, and what comes in between
    // A microsecond has 50,000 bytes of tokens, and a packet takes fewer.
    for (const Decision& decision : runner.run(frames, {1}).decisions) ASSERT_EQ(decision.outcome, 0u);
}

TEST(Policer, RefusesOptionsThatMakeNoSense) {
    for (const char* options :
         {"{}", "{rate: 10}", "{rate: 10Mb}", "{rate: fastbps}", "{rate: 0bps}", "{rate: 2000Gpps}", "{rate: -1kbps}",
          "{rate: nanbps}", "{rate: 1kpps, burst: 0}", "{rate: 1kpps, burst: 2G}", "{rate: 1kpps, per: port}",
          "{rate: 1kpps, per: source/33}", "{rate: 1kpps, per: source/}", "{rate: 1kpps, per: flow/24}",
          "{rate: 1kpps, per: source/-1}", "{rate: 1kpps, ipv6-prefix: 129}", "{rate: 1kpps, max-buckets: 0}",
          "{rate: 1kpps, colour: green}"})
        EXPECT_THROW(NfRunner("policer", options), ConfigError) << options;
}

TEST(Policer, TakesRatesAsTheyAreWritten) {
    for (const char* options : {"{rate: 10Mbps}", "{rate: 1.5kpps}", "{rate: 1 Gbps}", "{rate: 5pps}",
                                "{rate: 1kpps, per: destination/0}", "{rate: 1kpps, burst: 64Ki, per: source/32}"})
        EXPECT_NO_THROW(NfRunner("policer", options)) << options;
}

}  // namespace
}  // namespace millrace::test
