#include "millrace/base/concurrently.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace millrace {
namespace {

class Concurrently : public testing::TestWithParam<size_t> {};

TEST_P(Concurrently, EachIsDoneOnce) {
    std::vector<std::atomic<unsigned>> done(GetParam());
    for_each_concurrently(done.size(), [&](size_t i) { ++done[i]; });
    for (size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i], 1u) << i;
}

TEST_P(Concurrently, WhatOneThrowsIsThrownWhenAllHaveEnded) {
    if (GetParam() == 0) return;
    for (const size_t bad : {size_t{0}, GetParam() / 2, GetParam() - 1}) {
        std::atomic<unsigned> begun{0}, ended{0};
        const auto work = [&](size_t i) {
            ++begun;
            if (i == bad) {
                ++ended;
                throw std::runtime_error("number " + std::to_string(i));
            }
            ++ended;
        };
        try {
            for_each_concurrently(GetParam(), work);
            FAIL() << "nothing was thrown";
        } catch (const std::runtime_error& e) {
            EXPECT_EQ(e.what(), "number " + std::to_string(bad));
        }
        EXPECT_EQ(begun, ended);
        EXPECT_GE(begun, bad + 1) << "those in front of it are called";
    }
}

INSTANTIATE_TEST_SUITE_P(Counts, Concurrently, testing::Values(0, 1, 2, 3, 31, 1000));

}  // namespace
}  // namespace millrace
