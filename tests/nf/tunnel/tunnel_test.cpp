// Ends of tunnels: golden packets, and what one end puts in comes out at the other.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <random>

#include "nf/tunnel/ends.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

TEST(Tunnel, DoesWhatItsGoldenPacketsSay) { run_golden("tunnel"); }

/// Padding is Ethernet's, and ends with it.
Frame without_padding(Frame frame) {
    Layers layers;
    const auto bytes = static_cast<uint32_t>(frame.size());
    parse(frame.data(), bytes, bytes, layers);
    frame.resize(layers.end);
    return frame;
}

class TunnelPairs : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Numbers, TunnelPairs, testing::Values(1, 20, 1000),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_P(TunnelPairs, TakeOutWhatTheOtherEndHasPutIn) {
    const size_t count = GetParam();
    NfRunner here("tunnel", tunnels_text(count, true)), there("tunnel", tunnels_text(count, false));
    const std::vector<Frame> frames = frames_for(count, 3000, 7);
    for (const Half& half : halves(*nf::find_type("tunnel"))) {
        const NfResult wrapped = here.run(frames, half);
        std::vector<Frame> sent, expected;
        for (size_t i = 0; i < frames.size(); ++i) {
            if (wrapped.decisions[i].outcome != kWrapped) continue;
            ASSERT_NE(wrapped.frames[i], frames[i]);
            sent.push_back(wrapped.frames[i]);
            expected.push_back(without_padding(frames[i]));
        }
        ASSERT_GT(sent.size(), frames.size() / 3);
        const NfResult unwrapped = there.run(sent, half);
        std::map<uint32_t, size_t> by_tunnel;
        for (size_t i = 0; i < sent.size(); ++i) {
            ASSERT_EQ(unwrapped.decisions[i].outcome, kUnwrapped) << i << "\n" << hex_dump(sent[i]);
            ++by_tunnel[unwrapped.decisions[i].detail];
            // Where the tunnel has Ethernet headers of its own, that is another one.
            const bool own = unwrapped.decisions[i].detail % kKindsOfEnds >= kFirstWithEthernet;
            const size_t from = own ? 14 : 0, of_sent = own ? l2_bytes(expected[i]) : 0;
            ASSERT_EQ(Frame(unwrapped.frames[i].begin() + static_cast<long>(from), unwrapped.frames[i].end()),
                      Frame(expected[i].begin() + static_cast<long>(of_sent), expected[i].end()))
                << i;
        }
        EXPECT_GE(by_tunnel.size(), std::min<size_t>(count, 400)) << "all tunnels were used";
    }
}

TEST(Tunnel, JoinsPortsByFramesOfAnyKind) {
    const auto text = [](bool near) {
        return fmt::format(
            "{{local: {}, tunnels: {{a: {{kind: vxlan, remote: {}, vni: 9, port: port0}}, "
            "b: {{kind: gre, remote: {}, key: 9, port: port1}}}}}}",
            near ? "192.0.2.1" : "192.0.2.2", near ? "192.0.2.2" : "192.0.2.1", near ? "192.0.2.2" : "192.0.2.1");
    };
    NfRunner near("tunnel", text(true)), far("tunnel", text(false));
    Rng random(5);
    std::vector<Frame> frames;
    for (const Frame& frame : random_packets(random, 2000)) frames.push_back(frame);
    for (const uint16_t port : {0, 1}) {
        const NfResult wrapped = near.run(frames, {1}, port);
        std::vector<Frame> sent, expected;
        for (size_t i = 0; i < frames.size(); ++i) {
            if (wrapped.decisions[i].outcome == kRefused || wrapped.decisions[i].outcome == kMtuExceeded) continue;
            ASSERT_EQ(wrapped.decisions[i].outcome, kWrapped);
            sent.push_back(wrapped.frames[i]);
            expected.push_back(frames[i]);
        }
        ASSERT_GT(sent.size(), 1000u);
        const NfResult out = far.run(sent, {1}, 2);
        for (size_t i = 0; i < sent.size(); ++i) {
            ASSERT_EQ(out.decisions[i].outcome, kJoined) << hex_dump(expected[i]);
            ASSERT_EQ(out.frames[i], expected[i]);
            ASSERT_EQ(out.out_ports[i], port);
        }
    }
}

TEST(Tunnel, DecidesAlikeWithAnyLanesAndBatches) {
    check_halves_agree("tunnel", tunnels_text(20, true), mixture(20, 1100, 3));
}

/// So that equal is not equally nothing.
TEST(Tunnel, DoesAllThatItCanWithTheMixture) {
    const auto frames = mixture(20, 20000, 4);
    NfRunner runner("tunnel", tunnels_text(20, true));
    const NfResult result = runner.run(frames, {1});
    std::map<uint32_t, size_t> seen;
    for (const Decision& decision : result.decisions) ++seen[decision.outcome];
    for (const uint32_t outcome : {kWrapped, kUnwrapped, kOther, kNoTunnelHere, kFragment, kMalformedTunnel,
                                   kBadChecksum, kNotCarried, kBadEcn, kMtuExceeded})
        EXPECT_GT(seen[outcome], 5u) << outcome;
}

class Tunnels : public DeviceInMode {};
TEST_P(Tunnels, DecideAsTheCpuOnAnyPackets) {
    for (const size_t count : {1, 20, 1000}) {
        const auto frames = mixture(count, 3000, 5);
        const std::string nfs = "[tunnel: " + tunnels_text(count, true) + "]";
        exec::OffloadOptions options;
        options.mode = mode();
        const EngineRun expected = run_on_cpu(make_configuration(nfs, "cpu"), frames, 256);
        expect_equal(expected, run_on_device(device(8), make_configuration(nfs, name()), frames, 700, options), name());
    }
}
INSTANTIATE_TEST_SUITE_P(Devices, Tunnels, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

}  // namespace
}  // namespace millrace::test
