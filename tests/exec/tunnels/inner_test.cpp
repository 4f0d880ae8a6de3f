// Chains that judge what tunnels carry: the same on the cpu and on every device.
#include <gtest/gtest.h>

#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/tunnel_frames.hpp"

namespace millrace::test {
namespace {

/// Firewall and NIDS, which look at addresses, ports and payload.
chain::Configuration configuration(const std::string& device, const std::string& inner, unsigned lanes = 0) {
    const std::string nfs = R"(
      - firewall: {default: permit, rules: [deny tcp from any to any port 23, deny udp from 10.1.0.0/16]}
      - nids:
          mode: ips
          rule:
            - 'drop ip any any -> any any (content:"evil"; sid:1;)'
            - 'alert udp any any -> any 53 (content:"dns"; sid:2;)'
        on: {alert: next})";
    return make_configuration(nfs + (inner.empty() ? "" : "\n    inner: " + inner), device, lanes);
}

std::vector<Frame> frames_in_tunnels(size_t count, unsigned seed) {
    Rng rng(seed);
    std::vector<Frame> frames;
    for (size_t k = 0; k < count; ++k) {
        PacketSpec spec;
        if (rng() % 3 == 0) spec.ipv6.emplace();
        else spec.ipv4.emplace().src = ipv4("10.0.0.0") + static_cast<uint32_t>(rng() % (2 << 16));
        const auto port = static_cast<uint16_t>(rng() % 2 == 0 ? 23 : 53);
        if (rng() % 2 == 0) spec.tcp = TcpHeader{.src = 999, .dst = port, .offset = {}, .checksum = {}, .options = {}};
        else spec.udp = UdpHeader{.src = 999, .dst = port, .length = {}, .checksum = {}};
        spec.payload = bytes_of(rng() % 4 == 0 ? "something evil here" : rng() % 2 == 0 ? "a dns question" : "nothing");
        Frame frame = build(spec);
        for (unsigned depth = rng() % 4; depth > 0 && frame[12] != 0x88; --depth)
            frame = in_tunnel(kTunnelKinds[rng() % std::size(kTunnelKinds)], frame, static_cast<unsigned>(rng()));
        // Some are damaged anywhere, or cut.
        if (rng() % 10 == 0) frame[12 + rng() % (frame.size() - 12)] ^= static_cast<uint8_t>(1 << rng() % 8);
        if (rng() % 20 == 0) frame.resize(14 + rng() % (frame.size() - 14));
        frames.push_back(std::move(frame));
    }
    return frames;
}

class Inner : public DeviceInMode {};
INSTANTIATE_TEST_SUITE_P(Devices, Inner, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

TEST(InnerOnCpu, JudgesWhatTheTunnelCarries) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.tcp = TcpHeader{.src = 999, .dst = 23, .offset = {}, .checksum = {}, .options = {}};
    const Frame telnet = build(spec);
    for (const uint32_t kind : kTunnelKinds) {
        const std::vector<Frame> frames = {in_tunnel(kind, telnet)};
        const auto dropped = [&](const std::string& inner) {
            const EngineRun run = run_on_cpu(configuration("cpu", inner), frames, 256);
            EXPECT_EQ(run.outcomes.size(), 1u);
            return run.outcomes[0].frame.empty();
        };
        EXPECT_FALSE(dropped("")) << kind;
        EXPECT_TRUE(dropped("any")) << kind;
        for (unsigned i = 0; i < tunnel::kCount; ++i)
            EXPECT_EQ(dropped(tunnel::kNames[i]), kind == 1u << i) << kind << " " << tunnel::kNames[i];
    }
}

TEST(InnerOnCpu, LeavesFramesAsTheyAre) {
    const auto frames = frames_in_tunnels(2000, 3);
    const EngineRun run = run_on_cpu(configuration("cpu", "any"), frames, 256);
    expect_conserved(run, frames.size());
    size_t sent = 0;
    for (const Outcome& outcome : run.outcomes) {
        if (outcome.frame.empty()) continue;
        EXPECT_EQ(outcome.frame, frames[outcome.number]);
        ++sent;
    }
    EXPECT_GT(sent, 400u);
    EXPECT_LT(sent, 1600u);
    EXPECT_GT(run.counters->malformed[static_cast<size_t>(Malformed::truncated_tunnel)].get(), 0u);
    EXPECT_GT(run.counters->events.get(), 100u);
}

TEST_P(Inner, IsTheSameOnEveryDevice) {
    const auto frames = frames_in_tunnels(3000, 5);
    for (const std::string inner : {"any", "[vxlan, gre]"}) {
        const EngineRun expected = run_on_cpu(configuration("cpu", inner), frames, 256);
        expect_conserved(expected, frames.size());
        expect_equal(expected, run_on_cpu(configuration("cpu", inner), frames, 31, false), "device halves");
        for (const unsigned lanes : {0u, 1u, 8u, 32u}) {
            exec::OffloadOptions options;
            options.mode = mode();
            const EngineRun run = run_on_device(device(1), configuration(name(), inner, lanes), frames, 700, options);
            expect_conserved(run, frames.size());
            expect_equal(expected, run, inner + " with " + std::to_string(lanes) + " lanes");
            EXPECT_EQ(run.counters->events.get(), expected.counters->events.get());
        }
    }
}

}  // namespace
}  // namespace millrace::test
