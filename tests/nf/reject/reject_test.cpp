#include <gtest/gtest.h>

#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

TEST(Reject, DoesWhatItsGoldenPacketsSay) { run_golden("reject"); }

TEST(Reject, IsTheSameWithAnyNumberOfLanes) {
    Rng rng(1);
    for (const char* options : {"{with: time-exceeded, from: [192.0.2.1, '2001:db8::1']}",
                                "{with: too-big, mtu: 1300, from: [192.0.2.1, '2001:db8::1']}"})
        check_halves_agree("reject", options, random_packets(rng, 1100, {}));
}

TEST(Reject, RefusesWhatItCannotTell) {
    const auto refuses = [](const std::string& options, const std::string& why) {
        try {
            NfRunner runner("reject", options);
        } catch (const ConfigError& error) {
            return std::string(error.what()).find(why) != std::string::npos;
        }
        return false;
    };
    EXPECT_TRUE(refuses("{with: no-route}", "from"));
    EXPECT_TRUE(refuses("{from: 192.0.2.1}", "with"));
    EXPECT_TRUE(refuses("{with: anger, from: 192.0.2.1}", "anger"));
    EXPECT_TRUE(refuses("{with: no-route, from: []}", "an address is missing"));
    EXPECT_TRUE(refuses("{with: no-route, from: 192.0.2.0/24}", "not a single address"));
    EXPECT_TRUE(refuses("{with: no-route, from: [192.0.2.1, 192.0.2.2]}", "second address"));
    EXPECT_TRUE(refuses("{with: no-route, from: 192.0.2.1, mtu: 1400}", "only 'too-big' tells an MTU"));
    EXPECT_TRUE(refuses("{with: too-big, from: 192.0.2.1}", "mtu"));
    EXPECT_TRUE(refuses("{with: too-big, from: 192.0.2.1, mtu: 67}", "68"));
    EXPECT_TRUE(refuses("{with: too-big, from: '2001:db8::1', mtu: 1279}", "1280"));
    EXPECT_FALSE(refuses("{with: too-big, from: 192.0.2.1, mtu: 68}", ""));
}

}  // namespace
}  // namespace millrace::test
