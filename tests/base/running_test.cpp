// Finding threads that do not come back from a network function.
#include "millrace/base/running.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <thread>

namespace millrace {
namespace {

TEST(StuckFinder, CountsTheLooksDuringWhichAThreadStaysInOneCall) {
    const std::string function = "looper", chain = "edge";
    std::latch entered(1), may_end(1);
    std::thread thread([&] {
        const Running running(function, chain);
        entered.count_down();
        may_end.wait();
    });
    entered.wait();
    StuckFinder finder;
    EXPECT_TRUE(finder.update().empty()) << "it may have begun just now";
    for (unsigned looks = 1; looks <= 1000; ++looks) {
        const std::vector<Stuck> stuck = finder.update();
        ASSERT_EQ(stuck.size(), 1u);
        EXPECT_EQ(stuck[0].function, "looper");
        EXPECT_EQ(stuck[0].chain, "edge");
        ASSERT_EQ(stuck[0].looks, looks);
    }
    may_end.count_down();
    thread.join();
    EXPECT_TRUE(finder.update().empty());
}

TEST(StuckFinder, IsContentWithThreadsThatComeBack) {
    const std::string function = "router", chain = "edge";
    StuckFinder finder;
    for (int i = 0; i < 1000; ++i) {
        const Running running(function, chain);
        EXPECT_TRUE(finder.update().empty());
    }
}

TEST(StuckFinder, KnowsWhatAFunctionRunsForWhereSomebodyAroundItSaysSo) {
    const std::string function = "router", chain = "edge", name = "case 7";
    StuckFinder finder;
    const auto chain_of_stuck = [&] {
        finder.update();
        const std::vector<Stuck> stuck = finder.update();
        return stuck.size() == 1 ? stuck[0].chain : "there are " + std::to_string(stuck.size());
    };
    {
        const RunningFor around(name);
        EXPECT_EQ(chain_of_stuck(), "there are 0") << "it is in none yet";
        {
            const Running running(function);
            EXPECT_EQ(chain_of_stuck(), name);
            const Running inner(function, chain);
            EXPECT_EQ(chain_of_stuck(), chain);
        }
        const Running again(function);
        EXPECT_EQ(chain_of_stuck(), name);
    }
    const Running running(function);
    EXPECT_EQ(chain_of_stuck(), "") << "nobody says";
}

TEST(StuckFinder, SeesTheInnerFunctionThenTheOuterOne) {
    const std::string outer = "outer", inner = "inner", chain = "c";
    const Running first(outer, chain, Call::making);
    StuckFinder finder;
    finder.update();
    {
        const Running second(inner, chain);
        finder.update();
        ASSERT_EQ(finder.update().size(), 1u);
        EXPECT_EQ(finder.update()[0].function, "inner");
        EXPECT_EQ(finder.update()[0].call, Call::packets);
    }
    finder.update();
    ASSERT_EQ(finder.update().size(), 1u);
    EXPECT_EQ(finder.update()[0].function, "outer");
    EXPECT_EQ(finder.update()[0].call, Call::making);
}

}  // namespace
}  // namespace millrace
