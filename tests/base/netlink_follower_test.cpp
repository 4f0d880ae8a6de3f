// What follows the kernel, on its links: they can be asked for without any right.
#include "millrace/base/netlink_follower.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <utility>

namespace millrace::netlink {
namespace {

using namespace std::chrono_literals;

std::vector<uint8_t> ask_for(uint16_t type, uint16_t flags = NLM_F_DUMP) {
    return request(type, flags, 0, ifinfomsg{}, {});
}

/// Counts what it is told.
struct Links final : Copy {
    void take(Bytes message, Source source) override {
        EXPECT_EQ(source, Source::answers);
        for_each_message(message, [&](const nlmsghdr& head, Bytes body) {
            if (head.nlmsg_type == RTM_NEWLINK) ++links, ++version_;
            if (head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR)
                follower.on_answered(head.nlmsg_seq, answered(head.nlmsg_type, body).value_or(EPROTO));
        });
    }
    uint64_t version() const override { return version_; }
    std::vector<Request> requests() const override {
        if (refused_by != 0) return {{ask_for(RTM_GETLINK)}, {ask_for(RTM_MAX + 1), refused_by}};
        return {{ask_for(asked_type)}, {ask_for(asked_type)}};
    }
    void begin_resync() override { links = 0, ++begun; }
    void end_resync() override { ++ended; }
    void on_hidden_change() override { wants_resync = true; }
    bool take_resync_wanted() override { return std::exchange(wants_resync, false); }
    void on_refused(int error) override { refused = error; }
    Clock::time_point work(Clock::time_point now) override {
        ++works;
        return now + 20ms;
    }

    /// Until `what` holds, for 5 s.
    template <class F>
    bool wait_for(F&& what) {
        for (const auto until = Clock::now() + 5s; Clock::now() < until; std::this_thread::sleep_for(1ms)) {
            const auto lock = follower.lock();
            if (what()) return true;
        }
        return false;
    }
    /// As what the copy holds changes without a message.
    void want_resync() {
        const auto lock = follower.lock();
        wants_resync = true;
    }

    std::atomic<uint16_t> asked_type{RTM_GETLINK};
    int refused_by = 0;  ///< the second request, by the kernel
    std::atomic<int> refused{0}, works{0};
    uint64_t version_ = 1;
    size_t links = 0;
    int begun = 0, ended = 0;
    bool wants_resync = false;
    Reporter reporter;
    Follower follower{{.protocol = NETLINK_ROUTE, .what = "links", .thread = "links"}, *this, {}, reporter};
};

TEST(NetlinkFollower, HasEverythingWhenItHasStarted) {
    // Somebody may change links of this machine at this moment: then there are news.
    constexpr int kTries = 5;
    for (int left = kTries; left > 0; --left) {
        Links copy;
        EXPECT_EQ(copy.follower.version(), 0U);
        copy.follower.start();
        const auto lock = copy.follower.lock();
        EXPECT_GT(copy.links, 0U);
        EXPECT_TRUE(copy.follower.has_news(copy.version_ - 1));
        if (copy.follower.has_news(copy.version_) && left > 1) continue;
        EXPECT_FALSE(copy.follower.has_news(copy.version_));
        EXPECT_EQ(copy.links % 2, 0U) << "each of two requests has the same answer";
        EXPECT_EQ(copy.follower.version(), copy.version_);
        EXPECT_EQ(copy.follower.counts().resyncs, 0U);
        break;
    }
}

TEST(NetlinkFollower, ThatIsNotStartedEnds) { Links copy; }

TEST(NetlinkFollower, SaysWhatTheKernelRefuses) {
    Links copy;
    copy.asked_type = RTM_MAX + 1;
    try {
        copy.follower.start();
        FAIL() << "there is no such request";
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "the kernel's links can't be followed: an answer: Operation not supported");
    }
}

TEST(NetlinkFollower, TakesARefusalThatIsExpected) {
    Links copy;
    copy.refused_by = EOPNOTSUPP;
    EXPECT_NO_THROW(copy.follower.start());
    const auto lock = copy.follower.lock();
    EXPECT_GT(copy.links, 0U) << "what was asked before";
}

TEST(NetlinkFollower, AsksForEverythingAgainOnceForAllThatWasLost) {
    Links copy;
    copy.follower.start();
    const auto begin = Copy::Clock::now();
    for (int i = 0; i < 10; ++i) copy.want_resync();
    ASSERT_TRUE(copy.wait_for([&] { return copy.ended == 1; }));
    EXPECT_GE(Copy::Clock::now() - begin, 100ms) << "more may follow";
    {
        const auto lock = copy.follower.lock();
        EXPECT_GT(copy.links, 0U);
        EXPECT_EQ(copy.begun, 1);
        EXPECT_EQ(copy.follower.counts().resyncs, 1U);
    }
    const auto first = Copy::Clock::now();
    copy.want_resync();
    ASSERT_TRUE(copy.wait_for([&] { return copy.ended == 2; }));
    EXPECT_GE(Copy::Clock::now() - first, 900ms) << "a pause lies between";
}

TEST(NetlinkFollower, WarnsOfAResyncThatFailsAndWaitsBeforeTheNext) {
    Links copy;
    copy.follower.start();
    copy.asked_type = RTM_MAX + 1;
    copy.want_resync();
    std::vector<Diagnostic> warnings;
    ASSERT_TRUE(copy.wait_for([&] { return !(warnings = copy.reporter.take_warnings()).empty(); }));
    EXPECT_EQ(warnings[0].message, "the kernel's links can't be followed: an answer: Operation not supported");
    EXPECT_EQ(warnings[0].hint, "links stay as they were; it is tried again");
    std::this_thread::sleep_for(1500ms);
    const auto lock = copy.follower.lock();
    EXPECT_EQ(copy.begun, 1);
    EXPECT_EQ(copy.ended, 0);
    EXPECT_TRUE(copy.reporter.take_warnings().empty());
}

TEST(NetlinkFollower, HandsOnWhatTheKernelRefusesOfWhatWasPosted) {
    Links copy;
    copy.follower.start();
    copy.follower.post(ask_for(RTM_GETLINK, 0));  // of no link
    EXPECT_TRUE(copy.wait_for([&] { return copy.refused == EINVAL; })) << copy.refused;
    copy.follower.post(ask_for(RTM_MAX + 1, 0));
    EXPECT_TRUE(copy.wait_for([&] { return copy.refused == EOPNOTSUPP; })) << copy.refused;
}

TEST(NetlinkFollower, TellsOfAChangeOnceUntilSomebodyTakesIt) {
    Links copy;
    copy.follower.start();
    std::atomic<int> told{0};
    copy.follower.on_change([&] { ++told; });
    ASSERT_TRUE(copy.wait_for([&] { return told == 1; })) << "what came before it listened";
    copy.want_resync();  // makes a new version
    ASSERT_TRUE(copy.wait_for([&] { return copy.ended == 1; }));
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(told, 1) << "nobody has taken anything yet";
    {
        const auto lock = copy.follower.lock();
        copy.follower.on_taken();
    }
    EXPECT_TRUE(copy.wait_for([&] { return told == 2; }));
    copy.follower.on_change({});
    copy.want_resync();
    ASSERT_TRUE(copy.wait_for([&] { return copy.ended == 2; }));
    EXPECT_EQ(told, 2);
}

TEST(NetlinkFollower, WorksAsOftenAsTheCopyWants) {
    Links copy;
    copy.follower.start();
    EXPECT_TRUE(copy.wait_for([&] { return copy.works >= 10; }));
}

TEST(NetlinkFollower, WarnsOfTheFirstMalformedMessageOnly) {
    Links copy;
    copy.follower.on_malformed();
    copy.follower.on_malformed();
    EXPECT_EQ(copy.follower.counts().malformed, 2U);
    EXPECT_EQ(copy.reporter.take_warnings().size(), 1U);
}

}  // namespace
}  // namespace millrace::netlink
