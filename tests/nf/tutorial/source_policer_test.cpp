// The second NF of docs/nf-tutorial.md, loaded as a user's plugin is.
#include <gtest/gtest.h>

#include "millrace/nf/plugin.hpp"
#include "support/data.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

class SourcePolicer : public testing::Test {
protected:
    static void SetUpTestSuite() { nf::load_plugin(plugin_path("source-policer.so")); }
};

TEST_F(SourcePolicer, PassesItsGoldenPackets) {
    run_golden_file("source-policer", source_path("examples/nf-source-policer/golden.yaml"));
}

TEST_F(SourcePolicer, DecidesAlikeWithAnyNumberOfLanes) {
    Rng rng(7);
    check_halves_agree("source-policer", "{packets-per-second: 1000, burst: 3}", random_packets(rng, 1100));
}

TEST_F(SourcePolicer, RefusesARateOfNothing) {
    EXPECT_THROW(NfRunner("source-policer", "{packets-per-second: 0}"), ConfigError);
    EXPECT_THROW(NfRunner("source-policer", "{}"), ConfigError);
}

}  // namespace
}  // namespace millrace::test
