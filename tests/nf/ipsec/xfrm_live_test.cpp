// The SAs and policies of this machine's kernel.
#include <gtest/gtest.h>

#include <sched.h>

#include <cstdlib>
#include <thread>

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

}  // namespace
}  // namespace millrace::test
