// Sequence numbers and windows outlive a configuration: no key ever sees a number twice.
#include <gtest/gtest.h>

#include <set>

#include "millrace/nf/ipsec/sa/state.hpp"
#include "nf/ipsec/esp_oracle.hpp"

namespace millrace::test {
namespace {

nf::Environment after(NfRunner& before) {
    return {
        .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts, .previous = &before.nf()};
}
uint32_t esp_number_of(const Frame& frame) { return load_be32(frame.data() + 14 + 20 + 4); }

const std::string kOther =
    "{name: other, direction: out, spi: 0x3001, local: 192.0.2.1, remote: 198.51.100.9, cipher: aes-128-ctr, nonce: "
    "11111111, "
    "key: 99112233445566778899aabbccddeeff, auth-key: 990102030405060708090a0b0c0d0e0f10111213}";

/// near_end with another SA before its own, which moves that to another place.
std::string with_other(const std::string& options) {
    std::string text = options;
    return text.replace(text.find("sas: ["), 6, "sas: [" + kOther + ", ");
}

TEST(IpsecSequence, StartsAtOneAndRisesByOneInOrderOfArrival) {
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        NfRunner near("ipsec", near_end({}));
        uint32_t wanted = 0;
        for (const size_t batch : {1u, 31u, 33u, 257u}) {
            std::vector<Frame> frames(batch, clear_frame(30));
            const NfResult sent = near.run(frames, half);
            for (const Frame& frame : sent.frames) ASSERT_EQ(esp_number_of(frame), ++wanted) << half.text();
        }
    }
}

TEST(IpsecSequence, IsNotSpentOnPacketsThatDoNotLeave) {
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        NfRunner near("ipsec", near_end({.policy_extra = "mtu: 500"}));
        const NfResult sent = near.run({clear_frame(10), clear_frame(600), clear_frame(10)}, half);
        EXPECT_EQ(outcome_names(near, sent), (std::vector<std::string>{"protected", "mtu-exceeded", "protected"}));
        EXPECT_EQ(esp_number_of(sent.frames[2]), 2u) << half.text();
    }
}

TEST(IpsecSequence, IsNeverReusedWithTheSameKeyAcrossConfigurations) {
    NfRunner first("ipsec", near_end({}));
    std::set<Frame> ivs;
    const auto send = [&](NfRunner& runner, size_t count) {
        const NfResult sent = runner.run(std::vector<Frame>(count, clear_frame(8)), {8});
        for (const Frame& frame : sent.frames)
            EXPECT_TRUE(ivs.emplace(frame.begin() + 42, frame.begin() + 50).second)
                << "an IV was used twice with the same key";
    };
    send(first, 10);
    NfRunner moved("ipsec", Config::parse(with_other(near_end({}))), after(first));
    send(moved, 10);
    send(first, 3);  // batches of the generation before may still be on their way
    send(moved, 3);
    const std::string without = "sas: [" + kOther + "]\ndefault: bypass\n";
    NfRunner gone("ipsec", Config::parse(without), after(moved));
    NfRunner back("ipsec", Config::parse(near_end({})), after(gone));
    send(back, 10);
    std::string renamed = near_end({.extra = "ttl: 3"});
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"east", "est"},
                                   {"0x1001", "0x7777"},
                                   {"198.51.100.1", "198.51.100.7"},
                                   {"1f2e", "2f2e"}})
        for (size_t at = 0; (at = renamed.find(from, at)) != std::string::npos; at += to.size())
            renamed.replace(at, from.size(), to);
    NfRunner other_name("ipsec", Config::parse(renamed), after(back));
    send(other_name, 10);
    EXPECT_EQ(ivs.size(), 46u);
}

TEST(IpsecSequence, StartsAnewWithANewKey) {
    NfRunner first("ipsec", near_end({}));
    first.run(std::vector<Frame>(5, clear_frame(8)), {8});
    std::string rekeyed = near_end({});
    rekeyed.replace(rekeyed.find("7e24"), 4, "8e24");
    NfRunner second("ipsec", Config::parse(rekeyed), after(first));
    EXPECT_EQ(esp_number_of(second.run({clear_frame(8)}, {8}).frames[0]), 1u);
}

TEST(IpsecSequence, StopsBeforeItWrapsAround) {
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        NfRunner near("ipsec", near_end({}));
        near.type().tickets(near.nf().image().tables())[0] = 0xfffffffdu;
        const std::vector<Frame> frames(4, clear_frame(8));
        const NfResult sent = near.run(frames, half);
        EXPECT_EQ(outcome_names(near, sent),
                  (std::vector<std::string>{"protected", "protected", "sequence-exhausted", "sequence-exhausted"}))
            << half.text();
        EXPECT_EQ(esp_number_of(sent.frames[1]), 0xffffffffu);
        EXPECT_EQ(sent.frames[2], frames[2]);
        EXPECT_EQ(outcome_name(near, near.run({frames[0]}, half).decisions[0]), "sequence-exhausted");
    }
}

TEST(IpsecReplayState, IsTakenOverByWhatTheSaIsAndNotByWhereItStands) {
    const EspOracle oracle({});
    const Frame esp = oracle.seal(inner_of(clear_frame(8)), 50);
    NfRunner first("ipsec", far_end({}));
    EXPECT_EQ(outcome_name(first, first.run({esp}, {8}).decisions[0]), "unprotected");
    NfRunner moved("ipsec", Config::parse(with_other(far_end({.extra = "replay-window: 1024"}))), after(first));
    EXPECT_EQ(outcome_name(moved, moved.run({esp}, {8}).decisions[0]), "replayed");
    std::string rekeyed = far_end({});
    rekeyed.replace(rekeyed.find("0x1001"), 6, "0x1002");
    NfRunner other("ipsec", Config::parse(rekeyed), after(moved));
    EXPECT_EQ(
        outcome_name(
            other,
            other.run({oracle.seal(inner_of(clear_frame(8)), {.sequence = 50, .spi = 0x1002})}, {8}).decisions[0]),
        "unprotected");
}

TEST(IpsecState, SaysWhenThereAreNoSlotsLeft) {
    NfRunner first("ipsec", near_end({.policy_extra = "sa-slots: 1"}));
    try {
        NfRunner second("ipsec", Config::parse(with_other(near_end({}))), after(first));
        FAIL() << "two SAs in one slot";
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find("sa-slots"), std::string::npos) << error.what();
    }
}

/// Slots are few: rekeying must not use them up, and no SA may meet what another one has left.
TEST(IpsecState, GivesTheSlotsOfSasThatAreGoneToOthersWithoutATrace) {
    nf::ipsec::SaState state(2, std::chrono::nanoseconds(0));
    for (uint64_t round = 1; round < 200; ++round) {
        const std::string out = "out" + std::to_string(round), in = "in" + std::to_string(round);
        const auto outbound = state.slot_of(out, false), inbound = state.slot_of(in, true);
        ASSERT_TRUE(outbound && inbound);
        EXPECT_EQ(state.slot_of(out, false), outbound);
        EXPECT_FALSE(state.slot_of("third", true).has_value());
        EXPECT_EQ(state.given_out(*outbound), 0u);
        EXPECT_EQ(state.highest(*inbound), 0u);
        (*state.tickets)[*outbound] += 1000 * round;
        (*state.tickets)[*inbound] += 77;
        EXPECT_EQ(state.given_out(*outbound), 1000 * round);
        EXPECT_EQ(state.received(*inbound), 77u);
        uint64_t* const window = &(*state.windows)[*inbound * nf::ipsec::kWindowWords];
        const uint64_t before = state.record(*inbound).before;
        for (const uint64_t number : {1u, 2u, 900u, 899u, 5000u})
            EXPECT_TRUE(nf::ipsec::accept_sequence(window, 1024, number, before)) << round << " " << number;
        EXPECT_FALSE(nf::ipsec::accept_sequence(window, 1024, 0, before));
        EXPECT_FALSE(nf::ipsec::accept_sequence(window, 1024, 5000, before));
        EXPECT_FALSE(nf::ipsec::accept_sequence(window, 1024, 900, before));
        EXPECT_EQ(state.highest(*inbound), 5000u);
        state.retire(out);
        state.retire(in);
    }
}

TEST(IpsecState, LetsAnSaGoOnCountingThatComesBackInTime) {
    nf::ipsec::SaState state(1);
    const auto slot = state.slot_of("a", false);
    (*state.tickets)[*slot] = 9;
    state.retire("a");
    EXPECT_FALSE(state.slot_of("b", false).has_value()) << "batches may still name it";
    EXPECT_EQ(state.slot_of("a", false), slot);
    EXPECT_EQ(state.given_out(*slot), 9u);
}

}  // namespace
}  // namespace millrace::test
