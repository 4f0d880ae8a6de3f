#include <gtest/gtest.h>

#include "millrace/device/cuda/driver.hpp"

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    millrace::device::cuda::Driver::expect_residents();
    return RUN_ALL_TESTS();
}
