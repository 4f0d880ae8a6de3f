// The linear model: lines and coefficients by known answers.
#include "millrace/schedule/model.hpp"

#include <gtest/gtest.h>

#include <random>

namespace millrace::schedule {
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

TEST(RSquared, IsOneOnTheLineAndNothingForTheMean) {
    EXPECT_DOUBLE_EQ(r_squared({{1, 3}, {2, 5}, {10, 21}}, {1, 2}), 1);
    EXPECT_EQ(r_squared({}, {}), 1);
    EXPECT_EQ(r_squared({{1, 5}, {2, 5}}, {5, 0}), 1);
    EXPECT_EQ(r_squared({{1, 5}, {2, 5}}, {6, 0}), 0);
    // By hand: weights 1, 1/4; their mean 6/5; off 1/4 · 1; all 1/25 + 1/4 · 16/25.
    EXPECT_NEAR(r_squared({{1, 1}, {2, 2}}, {1, 0}), 1 - 0.25 / 0.2, 1e-12);
}

TEST(Fit, FindsTheCoefficientsThatMadeThePoints) {
    std::mt19937 random(5);
    for (int i = 0; i < 1000; ++i) {
        const Line kernel{1000.0 + random() % 50'000, 1 + random() % 500 / 10.0};
        const Line transfer{500.0 + random() % 10'000, 0.5 + random() % 100 / 10.0};
        std::vector<ProfilePoint> points = {{0, 8, 5, 5}, {100, 0, 5, 5}};  // of nothing, on nothing: left out
        for (const uint32_t sms : {1u, 8u, 132u})
            for (uint32_t packets = sms; packets <= 256 * sms; packets *= 4)
                points.push_back({packets, sms, kernel.at(packets / sms), transfer.at(packets)});
        const Model model = fit(points);
        EXPECT_NEAR(model.kernel.start, kernel.start, 1e-6 * kernel.start);
        EXPECT_NEAR(model.kernel.slope, kernel.slope, 1e-6 * kernel.start);
        EXPECT_NEAR(model.transfer.start, transfer.start, 1e-6 * transfer.start);
        EXPECT_NEAR(model.transfer.slope, transfer.slope, 1e-6 * transfer.start);
        EXPECT_NEAR(model.kernel_r2, 1, 1e-9);
        EXPECT_NEAR(model.transfer_r2, 1, 1e-9);
        EXPECT_EQ(model.most_of_sm, 256u);
    }
}

TEST(Fit, SaysHowBadlyALineDescribesASteppedKernel) {
    std::vector<ProfilePoint> line, steps;
    for (uint32_t packets = 128; packets <= 8192; packets += 128) {
        line.push_back({packets, 1, 1000.0 + packets, 0});
        steps.push_back({packets, 1, 1000.0 + packets / 1024 * 4096, 0});
    }
    EXPECT_NEAR(fit(line).kernel_r2, 1, 1e-9);
    EXPECT_LT(fit(steps).kernel_r2, 0.95);
    EXPECT_EQ(fit({}).most_of_sm, 0u);
}

TEST(Model, CountsThePacketsOfTheFullestMultiprocessor) {
    const Model model{{100, 10}, {50, 1}, 1, 1, 0};
    EXPECT_EQ(model.kernel_ns(8, 8), 110);
    EXPECT_EQ(model.kernel_ns(9, 8), 120);
    EXPECT_EQ(model.batch_ns(9, 8), 120 + 59);
}

}  // namespace
}  // namespace millrace::schedule
