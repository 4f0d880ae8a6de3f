// The function with CPU stages of docs/tenants.md, loaded as a user's plugin is.
#include <gtest/gtest.h>

#include "millrace/chain/configuration.hpp"
#include "millrace/nf/cpu_stages.hpp"
#include "millrace/nf/plugin.hpp"
#include "support/data.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

class CustomerMarks : public testing::Test {
protected:
    static void SetUpTestSuite() { nf::load_plugin(plugin_path("customer-marks.so")); }
};

TEST_F(CustomerMarks, PassesItsGoldenPackets) {
    run_golden_file("customer-marks", source_path("examples/nf-customer-marks/golden.yaml"));
}

TEST_F(CustomerMarks, HasBothStages) {
    NfRunner runner("customer-marks", "{customers: {10.0.1.0/24: 1}}");
    EXPECT_EQ(nf::cpu_stages_of(runner.nf()), (nf::CpuStages{true, true}));
    NfRunner mirror("mirror", "{}");
    EXPECT_EQ(nf::cpu_stages_of(mirror.nf()), nf::CpuStages());
}

TEST_F(CustomerMarks, RefusesWhatIsNoPrefixOrMark) {
    EXPECT_THROW(NfRunner("customer-marks", "{}"), ConfigError);
    EXPECT_THROW(NfRunner("customer-marks", "{customers: {10.0.0.0/8: 1}}"), ConfigError);
    EXPECT_THROW(NfRunner("customer-marks", "{customers: {10.0.1.0/24: 64}}"), ConfigError);
}

/// What its stages find out would be missing there: nobody runs them but a tenant's process.
TEST_F(CustomerMarks, IsRefusedInAChainThatNamesItItself) {
    for (const char* device : {"cpu", "sim"}) {
        chain::LoadOptions options;
        options.device = device;
        std::string why;
        try {
            chain::parse_configuration(
                "version: 1\nports: {in: {null: {}}, out: {null: {}}}\nchains:\n  own:\n    input: in\n"
                "    output: out\n    nfs:\n      - customer-marks: {customers: {10.0.1.0/24: 1}}\n",
                "(test)", options);
        } catch (const ConfigError& e) {
            for (const Diagnostic& one : e.diagnostics())
                why += std::to_string(one.where.line) + ": " + one.message + "\n";
        }
        EXPECT_EQ(why,
                  "8: 'customer-marks' has CPU stages around its device half, which run in the process of a "
                  "tenant\n");
    }
}

}  // namespace
}  // namespace millrace::test
