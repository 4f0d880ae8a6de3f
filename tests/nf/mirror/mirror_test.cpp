#include <gtest/gtest.h>

#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

TEST(Mirror, DoesWhatItsGoldenPacketsSay) { run_golden("mirror"); }

TEST(Mirror, IsTheSameWithAnyNumberOfLanes) {
    Rng rng(1);
    check_halves_agree("mirror", "{}", random_packets(rng, 1100, {}));
}

TEST(Mirror, RefusesOptions) { EXPECT_THROW(NfRunner("mirror", "{speed: 3}"), ConfigError); }

}  // namespace
}  // namespace millrace::test
