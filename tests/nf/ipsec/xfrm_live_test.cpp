// The SAs and policies of this machine's kernel.
#include <gtest/gtest.h>

#include <linux/xfrm.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>

#include "millrace/nf/ipsec/kernel/watch.hpp"
#include "nf/ipsec/gateway.hpp"

namespace millrace::test {
namespace {

using namespace std::chrono_literals;
using nf::ipsec::Action;

/// What the kernel of this machine says, in a namespace of its own.
class XfrmLive : public testing::Test {
protected:
    void SetUp() override {
        if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "a network namespace of its own needs root";
        if (!ip("policy list")) GTEST_SKIP() << "needs iproute2 and a kernel with XFRM";
    }
    static bool ip(const std::string& arguments) {
        return std::system(("ip xfrm " + arguments + " > /dev/null 2>&1").c_str()) == 0;
    }
    static bool comes(auto&& holds) {
        for (int i = 0; i < 500 && !holds(); ++i) std::this_thread::sleep_for(10ms);
        return holds();
    }
};

TEST_F(XfrmLive, FollowsPoliciesAsTheyComeAndGo) {
    ASSERT_TRUE(
        ip("policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 198.51.100.1 proto esp "
           "reqid 1 mode tunnel"));
    nf::ipsec::XfrmWatch watch(4500, Config::parse("{}"), {});
    EXPECT_EQ(watch.counts().policies, 1u);
    ASSERT_TRUE(ip("policy add src 10.3.0.0/16 dst 10.2.0.0/16 proto udp dport 53 dir fwd priority 7"));
    EXPECT_TRUE(comes([&] { return watch.counts().policies == 2; }));
    nf::ipsec::Options options;
    watch.add_to(options);
    ASSERT_EQ(options.policies.size(), 2u);
    EXPECT_EQ(options.policies[0].action, Action::discard) << "no SA is there";
    EXPECT_EQ(options.policies[1].action, Action::bypass);
    EXPECT_EQ(options.policies[1].selectors[0].dst_port_first, 53);
    ASSERT_TRUE(ip("policy delete src 10.1.0.0/16 dst 10.2.0.0/16 dir out"));
    EXPECT_TRUE(comes([&] { return watch.counts().policies == 1; }));
    ASSERT_TRUE(ip("policy flush"));
    EXPECT_TRUE(comes([&] { return watch.counts().policies == 0; }));
    EXPECT_EQ(watch.counts().malformed, 0u);
}

TEST_F(XfrmLive, FollowsSasAsTheyComeAndGo) {
    const std::string sa = "src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x1001 ",
                      keys = "reqid 1 mode tunnel replay-window 64 flag esn enc 'cbc(aes)' 0x" +
                             std::string(kKeyText, 32) + " auth-trunc 'hmac(sha256)' 0x" + kAuthKeyText + " 128";
    if (!ip("state add " + sa + keys)) GTEST_SKIP() << "needs a kernel with ESP (esp4)";
    nf::ipsec::XfrmWatch watch(4500, Config::parse("{}"), {});
    EXPECT_EQ(watch.counts().sas, 1u);
    ASSERT_TRUE(
        ip("policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 198.51.100.1 proto esp "
           "reqid 1 mode tunnel"));
    ASSERT_TRUE(comes([&] { return watch.counts().policies == 1; }));
    nf::ipsec::Options options;
    watch.add_to(options);
    ASSERT_EQ(options.sas.size(), 1u);
    EXPECT_TRUE(options.sas[0].sa.extended);
    EXPECT_EQ(options.sas[0].sa.auth, nf::ipsec::Auth::hmac_sha256_128);
    ASSERT_TRUE(ip("state delete " + sa));
    EXPECT_TRUE(comes([&] { return watch.counts().sas == 0; }));
}

/// What the kernel tells about ends of SAs; opened before they end.
class EndsByKernel {
public:
    EndsByKernel() : socket_(netlink::open_socket(NETLINK_XFRM, {XFRMNLGRP_EXPIRE})) {}
    /// Of the next: 0 soft, 1 hard; -1: none has come.
    int next() {
        int hard = -1;
        netlink::Bytes message;
        if (netlink::receive(socket_.get(), buffer_, message) != netlink::Received::message) return -1;
        netlink::for_each_message(message, [&](const nlmsghdr& head, netlink::Bytes body) {
            if (head.nlmsg_type == XFRM_MSG_EXPIRE) hard = netlink::read<xfrm_user_expire>(body)->hard;
        });
        return hard;
    }

private:
    Descriptor socket_;
    std::vector<uint8_t> buffer_ = std::vector<uint8_t>(size_t{1} << 16);
};

TEST_F(XfrmLive, HasTheKernelTakeOverCountsAndTellOfEnds) {
    const std::string sa = "src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x1001 ",
                      keys = "reqid 1 mode tunnel aead 'rfc4106(gcm(aes))' 0x" + std::string(kKeyText, 40) +
                             " 128 limit byte-soft 5000 limit packet-hard 900";
    if (!ip("state add " + sa + keys)) GTEST_SKIP() << "needs a kernel with ESP (esp4)";
    EndsByKernel ends;
    nf::ipsec::XfrmWatch watch(4500, Config::parse("{}"), {});
    std::atomic<int> changes{0};
    watch.on_change([&] { ++changes; });
    ASSERT_TRUE(
        ip("policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 198.51.100.1 proto esp "
           "reqid 1 mode tunnel"));
    EXPECT_TRUE(comes([&] { return changes > 0; }));
    ASSERT_EQ(watch.counts().policies, 1u);
    nf::ipsec::Options options;
    watch.add_to(options);
    ASSERT_EQ(options.sas.size(), 1u);
    EXPECT_EQ(options.sas[0].soft.bytes, 5000u);
    EXPECT_EQ(options.sas[0].hard.packets, 900u);
    const uint64_t added = options.sas[0].kernel->added;
    EXPECT_NE(added, 0u);
    const nf::ipsec::XfrmId id{.dst = options.sas[0].sa.remote, .spi = 0x1001};
    watch.tell_use(id, {.added = added, .first_used = added + 1, .bytes = 1234, .packets = 56});
    EXPECT_TRUE(comes([&] {
        return std::system("ip -s xfrm state | tr -d '\\n' | grep -q '1234(bytes), 56(packets).*use 2'") == 0;
    }));
    nf::ipsec::XfrmWatch later(4500, Config::parse("{}"), {});
    nf::ipsec::Options again;
    later.add_to(again);
    EXPECT_EQ(again.sas.at(0).kernel->bytes, 1234u);
    EXPECT_EQ(again.sas.at(0).kernel->added, added);
    watch.tell_end(id, false);
    int hard = -1;
    const auto has_ended = [&] { return hard >= 0 || (hard = ends.next()) >= 0; };
    ASSERT_TRUE(comes(has_ended));
    EXPECT_EQ(std::exchange(hard, -1), 0);
    EXPECT_EQ(watch.counts().sas, 1u);
    watch.tell_end(id, true);
    ASSERT_TRUE(comes(has_ended));
    EXPECT_EQ(hard, 1);
    EXPECT_TRUE(comes([&] { return watch.counts().sas == 0 && later.counts().sas == 0; }));
    EXPECT_NE(std::system("ip xfrm state | grep -q esp"), 0) << "the kernel has deleted it";
    watch.tell_end(id, true);  // it is gone: nothing to tell of
}

}  // namespace
}  // namespace millrace::test
