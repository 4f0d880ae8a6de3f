// The anti-replay window against a plain reference, and in the gateway.
#include <gtest/gtest.h>

#include <set>

#include "nf/ipsec/esp_oracle.hpp"
#include "support/packet_arena.hpp"

namespace millrace::test {
namespace {

using nf::ipsec::accept_sequence;
using nf::ipsec::kWindowWords;

/// What RFC 4303, section 3.4.3 says, in the plainest way.
struct Reference {
    uint64_t top = 0;
    std::set<uint64_t> seen;
    bool accept(uint32_t window, uint64_t sequence) {
        if (sequence == 0 || seen.contains(sequence) || sequence + window <= top) return false;
        seen.insert(sequence);
        top = std::max(top, sequence);
        return true;
    }
};

TEST(ReplayWindow, IsExactAtItsEdges) {
    for (const uint32_t window : {1u, 2u, 63u, 64u, 65u, 128u, 1000u, 1024u}) {
        uint64_t state[kWindowWords] = {};
        EXPECT_FALSE(accept_sequence(state, window, 0));
        EXPECT_TRUE(accept_sequence(state, window, 1));
        EXPECT_FALSE(accept_sequence(state, window, 1));
        EXPECT_TRUE(accept_sequence(state, window, 5000));
        EXPECT_FALSE(accept_sequence(state, window, 5000));
        EXPECT_FALSE(accept_sequence(state, window, 5000 - window)) << window;
        if (window > 1) {
            EXPECT_TRUE(accept_sequence(state, window, 5000 - window + 1)) << window;
            EXPECT_FALSE(accept_sequence(state, window, 5000 - window + 1)) << window;
        }
        EXPECT_TRUE(accept_sequence(state, window, 0xffffffffu));
        EXPECT_FALSE(accept_sequence(state, window, 5001));
    }
}

TEST(ReplayWindow, AgreesWithAPlainReferenceOnRandomSequences) {
    Rng rng(5);
    for (const uint32_t window : {1u, 7u, 64u, 100u, 513u, 1024u}) {
        uint64_t state[kWindowWords] = {};
        Reference reference;
        uint64_t around = 1;
        for (int i = 0; i < 20000; ++i) {
            if (rng() % 50 == 0) around += rng() % (rng() % 20 == 0 ? 100000 : 70);
            const uint64_t back = rng() % (2 * window + 3), sequence = around > back ? around - back : 0;
            ASSERT_EQ(accept_sequence(state, window, sequence), reference.accept(window, sequence))
                << window << ": " << sequence;
            around += rng() % 3;
        }
    }
}

TEST(IpsecReplay, IsRefusedWithinABatchAndAcrossBatchesInEveryHalf) {
    const EspOracle oracle({});
    const auto sealed = [&](uint32_t sequence) { return oracle.seal(inner_of(clear_frame(20)), sequence); };
    Frame forged = sealed(500);
    forged.back() ^= 1;
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        SCOPED_TRACE(half.text());
        NfRunner far("ipsec", far_end({}));
        EXPECT_EQ(outcome_names(far, far.run({sealed(1), sealed(3), sealed(1), sealed(2), sealed(2), sealed(0)}, half)),
                  (std::vector<std::string>{"unprotected", "unprotected", "replayed", "unprotected", "replayed",
                                            "replayed"}));
        // A forged packet must not move the window.
        EXPECT_EQ(outcome_names(far, far.run({forged, sealed(4), sealed(3)}, half)),
                  (std::vector<std::string>{"bad-icv", "unprotected", "replayed"}));
        EXPECT_EQ(outcome_names(far, far.run({sealed(100), sealed(36), sealed(37), sealed(37), sealed(5)}, half)),
                  (std::vector<std::string>{"unprotected", "replayed", "unprotected", "replayed", "replayed"}));
    }
}

TEST(IpsecReplay, CountsEveryAuthenticPacketWhateverWasInside) {
    const EspOracle oracle({});
    const Frame inner = inner_of(clear_frame(20)),
                foreign = inner_of(build_packet("{ipv4: {src: 172.16.0.1, dst: 10.2.0.6}, udp: {}}"));
    const std::vector<Frame> batch = {
        oracle.seal(inner, {.sequence = 200, .next_header = 59}),
        oracle.seal(inner, {.sequence = 201, .padding = Frame{9, 9}}),
        oracle.seal(inner, {.sequence = 202, .next_header = 6}),
        oracle.seal(inner, {.sequence = 203, .next_header = 41}),
        oracle.seal(inner, {.sequence = 204, .traffic_class = 3}),
        oracle.seal(foreign, 205),
    };
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        SCOPED_TRACE(half.text());
        NfRunner far("ipsec", far_end({.extra = "allow: [{src: 10.1.0.0/16}]"}));
        EXPECT_EQ(outcome_names(far, far.run(batch, half)),
                  (std::vector<std::string>{"dummy", "bad-padding", "bad-next-header", "malformed-inner", "bad-ecn",
                                            "selector-mismatch"}));
        EXPECT_EQ(outcome_names(far, far.run(batch, half)), std::vector<std::string>(6, "replayed"));
        EXPECT_EQ(outcome_names(far, far.run({oracle.seal(inner, 141), oracle.seal(inner, 142)}, half)),
                  (std::vector<std::string>{"replayed", "unprotected"}));
    }
}

TEST(IpsecReplay, KeepsTheOrderKeyOfAPacketThatIsOutOfItsTunnel) {
    // A device may ask again before `commit`, when the packet shows no SPI any more.
    const EspOracle oracle({});
    NfRunner far("ipsec", far_end({.policy_extra = "policies: [{action: discard}]"}));
    const void* tables = far.nf().image().tables();
    PacketArena arena;
    Packet& packet = arena.add(oracle.seal(inner_of(clear_frame(20)), 7));
    const uint32_t key = far.type().order_key(packet, tables);
    packet.set_ticket(0);
    const Decision decision = far.type().process_with(8)(packet, tables);
    EXPECT_EQ(outcome_name(far, decision), "unprotected");
    EXPECT_EQ(far.type().order_key(packet, tables), key);
    EXPECT_EQ(far.type().commit(packet, tables, decision), decision);
    EXPECT_EQ(far.type().order_key(packet, tables), kNoOrderKey) << "a later gateway in the chain would be misled";
}

TEST(IpsecReplay, IsNotLookedForWhenSwitchedOff) {
    const Frame esp = EspOracle({}).seal(inner_of(clear_frame(20)), 7);
    NfRunner far("ipsec", far_end({.extra = "replay-window: 0"}));
    EXPECT_EQ(outcome_names(far, far.run({esp, esp}, {8})), std::vector<std::string>(2, "unprotected"));
}

}  // namespace
}  // namespace millrace::test
