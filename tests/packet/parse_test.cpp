#include "millrace/packet/parse.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

TEST(Parse, RefusesAFrameShorterThanAnEthernetHeader) {
    for (uint32_t length = 0; length < 14; ++length) {
        std::vector<uint8_t> frame(length);
        EXPECT_EQ(parse(frame.data(), length, length).malformed, Malformed::truncated_ethernet);
    }
}

}  // namespace
}  // namespace millrace
