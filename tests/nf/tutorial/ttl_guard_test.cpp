// The NF of docs/nf-tutorial.md, loaded as a user's plugin is.
#include <gtest/gtest.h>

#include "millrace/nf/plugin.hpp"
#include "support/data.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

class TtlGuard : public testing::Test {
protected:
    static void SetUpTestSuite() { nf::load_plugin(plugin_path("ttl-guard.so")); }
};

TEST_F(TtlGuard, PassesItsGoldenPackets) {
    run_golden_file("ttl-guard", source_path("examples/nf-ttl-guard/golden.yaml"));
}

TEST_F(TtlGuard, DecidesAlikeWithAnyNumberOfLanes) {
    Rng rng(7);
    check_halves_agree("ttl-guard", "{least: 100, least-ipv6: 30}", random_packets(rng, 1100));
}

TEST_F(TtlGuard, RefusesALimitThatNoTtlHas) {
    EXPECT_THROW(NfRunner("ttl-guard", "{least: 256}"), ConfigError);
    EXPECT_THROW(NfRunner("ttl-guard", "{}"), ConfigError);
    EXPECT_THROW(NfRunner("ttl-guard", "{least: 5, leest: 6}"), ConfigError);
}

TEST_F(TtlGuard, BringsItsDeviceSourceAlong) {
    const std::string_view* source = nf::find_device_source("ttl_guard/device.hpp",
                                                            nf::find_type("ttl-guard")->sources);
    ASSERT_NE(source, nullptr);
    EXPECT_NE(source->find("struct TtlGuard"), std::string_view::npos);
}

}  // namespace
}  // namespace millrace::test
