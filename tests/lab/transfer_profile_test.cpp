// Profiles of transfers: the fit by known answers, and every figure measured.
#include "lab/transfer/transfer_profile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "support/devices.hpp"

namespace millrace::lab {
namespace {

TEST(FitLine, FindsTheLineThatPointsLieOn) {
    std::mt19937 random(3);
    for (int i = 0; i < 1000; ++i) {
        const double start = static_cast<double>(random() % 10000),
                     slope = 0.001 + static_cast<double>(random() % 1000) / 100;
        std::vector<std::pair<double, double>> points;
        for (double x = 1 + static_cast<double>(random() % 10); points.size() < 6; x *= 4)
            points.emplace_back(x, start + slope * x);
        const Line line = fit_line(points);
        EXPECT_NEAR(line.start, start, 1e-6 * (start + slope));
        EXPECT_NEAR(line.slope, slope, 1e-6 * (start + slope));
    }
}

TEST(FitLine, IsRightInProportionAndNeverBelowNothing) {
    // An absolute fit would give all its attention to the last point.
    const Line line = fit_line({{0.001, 10}, {1, 11}, {1e6, 2e6}});
    EXPECT_NEAR(line.start, 10, 1);
    EXPECT_NEAR(line.slope, 2, 0.2);
    const Line through_origin = fit_line({{1, 1}, {2, 3}, {3, 5}});
    EXPECT_EQ(through_origin.start, 0);
    EXPECT_GT(through_origin.slope, 1);
    // A stall of the host while few were measured must not make many cheaper than few.
    const Line level = fit_line({{64, 6}, {512, 5}, {2048, 5}, {8192, 5}});
    EXPECT_EQ(level.slope, 0);
    EXPECT_NEAR(level.start, 5, 0.5);
    EXPECT_EQ(fit_line({}).slope, 0);
    EXPECT_EQ(fit_line({{5, 7}}).start, 7);
}

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
