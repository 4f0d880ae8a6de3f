// How devices are named on command lines and in configurations.
#include "millrace/base/device_names.hpp"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(DeviceNames, AreWrittenInOneWay) {
    const std::pair<const char*, const char*> texts[] = {{"cpu", "cpu"},
                                                         {"cuda:0", "cuda"},
                                                         {"cuda:1", "cuda:1"},
                                                         {"cuda:0+cuda:1", "cuda:0+cuda:1"},
                                                         {"cpu+sim", "sim+cpu"},
                                                         {"sim:2+cpu", "sim:2+cpu"},
                                                         {"cuda:1+cpu+cuda", "cuda:1+cuda:0+cpu"}};
    for (const auto& [given, written] : texts) EXPECT_EQ(text_of(parse_device_names(given)), written);
    const DeviceNames both = parse_device_names("sim+cpu");
    EXPECT_TRUE(both.cpu);
    ASSERT_EQ(both.devices.size(), 1u);
    EXPECT_EQ(both.devices[0].kind, "sim");
    EXPECT_TRUE(parse_device_names("cpu").devices.empty());
}

}  // namespace
}  // namespace millrace
