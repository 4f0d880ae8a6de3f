// A firewall behind connection tracking, against a reference that knows neither: a map of conversations, and a walk
// through the rules.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <map>
#include <random>

#include "support/devices.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {
namespace {

enum State : unsigned { kUntracked, kNew, kEstablished, kRelated, kInvalid, kStates };
constexpr const char* kNames[kStates] = {"untracked", "new", "established", "related", "invalid"};
constexpr uint32_t kNet = 0x0a000000;

/// A rule as somebody would write it, and as it is checked here.
struct WantedRule {
    bool permits = false;
    uint8_t protocol = 0;  // 0: any
    uint32_t src = 0, src_bits = 0, dst = 0, dst_bits = 0;
    uint32_t from_port = 0, to_port = 65535;
    unsigned states = (1u << kStates) - 1;

    std::string text() const {
        const auto prefix = [](uint32_t address, uint32_t bits) {
            return fmt::format("{}.{}.{}.{}/{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255,
                               bits);
        };
        const char* const name = protocol == 6 ? "tcp" : protocol == 17 ? "udp" : protocol == 1 ? "icmp" : "ip";
        std::string all = fmt::format("{} {} from {} to {}", permits ? "permit" : "deny", name, prefix(src, src_bits),
                                      prefix(dst, dst_bits));
        if (from_port != 0 || to_port != 65535) all += fmt::format(" port {}-{}", from_port, to_port);
        std::string some;
        for (unsigned i = 0; i < kStates; ++i)
            if ((states >> i & 1) != 0) some += (some.empty() ? " state " : ",") + std::string(kNames[i]);
        return all + (states + 1 == 1u << kStates ? "" : some);
    }
};

struct Sent {
    Frame frame;
    State state;
    uint8_t protocol;
    uint32_t src, dst;
    std::optional<uint16_t> port;  // of the destination
    bool matches(const WantedRule& rule) const {
        const auto in = [](uint32_t address, uint32_t prefix, uint32_t bits) {
            return bits == 0 || (address ^ prefix) >> (32 - bits) == 0;
        };
        const bool all_ports = rule.from_port == 0 && rule.to_port == 65535;
        return (rule.states >> state & 1) != 0 && (rule.protocol == 0 || rule.protocol == protocol) &&
               in(src, rule.src, rule.src_bits) && in(dst, rule.dst, rule.dst_bits) &&
               (all_ports || (port && *port >= rule.from_port && *port <= rule.to_port));
    }
};

std::vector<WantedRule> draw_rules(size_t count, std::mt19937& rng) {
    std::vector<WantedRule> rules(count);
    for (WantedRule& rule : rules) {
        rule.permits = rng() % 2 == 0;
        constexpr uint8_t kProtocols[] = {0, 6, 17, 1};
        rule.protocol = kProtocols[rng() % 4];
        const auto prefix = [&](uint32_t& address, uint32_t& bits) {
            bits = rng() % 3 == 0 ? 0 : 24 + rng() % 9;
            address = bits == 0 ? 0 : (kNet | rng() % 64) >> (32 - bits) << (32 - bits);
        };
        prefix(rule.src, rule.src_bits);
        prefix(rule.dst, rule.dst_bits);
        if ((rule.protocol == 6 || rule.protocol == 17) && rng() % 3 == 0) {
            rule.from_port = rng() % 16;
            rule.to_port = rule.from_port + rng() % 8;
        }
        // One rule alone decides little unless it is a wide one.
        if (count == 1) rule = {.permits = true, .states = 1u << kEstablished | 1u << kRelated};
        else if (rng() % 3 != 0) rule.states = 1 + rng() % ((1u << kStates) - 1);
    }
    return rules;
}

/// Conversations by UDP, TCP and ping, each of them asked and answered now and then; errors about them, answers that
/// nobody has asked for, and what names no conversation.
class Traffic {
public:
    explicit Traffic(unsigned seed) : rng_(seed) {}
    std::vector<Sent> draw(size_t count) {
        std::vector<Sent> all;
        for (size_t i = 0; i < count; ++i) all.push_back(next());
        return all;
    }

private:
    struct Key {
        uint8_t protocol;
        uint32_t client, server;
        uint16_t client_port, server_port;
        auto operator<=>(const Key&) const = default;
    };
    Key draw_key() {
        constexpr uint8_t kProtocols[] = {6, 17, 1};
        // Clients and servers are others, so that nobody's answer is somebody's question.
        const uint8_t protocol = kProtocols[rng_() % 3];
        const auto client = static_cast<uint32_t>(kNet | rng_() % 8 * 4);
        const auto server = static_cast<uint32_t>(kNet | (32 + rng_() % 8 * 4));
        return {protocol, client, server, static_cast<uint16_t>(1000 + rng_() % 2),
                static_cast<uint16_t>(rng_() % 4 * 5)};
    }
    Sent packet(const Key& key, bool answer, State state) {
        Sent sent{{}, state, key.protocol, answer ? key.server : key.client, answer ? key.client : key.server, {}};
        const uint16_t src = answer ? key.server_port : key.client_port,
                       dst = answer ? key.client_port : key.server_port;
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = sent.src;
        spec.ipv4->dst = sent.dst;
        if (key.protocol == 1) {
            spec.icmp.emplace();
            spec.icmp->type = answer ? 0 : 8;
            spec.icmp->rest = (key.client_port * 100u + key.server_port) % 0x10000 << 16;
        } else if (key.protocol == 17) {
            spec.udp.emplace();
            spec.udp->src = src;
            spec.udp->dst = dst;
        } else {
            spec.tcp.emplace();
            spec.tcp->src = src;
            spec.tcp->dst = dst;
            spec.tcp->flags = state == kNew ? tcp::kSyn : answer ? tcp::kSyn | tcp::kAck : tcp::kAck;
        }
        if (key.protocol != 1) sent.port = dst;
        sent.frame = build(spec);
        return sent;
    }
    /// From some router: that a packet of the client's did not arrive.
    Sent error(const Key& key) {
        const Sent about = packet(key, false, kNew);
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = kNet | rng_() % 64;
        spec.ipv4->dst = key.client;
        spec.icmp.emplace();
        spec.icmp->type = 3;
        spec.payload = Frame(about.frame.begin() + 14, about.frame.begin() + 14 + 28);
        return {build(spec), known_.contains(key) ? kRelated : kInvalid, 1, spec.ipv4->src, spec.ipv4->dst, {}};
    }
    /// A fragment behind the first one.
    Sent fragment() {
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = kNet | rng_() % 64;
        spec.ipv4->dst = kNet | rng_() % 64;
        spec.ipv4->protocol = 17;
        spec.ipv4->offset = 9;
        spec.payload = Frame(8);
        return {build(spec), kUntracked, 17, spec.ipv4->src, spec.ipv4->dst, {}};
    }
    Sent next() {
        const unsigned dice = rng_() % 20;
        if (dice == 0) return fragment();
        const Key key = draw_key();
        if (dice <= 2) return error(key);
        const auto found = known_.find(key);
        if (found == known_.end()) {
            // An answer to nothing: TCP and ICMP know that it is none; a datagram would begin a conversation.
            if (dice <= 5 && key.protocol != 17) return packet(key, true, kInvalid);
            known_[key] = false;
            return packet(key, false, kNew);
        }
        const bool answers = rng_() % 2 == 0;
        found->second |= answers;
        return packet(key, answers, found->second ? kEstablished : kNew);
    }

    std::mt19937 rng_;
    std::map<Key, bool> known_;  // whether it was answered
};

struct Given {
    std::vector<Frame> frames;
    std::vector<Decision> expected;
    std::string rules;
};

Given make_given(size_t rules, size_t packets, unsigned seed) {
    std::mt19937 rng(seed);
    const std::vector<WantedRule> wanted = draw_rules(rules, rng);
    Given given;
    for (const WantedRule& rule : wanted) given.rules += (given.rules.empty() ? "'" : ", '") + rule.text() + "'";
    std::array<size_t, kStates> seen{};
    for (Sent& sent : Traffic(seed).draw(packets)) {
        ++seen[sent.state];
        const auto first = std::ranges::find_if(wanted, [&](const WantedRule& rule) { return sent.matches(rule); });
        const bool permits = first != wanted.end() && first->permits;
        given.expected.push_back(
            {first == wanted.end() ? kNoDetail : static_cast<uint32_t>(first - wanted.begin()), permits ? 0u : 1u});
        given.frames.push_back(std::move(sent.frame));
    }
    for (const size_t count : seen) EXPECT_GT(count, packets / 200);
    return given;
}

chain::Configuration border(const Given& given, const std::string& device, const std::string& engine) {
    return make_configuration(
        "[{conntrack: {max-flows: 16k, check-windows: false}, on: {invalid: next}}, {firewall: "
        "{engine: " +
            engine + ", rules: [" + given.rules + "]}}]",
        device);
}

void expect_decisions(const Given& given, const EngineRun& run) {
    ASSERT_EQ(run.outcomes.size(), given.frames.size());
    for (size_t i = 0; i < given.frames.size(); ++i) {
        ASSERT_EQ(run.outcomes[i].visits.size(), 2u) << "packet " << i;
        const Decision& got = run.outcomes[i].visits[1].decision;
        ASSERT_EQ(got, given.expected[i])
            << "packet " << i << ": rule " << got.detail << ", expected " << given.expected[i].detail;
    }
}

TEST(StatefulFirewall, DecidesByOneRuleAndByManyOnTheCpu) {
    for (const size_t rules : {1u, 40u, 1200u}) {
        const Given given = make_given(rules, 4000, 1);
        expect_decisions(given, run_on_cpu(border(given, "cpu", "auto"), given.frames, 256));
        for (const char* engine : {"linear", "tuple", "bloom", "bit-vectors", "merged"})
            expect_decisions(given, run_on_cpu(border(given, "cpu", engine), given.frames, 256, false));
    }
}

class StatefulFirewalls : public DeviceInMode {};

TEST_P(StatefulFirewalls, DecideByOneRuleAndByMany) {
    for (const size_t rules : {1u, 1200u}) {
        const Given given = make_given(rules, 3000, 2);
        exec::OffloadOptions options;
        options.mode = mode();
        expect_decisions(given, run_on_device(device(3), border(given, name(), "auto"), given.frames, 700, options));
    }
}
INSTANTIATE_TEST_SUITE_P(Devices, StatefulFirewalls, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);

}  // namespace
}  // namespace millrace::test
