#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/nf/conntrack/device.hpp"
#include "millrace/nf/flows/tcp.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

enum : uint32_t { kNew, kEstablished, kRelated, kInvalid, kUntracked, kFull };

TEST(Conntrack, DoesWhatItsGoldenPacketsSay) { run_golden("conntrack"); }

/// One TCP connection, its packets in order, by two ends that keep to the protocol.
class Session {
public:
    Session(uint32_t client, uint32_t server, uint16_t port, unsigned most_turns, std::mt19937& rng)
        : rng_(rng),
          ends_{{client, port, static_cast<uint32_t>(rng()), 0}, {server, 443, static_cast<uint32_t>(rng()), 0}} {
        const bool scaled = rng_() % 2 == 0;
        const Frame scale = {3, 3, static_cast<uint8_t>(scaled ? 7 : 0), 1};
        send(0, tcp::kSyn, 0, scale);
        send(1, tcp::kSyn | tcp::kAck, 0, scale);
        send(0, tcp::kAck, 0);
        for (unsigned turn = 0, turns = rng_() % most_turns; turn < turns; ++turn) {
            const unsigned side = rng_() % 2;
            send(side, tcp::kAck | tcp::kPsh, 1 + rng_() % 900);
            if (rng_() % 2 == 0) send(1 - side, tcp::kAck, 0);
        }
        if (rng_() % 5 == 0) {
            send(0, tcp::kRst | tcp::kAck, 0);
            return;
        }
        const unsigned first = rng_() % 2;
        send(first, tcp::kFin | tcp::kAck, 0);
        send(1 - first, tcp::kAck, 0);
        send(1 - first, tcp::kFin | tcp::kAck, 0);
        send(first, tcp::kAck, 0);
    }
    std::vector<Frame> frames;
    std::vector<uint32_t> expected;

private:
    struct Peer {
        uint32_t address;
        uint16_t port;
        uint32_t seq, ack;
    };
    void send(unsigned side, unsigned flags, uint32_t bytes, const Frame& options = {}) {
        Peer &from = ends_[side], &to = ends_[1 - side];
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = from.address;
        spec.ipv4->dst = to.address;
        spec.tcp.emplace();
        spec.tcp->src = from.port;
        spec.tcp->dst = to.port;
        spec.tcp->seq = from.seq;
        spec.tcp->ack = (flags & tcp::kAck) != 0 ? from.ack : 0;
        spec.tcp->flags = static_cast<uint8_t>(flags);
        spec.tcp->window = 20000;
        spec.tcp->options = options;
        spec.payload = Frame(bytes, static_cast<uint8_t>('a'));
        frames.push_back(build(spec));
        expected.push_back(frames.size() == 1 ? kNew : kEstablished);
        from.seq += bytes + ((flags & (tcp::kSyn | tcp::kFin)) != 0 ? 1 : 0);
        to.ack = from.seq;
    }
    std::mt19937& rng_;
    Peer ends_[2];
};

struct Given {
    std::vector<Frame> frames;
    std::vector<uint32_t> expected;
};

/// Sessions at the same time, mixed, each in its order; and segments that somebody else has made up, if wanted.
Given mixed_sessions(size_t sessions, unsigned seed, unsigned most_turns = 12, bool forged_ones = true) {
    std::mt19937 rng(seed);
    std::vector<Session> all;
    std::vector<size_t> turns, next(sessions);
    for (size_t i = 0; i < sessions; ++i) {
        // Ends whose order is now one, now the other.
        const uint32_t a = ipv4("10.0.0.0") + static_cast<uint32_t>(i), b = ipv4("10.128.0.0") + rng() % 50;
        all.emplace_back(i % 2 == 0 ? a : b, i % 2 == 0 ? b : a, static_cast<uint16_t>(1024 + i), most_turns, rng);
        turns.insert(turns.end(), all.back().frames.size(), i);
    }
    std::shuffle(turns.begin(), turns.end(), rng);
    Given given;
    for (const size_t i : turns) {
        if (forged_ones && next[i] > 2 && rng() % 20 == 0) {
            Frame forged = all[i].frames[next[i] - 1];
            forged[14 + 20 + 4] ^= 0x40;  // far from any window
            given.frames.push_back(std::move(forged));
            given.expected.push_back(kInvalid);
        }
        given.frames.push_back(all[i].frames[next[i]]);
        given.expected.push_back(all[i].expected[next[i]++]);
    }
    return given;
}

/// By key: where the connections are that the host has.
std::map<std::vector<uint8_t>, uint32_t> kept_connections(const chain::Configuration& chain) {
    using nf::conntrack::Conntrack;
    nf::NetworkFunction& function = *chain.chains[0]->nodes[0].nf;
    if (chain.device != "cpu") function.device_lost();
    const auto& state = static_cast<const Conntrack::Tables*>(function.image().tables())->state;
    std::map<std::vector<uint8_t>, uint32_t> kept;
    for (uint64_t i = 0; i < state.tags.size(); ++i) {
        if (state.tags[i] == 0) continue;
        const auto* const key = reinterpret_cast<const uint8_t*>(&state.entries[i].key);
        // Those that were a device's are held to no windows, as if they were met in their midst.
        kept[{key, key + sizeof state.entries[i].key}] = Conntrack::lasting(state.entries[i].value) & 0x3ff;
    }
    return kept;
}

void expect_outcomes(const Given& given, const EngineRun& run) {
    ASSERT_EQ(run.outcomes.size(), given.frames.size());
    for (size_t i = 0; i < given.frames.size(); ++i)
        ASSERT_EQ(run.outcomes[i].visits[0].decision.outcome, given.expected[i]) << "packet " << i;
}

TEST(Conntrack, FollowsManySessionsOnTheCpu) {
    const Given given = mixed_sessions(1000, 1);
    ASSERT_GT(std::ranges::count(given.expected, kInvalid), 200);
    expect_outcomes(given, run_on_cpu(make_configuration("[conntrack: {max-flows: 4k}]", "cpu"), given.frames, 256));
}

class Conntracks : public DeviceInMode {
protected:
    /// What the cpu has decided, and the chain that has decided the same in this way.
    struct Compared {
        EngineRun expected;
        chain::Configuration chain;
    };
    Compared compare_with_cpu(const std::vector<Frame>& frames, size_t burst, uint32_t seed) {
        exec::OffloadOptions options;
        options.mode = mode();
        const auto chain_on = [](const std::string& device) {
            return make_configuration("[conntrack: {max-flows: 2k}]", device);
        };
        const auto on_cpu = chain_on("cpu");
        Compared compared{run_on_cpu(on_cpu, frames, 256), chain_on(name())};
        expect_equal(compared.expected, run_on_device(device(seed), compared.chain, frames, burst, options), name());
        EXPECT_EQ(kept_connections(compared.chain), kept_connections(on_cpu)) << "what the device has written down";
        return compared;
    }
};

TEST_P(Conntracks, FollowManySessions) {
    const Given given = mixed_sessions(300, 2);
    exec::OffloadOptions options;
    options.mode = mode();
    const auto chain = make_configuration("[conntrack: {max-flows: 2k}]", name()),
               on_cpu = make_configuration("[conntrack: {max-flows: 2k}]", "cpu");
    expect_outcomes(given, run_on_device(device(7), chain, given.frames, 500, options));
    expect_outcomes(given, run_on_cpu(on_cpu, given.frames, 256));
    EXPECT_EQ(kept_connections(chain), kept_connections(on_cpu)) << "what the device has written down";
}

/// Nobody may begin in the midst of a connection: so those of a device that has gone must be known.
TEST(Conntrack, LetsConnectionsGoOnWithoutTheirDevice) {
    const Given given = mixed_sessions(300, 4, 12, false);
    for (const bool journal : {true, false})
        for (const uint64_t after : {30u, 60u, 100u}) {
            const auto chain = make_configuration(
                fmt::format("[conntrack: {{max-flows: 2k, pick-up: false, journal: {}}}]", journal), "sim");
            device::sim::SimOptions sim;
            sim.faults = {{device::sim::Fault::Kind::device_lost, after}};
            const EngineRun run = run_on_device(std::make_shared<device::sim::SimDevice>(sim), chain, given.frames, 100,
                                                {}, Work::fault);
            EXPECT_GT(run.counters->retried_on_cpu.get(), 0u);
            ASSERT_EQ(run.outcomes.size(), given.frames.size());
            size_t others = 0;
            for (size_t i = 0; i < given.frames.size(); ++i)
                others += run.outcomes[i].verdict.decision.outcome != given.expected[i] ? 1 : 0;
            if (journal) EXPECT_EQ(others, 0u) << after;
            else EXPECT_GT(others, given.frames.size() / 20) << "without it they are lost";
        }
}

uint64_t statistic_of(const chain::Configuration& chain, const char* name) {
    for (const nf::Statistic& each : chain.chains[0]->nodes[0].nf->statistics())
        if (each.name == name) return each.value;
    return 0;
}

/// Few sessions with much to send: each segment depends on those before it.
TEST_P(Conntracks, DecideTogetherOnBusyConnections) {
    for (const size_t sessions : {1u, 3u, 20u}) {
        const Given given = mixed_sessions(sessions, 20 + static_cast<unsigned>(sessions), 2400 / (sessions + 1));
        exec::OffloadOptions options;
        options.mode = mode();
        const auto chain = make_configuration("[conntrack: {max-flows: 2k}]", name());
        expect_outcomes(given, run_on_device(device(7), chain, given.frames, 900, options));
        const uint64_t together = statistic_of(chain, "decided-together");
        const uint64_t scanned = statistic_of(chain, "decided-by-scan");
        if (name() == "sim" || mode() == device::Mode::persistent) {
            EXPECT_EQ(together, 0u);
            EXPECT_EQ(scanned, 0u);
        } else {
            EXPECT_GT(together, given.frames.size() / 2) << sessions << " sessions";
            EXPECT_GT(scanned, given.frames.size() / 6) << sessions << " sessions";
        }
    }
}

/// Segments of few connections that lie near the edges of their windows, within and beyond.
std::vector<Frame> segments_at_edges(unsigned connections, size_t count, unsigned seed) {
    std::mt19937 rng(seed);
    const auto about = [&](uint32_t most) {
        return rng() % 8 == 0 ? static_cast<uint32_t>(rng() % most) - most / 2 : 0;
    };
    std::vector<nf::flows::TcpConnection> all(connections);
    std::vector<Frame> frames;
    while (frames.size() < count) {
        const unsigned which = rng() % connections;
        nf::flows::TcpConnection& connection = all[which];
        const bool is_open = connection.peers[1].window != 0;
        const unsigned side = is_open ? rng() % 2 : connection.peers[0].window != 0 ? 1 : 0, dice = rng() % 400;
        const nf::flows::TcpPeer &from = connection.peers[side], &to = connection.peers[1 - side];
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = side == 0 ? ipv4("10.0.0.1") + which : ipv4("192.0.2.1");
        spec.ipv4->dst = side == 0 ? ipv4("192.0.2.1") : ipv4("10.0.0.1") + which;
        spec.tcp.emplace();
        spec.tcp->src = static_cast<uint16_t>(side == 0 ? 2000 : 80);
        spec.tcp->dst = static_cast<uint16_t>(side == 0 ? 80 : 2000);
        spec.tcp->flags = tcp::kAck;
        if (!is_open || dice == 0) spec.tcp->flags = side == 0 ? tcp::kSyn : tcp::kSyn | tcp::kAck;
        else if (dice < 3) spec.tcp->flags = tcp::kAck | (dice == 1 ? tcp::kRst : tcp::kFin);
        if (!is_open) spec.tcp->options = {3, 3, 2, 1};
        spec.tcp->seq = is_open ? from.end + about(4000) : 0u - static_cast<uint32_t>(rng() % 3000);
        spec.tcp->ack = (spec.tcp->flags & tcp::kAck) == 0 ? 0 : to.end + (is_open ? about(3000) : 0);
        spec.tcp->window = static_cast<uint16_t>(rng() % 10 == 0 ? 0 : 400 + rng() % 800);
        spec.payload = Frame(is_open && rng() % 2 == 0 ? rng() % 700 : 0, static_cast<uint8_t>('a'));
        frames.push_back(build(spec));
        const Frame& made = frames.back();
        const uint8_t* const header = made.data() + 34;
        const auto header_bytes = static_cast<uint32_t>(header[12] >> 4) * 4;
        bool from_originator = side == 0;
        const nf::flows::TcpSegment segment = nf::flows::read_segment(header, header_bytes,
                                                                      static_cast<uint32_t>(spec.payload.size()));
        connection.take(segment, from_originator, true, true);
        if (connection.state == nf::flows::Tcp::close && rng() % 8 == 0) connection = {};
    }
    return frames;
}

TEST_P(Conntracks, DecideAsTheCpuAtTheEdgesOfWindows) {
    for (const unsigned connections : {1u, 4u, 50u}) {
        const std::vector<Frame> frames = segments_at_edges(connections, 6000, connections);
        const auto [expected, chain] = compare_with_cpu(frames, 900, 8);
        size_t valid = 0, invalid = 0;
        for (const auto& outcome : expected.outcomes) {
            valid += outcome.visits[0].decision.outcome == kEstablished ? 1 : 0;
            invalid += outcome.visits[0].decision.outcome == kInvalid ? 1 : 0;
        }
        EXPECT_GT(valid, frames.size() / 3) << connections;
        EXPECT_GT(invalid, frames.size() / 50) << connections;
        const uint64_t scanned = statistic_of(chain, "decided-by-scan");
        if (name() == "sim" || mode() == device::Mode::persistent) EXPECT_EQ(scanned, 0u);
        else EXPECT_GT(scanned, frames.size() / 10) << connections;
    }
}

TEST_P(Conntracks, DecideAsTheCpuOnAnyPackets) {
    Rng rng(5);
    compare_with_cpu(random_packets(rng, 3000, {}), 700, 8);
}

/// Datagrams of few connections, in batches of which each has many packets of one.
TEST_P(Conntracks, DecideAheadOnWhatChangesNothing) {
    std::vector<Frame> frames;
    for (size_t i = 0; i < 8000; ++i) {
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = ipv4("10.0.0.1") + static_cast<uint32_t>(i % 3 == 0 ? 0 : i % 7);
        spec.udp.emplace();
        frames.push_back(build(spec));
    }
    const chain::Configuration chain = compare_with_cpu(frames, 200, 9).chain;
    const uint64_t ahead = statistic_of(chain, "decided-ahead");
    // Not those of the batches that were on their way before the first was through.
    if (name() == "sim" || mode() == device::Mode::persistent) EXPECT_EQ(ahead, 0u);
    else EXPECT_GT(ahead, frames.size() / 4);
}
INSTANTIATE_TEST_SUITE_P(Devices, Conntracks, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

/// ICMP errors cut anywhere, with anything inside: nothing beyond them is read.
TEST(Conntrack, ReadsNothingBehindWhatAnErrorCarries) {
    std::mt19937 rng(3);
    NfRunner runner("conntrack", "{max-flows: 8}");
    for (int round = 0; round < 3000; ++round) {
        PacketSpec spec;
        const bool ipv6 = rng() % 2 == 0;
        if (ipv6) spec.ipv6.emplace();
        else spec.ipv4.emplace();
        spec.icmp.emplace();
        spec.icmp->v6 = ipv6;
        spec.icmp->type = ipv6 ? 1 + rng() % 4 : 3;
        spec.payload = Frame(rng() % 70);
        for (uint8_t& byte : spec.payload) byte = static_cast<uint8_t>(rng());
        if (!spec.payload.empty()) spec.payload[0] = static_cast<uint8_t>((ipv6 ? 0x60 : 0x40) | rng() % 16);
        const NfResult result = runner.run({build(spec)}, {1});
        EXPECT_EQ(result.decisions[0].outcome, kInvalid);
        EXPECT_TRUE(result.mistakes.empty());
    }
}

TEST(Conntrack, RefusesOptionsThatMakeNoSense) {
    for (const char* options : {"{max-flows: 0}", "{zones: port}", "{timeouts: {tcp: 3s}}", "{timeouts: {udp: 0s}}",
                                "{timeout: 3s}", "{pick-up: perhaps}"})
        EXPECT_THROW(NfRunner("conntrack", options), ConfigError) << options;
}

}  // namespace
}  // namespace millrace::test
