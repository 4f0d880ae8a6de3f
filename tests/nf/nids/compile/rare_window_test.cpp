// From which byte on a content is searched for.
#include "millrace/nf/nids/compile/rare_window.hpp"

#include <gtest/gtest.h>

namespace millrace::nf::nids {
namespace {

using namespace std::literals;

TEST(RareWindows, BeginWhereFewRulesHaveTheSame) {
    RareWindows windows;
    for (int i = 0; i < 1000; ++i) windows.learn("http://www.");
    EXPECT_EQ(windows.from_the_rarest("http://qzkxw.example"), "/qzkxw.example");
    EXPECT_EQ(windows.from_the_rarest("qzkxw.http://www.example"), "qzkxw.http://www.example") << "all of it";
}

TEST(RareWindows, BeginWithBytesThatTrafficSeldomHas) {
    const RareWindows windows;
    EXPECT_EQ(windows.from_the_rarest("\0\0\0\0\x9c\xe1\x88\xfa\x01\x02"s), "\x9c\xe1\x88\xfa\x01\x02"s);
    EXPECT_EQ(windows.from_the_rarest("the rest {%}|~"), " {%}|~") << "six are left";
}

TEST(RareWindows, LeaveShortContentsWhole) {
    const RareWindows windows;
    for (const std::string& content : {""s, "a"s, "\0\0\0"s, "\0\0\0\0"s, "e e {"s, "\0\0{}\0"s})
        EXPECT_EQ(windows.from_the_rarest(content), content);
}

TEST(RareWindows, DoNotBeginWithARun) {
    EXPECT_EQ(RareWindows::without_a_run("aaaaaaab"), "aaab");
    EXPECT_EQ(RareWindows::without_a_run("aaaab"), "aaab");
    for (const std::string& whole : {""s, "a"s, "aaab"s, "aaaa"s, "aaaaaaaaaaaa"s, "baaaaaa"s})
        EXPECT_EQ(RareWindows::without_a_run(whole), whole);
}

}  // namespace
}  // namespace millrace::nf::nids
