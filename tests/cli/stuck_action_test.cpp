// What is done about network functions that do not come back, and when.
#include "millrace/cli/process/stuck_action.hpp"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

TEST(StuckAction, TellsOnceAndEndsInTheEnd) {
    for (const unsigned end_after : {kPacketEndsAfter, kRunEndsAfter})
        for (unsigned seconds = 0; seconds <= 2 * kRunEndsAfter; ++seconds)
            EXPECT_EQ(action_for(seconds, false, end_after), seconds >= end_after ? StuckAction::end
                                                             : seconds == 5       ? StuckAction::tell
                                                                                  : StuckAction::nothing)
                << seconds << " of " << end_after;
    EXPECT_LT(kPacketEndsAfter, kRunEndsAfter);
    EXPECT_EQ(kRunEndsAfter, 30u);
}

TEST(StuckAction, EndsSoonerWhereAnEndWasAskedFor) {
    for (unsigned seconds = 0; seconds <= kRunEndsAfter; ++seconds)
        EXPECT_EQ(action_for(seconds, true, kRunEndsAfter), seconds >= 3 ? StuckAction::end : StuckAction::nothing)
            << seconds;
}

}  // namespace
}  // namespace millrace::cli
