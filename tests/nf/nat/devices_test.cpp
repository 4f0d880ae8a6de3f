// NAT on devices: what the CPU says, packet by packet, of any mixture.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "millrace/nf/nat/device.hpp"
#include "nf/mappings/external_ends.hpp"
#include "nf/mappings/kept.hpp"
#include "nf/nat/talk.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

constexpr const char* kOptions =
    "{inside: [10.0.0.0/24, 10.1.0.0/16], pool: [198.51.100.1, 198.51.100.2], ports: 1024-1407, forwards: ["
    "{protocol: tcp, address: 198.51.100.1, port: 80, to: 10.0.0.80, to-port: 8080}, "
    "{protocol: udp, address: 198.51.100.9, port: 53, to: 10.0.0.53}, "
    "{protocol: udp, address: 198.51.100.2, port: 1100, to: 10.0.0.54, to-port: 7}]}";
std::string chain_text() { return fmt::format("[nat: {}]", kOptions); }

/// A packet that may concern the NAT in any way, or an error about one; some are neither, and some are no packets.
Frame any_packet(std::mt19937& rng, const std::vector<Frame>& before) {
    if (!before.empty() && rng() % 6 == 0) {
        const Frame& quoted = before[rng() % before.size()];
        if (quoted.size() > 34 && quoted[12] == 8 && quoted[13] == 0)
            return error_about(quoted, std::array{ipv4("203.0.113.99"), ipv4("10.0.0.1")}[rng() % 2], 20 + rng() % 60);
    }
    const auto inside = [&] {
        const uint32_t known[] = {ipv4("10.0.0.80"), ipv4("10.0.0.53"), ipv4("10.0.0.54"), ipv4("10.1.7.7")};
        return Peer{rng() % 4 == 0 ? known[rng() % 4] : ipv4("10.0.0.0") + static_cast<uint32_t>(rng() % 40),
                    std::array<uint16_t, 4>{8080, 53, 7, static_cast<uint16_t>(5000 + rng() % 40)}[rng() % 4]};
    };
    const auto external = [&] {
        const uint32_t known[] = {ipv4("198.51.100.1"), ipv4("198.51.100.2"), ipv4("198.51.100.9")};
        return Peer{known[rng() % 8 == 0 ? 2 : rng() % 2],
                    std::array<uint16_t, 4>{80, 53, 1100,
                                            static_cast<uint16_t>(1000 + rng() % 430)}[rng() % 8 == 0 ? rng() % 3 : 3]};
    };
    const Peer outside{ipv4("192.0.2.0") + static_cast<uint32_t>(rng() % 4), static_cast<uint16_t>(rng() % 3)};
    const uint8_t protocol = std::array<uint8_t, 5>{6, 17, 1, 17, 6}[rng() % 5];
    const auto flags = std::array<uint8_t, 6>{2, 0x12, 0x10, 0x11, 4, 0x18}[rng() % 6];
    switch (rng() % 4) {
        case 0: return talk(protocol, outside, external(), rng() % 2 == 0, flags);
        case 1: return talk(protocol, inside(), external(), rng() % 2 == 0, flags);
        default: return talk(protocol, inside(), outside, rng() % 8 == 0, flags);
    }
}

std::vector<Frame> mixture(size_t count, unsigned seed) {
    std::mt19937 rng(seed);
    Rng any(seed);
    std::vector<Frame> frames = random_packets(any, count / 10, {});
    const std::vector<Frame> strange = frames;
    frames.clear();
    for (size_t i = 0; i < count; ++i) {
        frames.push_back(i % 10 == 9 ? strange[i / 10] : any_packet(rng, frames));
        if (i % 40 == 38) frames.back()[20] |= 0x20;  // more fragments follow
    }
    return frames;
}

TEST(Nat, IsTheSameWithAnyLanesAndBatches) { check_halves_agree("nat", kOptions, mixture(1100, 1)); }

/// What the outcomes of the mixture are, so that equal is not equally nothing; and no checksum that was right becomes
/// wrong.
TEST(Nat, DoesAllThatItCanWithTheMixture) {
    const auto frames = mixture(12000, 2);
    NfRunner runner("nat", kOptions);
    const NfResult result = runner.run(frames, {1});
    std::map<uint32_t, size_t> seen;
    for (size_t i = 0; i < frames.size(); ++i) {
        const uint32_t outcome = result.decisions[i].outcome;
        ++seen[outcome];
        if (outcome == kRefused) continue;
        if (outcome > kHairpin) {
            ASSERT_EQ(result.frames[i], frames[i]);
        } else if (checksums_right(frames[i])) {
            ASSERT_TRUE(checksums_right(result.frames[i])) << hex_dump(frames[i]);
        }
    }
    for (uint32_t outcome = kOutbound; outcome <= kUntranslatable; ++outcome) EXPECT_GT(seen[outcome], 10u) << outcome;
}

/// ICMP errors cut anywhere, with anything inside: nothing beyond them is read or written.
TEST(Nat, ReadsNothingBehindWhatAnErrorCarries) {
    std::mt19937 rng(3);
    NfRunner runner("nat", kOptions);
    std::vector<Frame> frames;
    for (int round = 0; round < 3000; ++round) {
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = rng() % 2 == 0 ? ipv4("10.0.0.5") : ipv4("192.0.2.1");
        spec.ipv4->dst = ipv4("198.51.100.1");
        spec.icmp.emplace();
        spec.icmp->type = std::array{3, 4, 11, 12}[rng() % 4];
        spec.payload = Frame(rng() % 70);
        for (uint8_t& byte : spec.payload) byte = static_cast<uint8_t>(rng());
        if (!spec.payload.empty()) spec.payload[0] = static_cast<uint8_t>(0x40 | rng() % 16);
        if (spec.payload.size() > 20) {
            spec.payload[6] = spec.payload[7] = 0;
            spec.payload[9] = std::array<uint8_t, 3>{6, 17, 1}[rng() % 3];
            store_be32(spec.payload.data() + 12, ipv4("198.51.100.1"));
        }
        frames.push_back(build(spec));
    }
    const NfResult result = runner.run(frames, {1});
    for (const Decision& decision : result.decisions)
        EXPECT_TRUE(decision.outcome == kNoMapping || decision.outcome == kUntranslatable ||
                    decision.outcome == kInbound);
}

/// The device goes: the CPU goes on with its mappings. Without a journal it gives out ports anew, to one endpoint each,
/// and keeps to them.
TEST(Nat, GoesOnWithoutADeviceThatHasGone) {
    std::vector<Frame> frames;
    constexpr size_t kEndpoints = 1000;
    for (size_t i = 0; i < 3 * kEndpoints; ++i) {
        const auto one = static_cast<uint32_t>(i % kEndpoints);
        frames.push_back(
            talk(17, {ipv4("10.1.0.0") + one / 10, static_cast<uint16_t>(5000 + one)}, {ipv4("192.0.2.9"), 53}));
    }
    const auto chain_on = [](const char* device, bool journal) {
        return make_configuration(fmt::format("[nat: {{inside: 10.0.0.0/8, pool: 198.51.100.1, ports: 1024-9215, "
                                              "journal: {}}}]",
                                              journal),
                                  device);
    };
    const EngineRun expected = run_on_cpu(chain_on("cpu", true), frames, 100);
    for (const bool journal : {true, false}) {
        const auto chain = chain_on("sim", journal);
        const EngineRun run = run_until_it_goes(chain, frames);
        const auto statistics = chain.chains[0]->nodes[0].nf->statistics();
        const auto lost = std::ranges::find(statistics, "entries-lost", &nf::Statistic::name);
        ASSERT_NE(lost, statistics.end());
        EXPECT_EQ(lost->value == 0, journal) << "some batches had come back";

        std::vector<Peer> external(frames.size());
        for (size_t i = 0; i < run.outcomes.size(); ++i) {
            const Outcome& outcome = run.outcomes[i];
            ASSERT_EQ(outcome.verdict.decision.outcome, kOutbound);
            ASSERT_TRUE(checksums_right(outcome.frame));
            ASSERT_TRUE(!journal || outcome.frame == expected.outcomes[i].frame) << "packet " << i;
            external.at(outcome.number) = source_of(outcome.frame);
        }
        expect_given_once_and_kept(external, kEndpoints);
    }
}

class Nats : public DeviceInMode {};

TEST_P(Nats, DecideAsTheCpuOnAnyPackets) {
    const auto frames = mixture(4000, 5);
    exec::OffloadOptions options;
    options.mode = mode();
    const auto on_cpu = make_configuration(chain_text(), "cpu"), chain = make_configuration(chain_text(), name());
    const EngineRun expected = run_on_cpu(on_cpu, frames, 256);
    expect_equal(expected, run_on_device(device(8), chain, frames, 700, options), name());
    const auto kept = [](const chain::Configuration& of) {
        return kept_mappings<nf::nat::Nat>(*of.chains[0]->nodes[0].nf);
    };
    EXPECT_EQ(kept(chain), kept(on_cpu)) << "what the device has written down";
    EXPECT_GT(kept(chain).size(), 100u);
}
INSTANTIATE_TEST_SUITE_P(Devices, Nats, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

}  // namespace
}  // namespace millrace::test
