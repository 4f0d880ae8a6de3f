// NAT64 on devices: what the CPU says, packet by packet, of any mixture.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "millrace/nf/nat64/device.hpp"
#include "nf/mappings/external_ends.hpp"
#include "nf/mappings/kept.hpp"
#include "nf/nat64/sides.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

constexpr const char* kOptions =
    "{inside: [\"2001:db8::/64\", \"2001:db8:1::/64\"], pool: [198.51.100.1, 198.51.100.2], ports: 1024-1407, "
    "forwards: ["
    "{protocol: tcp, address: 198.51.100.1, port: 80, to: \"2001:db8::80\", to-port: 8080}, "
    "{protocol: udp, address: 198.51.100.9, port: 53, to: \"2001:db8::53\"}, "
    "{protocol: udp, address: 198.51.100.2, port: 1100, to: \"2001:db8::54\", to-port: 7}]}";
std::string chain_text() { return fmt::format("[nat64: {}]", kOptions); }

bool is_of(const Frame& frame, uint16_t type) { return frame.size() > 34 && load_be16(frame.data() + 12) == type; }

/// A packet that may concern NAT64 in any way, or an error about one.
Frame any_packet(std::mt19937& rng, const std::vector<Frame>& before) {
    if (!before.empty() && rng() % 6 == 0) {
        const Frame& quoted = before[rng() % before.size()];
        const uint8_t code = rng() % 6;
        if (is_of(quoted, 0x0800))
            return error4(ipv4("203.0.113.99"), std::array<uint8_t, 4>{3, 3, 11, 12}[rng() % 4], code,
                          rng() % 3 == 0 ? 1400 : 0, quoted, 20 + rng() % 60);
        if (is_of(quoted, 0x86dd))
            return error6(ipv6("2001:db8::1"), static_cast<uint8_t>(1 + rng() % 4), code,
                          static_cast<uint32_t>(rng() % 50), quoted, 40 + rng() % 60);
    }
    const auto inside = [&] {
        Side side{ipv6("2001:db8::"), 0,
                  std::array<uint16_t, 4>{8080, 53, 7, static_cast<uint16_t>(5000 + rng() % 40)}[rng() % 4]};
        const uint8_t last[] = {0x80, 0x53, 0x54, static_cast<uint8_t>(rng() % 40)};
        side.ipv6[15] = last[rng() % 4];
        side.ipv6[5] = rng() % 8 == 0 ? 1 : 0;
        return side;
    };
    const auto external = [&] {
        const uint32_t addresses[] = {ipv4("198.51.100.1"), ipv4("198.51.100.2"), ipv4("198.51.100.9")};
        const uint32_t address = addresses[rng() % 8 == 0 ? 2 : rng() % 2];
        const auto any = static_cast<uint16_t>(1000 + rng() % 430);
        return Side{known(address), address,
                    std::array<uint16_t, 4>{80, 53, 1100, any}[rng() % 8 == 0 ? rng() % 3 : 3]};
    };
    const uint32_t server = ipv4("192.0.2.0") + static_cast<uint32_t>(rng() % 4);
    const Side outside{known(server), server, static_cast<uint16_t>(rng() % 3)};
    Content content;
    content.protocol = std::array<uint8_t, 5>{6, 17, 1, 17, 6}[rng() % 5];
    content.flags = std::array<uint8_t, 6>{2, 0x12, 0x10, 0x11, 4, 0x18}[rng() % 6];
    content.payload = Frame(rng() % 40, 3);
    content.answer = rng() % 2 == 0;
    switch (rng() % 4) {
        case 0: return in_ipv4(content, outside, external());
        case 1: return in_ipv6(content, inside(), external());
        default: content.answer = rng() % 8 == 0; return in_ipv6(content, inside(), outside);
    }
}

std::vector<Frame> mixture(size_t count, unsigned seed) {
    std::mt19937 rng(seed);
    Rng any(seed);
    RandomOptions random;
    random.ipv6 = 0.7;
    random.malformed = 0.2;
    // Strange packets that are for NAT64, too: with options, extension headers, tags, cut off anywhere.
    random.adjust = [](PacketSpec& spec, Rng& own) {
        if (spec.ipv4) spec.ipv4->dst = ipv4("198.51.100.1");
        if (!spec.ipv6) return;
        spec.ipv6->src = ipv6("2001:db8::7");
        spec.ipv6->dst = known(ipv4("192.0.2.0") + static_cast<uint32_t>(own() % 4));
    };
    const std::vector<Frame> strange = random_packets(any, count / 5, random);
    std::vector<Frame> frames;
    for (size_t i = 0; i < count; ++i) frames.push_back(i % 5 == 4 ? strange[i / 5] : any_packet(rng, frames));
    return frames;
}

TEST(Nat64, IsTheSameWithAnyLanesAndBatches) { check_halves_agree("nat64", kOptions, mixture(1100, 1)); }

/// What the outcomes of the mixture are, so that equal is not equally nothing; and no checksum that was right becomes
/// wrong.
TEST(Nat64, DoesAllThatItCanWithTheMixture) {
    const auto frames = mixture(12000, 2);
    NfRunner runner("nat64", kOptions);
    const NfResult result = runner.run(frames, {1});
    std::map<uint32_t, size_t> seen;
    for (size_t i = 0; i < frames.size(); ++i) {
        const uint32_t outcome = result.decisions[i].outcome;
        ++seen[outcome];
        if (outcome == kRefused) continue;
        if (outcome > kHairpinned) {
            ASSERT_EQ(result.frames[i], frames[i]);
        } else if (i % 5 != 4 && sums_right(frames[i])) {
            ASSERT_TRUE(sums_right(result.frames[i])) << hex_dump(frames[i]);
        }
    }
    for (uint32_t outcome = kOut; outcome <= kNoSuchThing; ++outcome) EXPECT_GT(seen[outcome], 10u) << outcome;
}

/// ICMP errors cut anywhere, with anything inside: nothing beyond them is read or written, whatever lengths they claim.
TEST(Nat64, ReadsNothingBehindWhatAnErrorCarries) {
    std::mt19937 rng(3);
    NfRunner runner("nat64", kOptions);
    std::vector<Frame> frames;
    for (int round = 0; round < 6000; ++round) {
        const bool ipv6_error = rng() % 2 == 0;
        PacketSpec spec;
        if (ipv6_error) {
            spec.ipv6.emplace();
            spec.ipv6->src = ipv6("2001:db8::5");
            spec.ipv6->dst = known(ipv4("192.0.2.1"));
        } else {
            spec.ipv4.emplace();
            spec.ipv4->src = ipv4("192.0.2.1");
            spec.ipv4->dst = ipv4("198.51.100.1");
        }
        spec.icmp.emplace();
        spec.icmp->v6 = ipv6_error;
        spec.icmp->type = ipv6_error ? static_cast<uint8_t>(1 + rng() % 4)
                                     : std::array<uint8_t, 3>{3, 11, 12}[rng() % 3];
        spec.icmp->rest = static_cast<uint32_t>(rng());
        spec.payload = Frame(rng() % 90);
        for (uint8_t& byte : spec.payload) byte = static_cast<uint8_t>(rng());
        Frame& quoted = spec.payload;
        if (!quoted.empty()) quoted[0] = static_cast<uint8_t>(ipv6_error ? 0x60 : 0x40 | rng() % 16);
        if (ipv6_error && quoted.size() > 40) {
            quoted[6] = std::array<uint8_t, 3>{6, 17, 58}[rng() % 3];
            std::ranges::copy(known(ipv4("192.0.2.1")), quoted.begin() + 8);
            std::ranges::copy(ipv6("2001:db8::7"), quoted.begin() + 24);
        } else if (!ipv6_error && quoted.size() > 20) {
            quoted[6] = quoted[7] = 0;
            quoted[9] = std::array<uint8_t, 3>{6, 17, 1}[rng() % 3];
            store_be32(quoted.data() + 12, ipv4("198.51.100.1"));
        }
        frames.push_back(build(spec));
    }
    const NfResult result = runner.run(frames, {1});
    std::map<uint32_t, size_t> seen;
    for (const Decision& decision : result.decisions) ++seen[decision.outcome];
    EXPECT_EQ(seen[kNobody] + seen[kNoSuchThing] + seen[kIn] + seen[kOut], frames.size());
    EXPECT_GT(seen[kNobody], 100u);
}

/// The device goes: the CPU goes on with its mappings.
TEST(Nat64, GoesOnWithoutADeviceThatHasGone) {
    constexpr size_t kEndpoints = 1000;
    std::vector<Frame> frames;
    for (size_t i = 0; i < 3 * kEndpoints; ++i) {
        Side client{ipv6("2001:db8::"), 0, static_cast<uint16_t>(5000 + i % kEndpoints)};
        store_be16(client.ipv6.data() + 14, static_cast<uint16_t>(i % kEndpoints / 10));
        frames.push_back(in_ipv6({}, client, outside(ipv4("192.0.2.9"), 53)));
    }
    const std::string text = "[nat64: {pool: 198.51.100.1, ports: 1024-9215}]";
    const auto chain = make_configuration(text, "sim");
    const EngineRun expected = run_on_cpu(make_configuration(text, "cpu"), frames, 100);
    const EngineRun run = run_until_it_goes(chain, frames);
    std::vector<Side> external(frames.size());
    for (size_t i = 0; i < run.outcomes.size(); ++i) {
        const Outcome& outcome = run.outcomes[i];
        ASSERT_EQ(outcome.verdict.decision.outcome, kOut);
        ASSERT_TRUE(sums_right(outcome.frame));
        ASSERT_EQ(outcome.frame, expected.outcomes[i].frame) << "packet " << i;
        external.at(outcome.number) = source4(outcome.frame);
    }
    expect_given_once_and_kept(external, kEndpoints);
}

class Nat64s : public DeviceInMode {};

TEST_P(Nat64s, DecideAsTheCpuOnAnyPackets) {
    const auto frames = mixture(4000, 5);
    exec::OffloadOptions options;
    options.mode = mode();
    const auto on_cpu = make_configuration(chain_text(), "cpu"), chain = make_configuration(chain_text(), name());
    const EngineRun expected = run_on_cpu(on_cpu, frames, 256);
    expect_equal(expected, run_on_device(device(8), chain, frames, 700, options), name());
    const auto kept = [](const chain::Configuration& of) {
        return kept_mappings<nf::nat64::Nat64>(*of.chains[0]->nodes[0].nf);
    };
    EXPECT_EQ(kept(chain), kept(on_cpu)) << "what the device has written down";
    EXPECT_GT(kept(chain).size(), 100u);
}
INSTANTIATE_TEST_SUITE_P(Devices, Nat64s, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

}  // namespace
}  // namespace millrace::test
