// What is done about network functions that do not come back, and when.
#include "millrace/cli/process/stuck_action.hpp"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

TEST(StuckAction, TellsOnceAndEndsInTheEnd) {
    for (const Patience& patience : {kPacketPatience, kVectorPatience, kMakingPatience, kLiveMakingPatience})
        for (unsigned seconds = 0; seconds <= 2 * kMakingPatience.end_after; ++seconds)
            EXPECT_EQ(action_for(seconds, false, patience), seconds >= patience.end_after    ? StuckAction::end
                                                            : seconds == patience.tell_after ? StuckAction::tell
                                                                                             : StuckAction::nothing)
                << seconds << " of " << patience.end_after;
}

TEST(StuckAction, EndsSoonerWhereAnEndWasAskedFor) {
    for (const Patience& patience : {kPacketPatience, kVectorPatience, kMakingPatience, kLiveMakingPatience})
        for (unsigned seconds = 0; seconds <= 60; ++seconds)
            EXPECT_EQ(action_for(seconds, true, patience) == StuckAction::end,
                      seconds >= patience.end_after_stop || seconds >= patience.end_after)
                << seconds;
}

TEST(StuckAction, HasMorePatienceWithWhatMayTakeLonger) {
    EXPECT_EQ(kPacketPatience.end_after, 10u);
    EXPECT_EQ(kVectorPatience.end_after, 30u);
    EXPECT_EQ(kMakingPatience.end_after, 300u);
    EXPECT_GT(kMakingPatience.tell_after, kVectorPatience.tell_after);
    EXPECT_GE(kMakingPatience.end_after_stop, 30u) << "a run with large tables would not end in order";
    EXPECT_EQ(action_for(1'000'000, false, kLiveMakingPatience), StuckAction::nothing) << "packets flow";
}

}  // namespace
}  // namespace millrace::cli
