// Profiles of transfers: every figure is measured.
#include "lab/transfer/transfer_profile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/devices.hpp"

namespace millrace::lab {
namespace {

class Profiles : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};

TEST_P(Profiles, MeasureEveryWayOfTransfer) {
    const auto device = test::open_device(GetParam());
    double last = 0;
    size_t told = 0;
    ProfileOptions options;
    options.seconds = GetParam() == "sim" ? 0.0005 : 0.01;
    options.progress = [&](double share, const std::string& what) {
        EXPECT_GE(share, last);
        EXPECT_LE(share, 1);
        EXPECT_FALSE(what.empty());
        last = share;
        ++told;
    };
    const TransferProfile profile = measure_transfers(device, options);
    EXPECT_GT(last, 0.9) << "the bar ends near its end";
    EXPECT_GT(told, 40u);
    EXPECT_EQ(profile.figures.device, device->model());
    const exec::TransferFigures& f = profile.figures;
    for (const exec::Pace* pace : {&f.copy_in, &f.copy_out, &f.rows, &f.gather, &f.zero_copy, &f.heads_out, &f.pack}) {
        EXPECT_GE(pace->start_ns, 0);
        EXPECT_GE(pace->item_ns, 0);
        EXPECT_GT(pace->byte_ns, 0);
        EXPECT_LT(pace->ns(8192, 8192.0 * 1518), 1e12);
    }
    // Heads that a kernel writes take next to nothing each, which may be less than what measurements differ by.
    for (const exec::Pace* pace : {&f.rows, &f.gather, &f.zero_copy, &f.pack}) EXPECT_GT(pace->item_ns, 0);
    EXPECT_GE(f.copy_both, 1);
    EXPECT_GE(f.gather_both, 1);
    EXPECT_GT(f.call_ns, 0);
    EXPECT_GT(f.launch_ns, 0);
    std::set<std::string> ways;
    for (const TransferSample& sample : profile.samples) {
        ways.insert(sample.way);
        EXPECT_TRUE(std::isfinite(sample.measured_ns) && sample.measured_ns > 0) << sample.way;
        EXPECT_TRUE(std::isfinite(sample.fitted_ns) && sample.fitted_ns > 0) << sample.way;
    }
    EXPECT_EQ(ways, (std::set<std::string>{"copy-in", "copy-out", "rows", "gather", "zero-copy", "heads-out", "pack"}));
}

INSTANTIATE_TEST_SUITE_P(All, Profiles, testing::ValuesIn(test::offload_devices()), test::device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Profiles);

}  // namespace
}  // namespace millrace::lab
