// Extended sequence numbers (RFC 4303, section 2.2.1 and appendix A).
#include <gtest/gtest.h>

#include "nf/ipsec/esp_oracle.hpp"

namespace millrace::test {
namespace {

using nf::ipsec::high_half;
using nf::ipsec::noted_sequence;

constexpr uint64_t kWrap = 0x100000000ull;

TEST(ExtendedSequence, IsTheNearestOne) {
    Rng rng(9);
    for (const uint64_t base : {kWrap, 2 * kWrap, 7 * kWrap, 0xfffffffe * kWrap}) {
        for (int64_t off = -3000; off <= 3000; off += 1 + static_cast<int64_t>(rng() % 7)) {
            const uint64_t top = base + static_cast<uint64_t>(off);
            for (const uint64_t number :
                 {top, top + 1, top + 5000, top - 1, top - 1024, top - 5000, top + kWrap / 2 - 1, top - kWrap / 2,
                  top + rng() % (kWrap / 2), top - rng() % (kWrap / 2)}) {
                const auto low = static_cast<uint32_t>(number);
                ASSERT_EQ(static_cast<uint64_t>(high_half(low, top)) << 32 | low, number) << top;
            }
        }
    }
}

TEST(ExtendedSequence, StartsAtTheFirstOnes) {
    for (const uint64_t top : {0, 1, 62, 63, 64, 1000})
        for (const uint32_t low : {0u, 1u, 70000u, 0x7fffffffu, 0x80000000u, 0xffffffffu})
            EXPECT_EQ(high_half(low, top), 0u) << top << " " << low;
    EXPECT_EQ(high_half(5, kWrap - 1), 1u);
    EXPECT_EQ(high_half(0xffffffff, kWrap), 0u);
}

TEST(ExtendedSequence, IsNotedAndFoundAgainHoweverFarTheWindowHasMovedMeanwhile) {
    Rng rng(10);
    for (int i = 0; i < 20000; ++i) {
        const uint64_t number = rng() >> (1 + rng() % 40);
        const uint64_t noted = nf::ipsec::kVerified | (number >> 32 & 1023) << 52 | uint64_t{777} << 32 |
                               (number & 0xffffffff);
        const uint64_t moved = rng() % (500 * kWrap);
        ASSERT_EQ(noted_sequence(noted, number + moved), number);
        if (number > moved) {
            ASSERT_EQ(noted_sequence(noted, number - moved), number);
        }
    }
}

std::vector<Tunnel> extended_tunnels() {
    std::vector<Tunnel> tunnels;
    for (Tunnel& tunnel : all_tunnels())
        if (tunnel.esn) tunnels.push_back(tunnel);
    EXPECT_GT(tunnels.size(), 10u);
    return tunnels;
}

void set_sent(NfRunner& runner, uint64_t sent) { runner.type().tickets(runner.nf().image().tables())[0] = sent; }

TEST(ExtendedSequence, GoesOnBeyond32BitsWhenSending) {
    for (const Tunnel& tunnel : extended_tunnels()) {
        const EspOracle oracle(tunnel);
        std::vector<Frame> wanted;
        for (const Half& half : halves(*nf::find_type("ipsec"))) {
            SCOPED_TRACE(tunnel.text() + ", " + half.text());
            NfRunner near("ipsec", near_end(tunnel));
            set_sent(near, 3 * kWrap - 4);
            std::vector<Frame> frames;
            for (size_t i = 0; i < 8; ++i) frames.push_back(clear_frame(20 + i));
            const NfResult sent = near.run(frames, half);
            for (size_t i = 0; i < frames.size(); ++i) {
                const uint64_t number = 3 * kWrap - 3 + i;
                const auto opened = oracle.open(sent.frames[i], static_cast<uint32_t>(number >> 32));
                ASSERT_TRUE(opened.has_value()) << i;
                EXPECT_EQ(opened->sequence, static_cast<uint32_t>(number));
                EXPECT_EQ(opened->inner, inner_of(frames[i]));
                EXPECT_FALSE(oracle.open(sent.frames[i], static_cast<uint32_t>(number >> 32) ^ 1).has_value());
            }
            if (wanted.empty()) wanted = sent.frames;
            EXPECT_EQ(sent.frames, wanted);
        }
    }
}

TEST(ExtendedSequence, IsFollowedAcrossTheBoundaryWhenReceiving) {
    for (const Tunnel& tunnel : extended_tunnels()) {
        const EspOracle oracle(tunnel);
        const Frame inner = inner_of(clear_frame(30));
        std::vector<Frame> frames;
        std::vector<std::string> wanted;
        const auto add = [&](uint64_t number, const char* outcome) {
            frames.push_back(oracle.seal(inner, number));
            wanted.emplace_back(outcome);
        };
        add(kWrap - 40, "unprotected");
        add(kWrap + 3, "unprotected");
        add(kWrap - 2, "unprotected");  // late, from the subspace before
        add(kWrap - 2, "replayed");
        add(kWrap + 3, "replayed");
        add(kWrap - 61, "replayed");  // behind the window
        add(kWrap + 1, "unprotected");
        add(3, "bad-icv");  // as from before the boundary
        add(kWrap + kWrap / 2, "unprotected");
        add(kWrap + kWrap / 2 + kWrap / 2 + 7, "bad-icv");  // too far ahead
        add(2 * kWrap - 100, "unprotected");
        add(2 * kWrap, "unprotected");
        add(2 * kWrap - 63, "unprotected");
        add(2 * kWrap - 63, "replayed");
        add(2 * kWrap - 64, "replayed");
        for (const Half& half : halves(*nf::find_type("ipsec"))) {
            SCOPED_TRACE(tunnel.text() + ", " + half.text());
            NfRunner far("ipsec", far_end(tunnel));
            std::vector<std::string> seen;
            std::vector<Frame> refused;
            for (const Frame& frame : frames) {
                const NfResult received = far.run({frame}, half);
                seen.push_back(outcome_name(far, received.decisions[0]));
                if (seen.back() == "bad-icv") {
                    EXPECT_EQ(received.frames[0], frame) << "a packet that was refused has changed";
                }
            }
            EXPECT_EQ(seen, wanted);
        }
    }
}

TEST(ExtendedSequence, GoesThroughTwoGatewaysOverManyBatchesAcrossTheBoundary) {
    for (const char* cipher : {"aes-128-gcm", "aes-256-ctr"}) {
        for (const Half& half : halves(*nf::find_type("ipsec"))) {
            const Tunnel tunnel{.cipher = cipher, .esn = true};
            NfRunner near("ipsec", near_end(tunnel)), far("ipsec", far_end(tunnel));
            set_sent(near, kWrap - 600);
            const std::vector<Frame> frames(257, clear_frame(40));
            for (unsigned batch = 0; batch < 5; ++batch) {
                const NfResult received = far.run(near.run(frames, half).frames, half);
                ASSERT_EQ(outcome_names(far, received), std::vector<std::string>(frames.size(), "unprotected"))
                    << cipher << " " << half.text() << " " << batch;
                EXPECT_EQ(received.frames, frames);
            }
        }
    }
}

}  // namespace
}  // namespace millrace::test
