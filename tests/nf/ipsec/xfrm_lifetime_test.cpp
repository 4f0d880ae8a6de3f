// Lifetimes of the Linux kernel's SAs by bytes and packets: read from its messages, kept here, and told to it.
#include <gtest/gtest.h>

#include <optional>

#include "millrace/nf/ipsec/sa/lifetimes.hpp"
#include "nf/ipsec/esp_oracle.hpp"
#include "nf/ipsec/told_gateway.hpp"

namespace millrace::test {
namespace {

using nf::ipsec::Age;
using nf::ipsec::Lifetimes;
using nf::ipsec::SaState;

const Tunnel kTunnel{.cipher = "aes-128-gcm"};

/// The lifetimes of the SAs that a gateway was told of, and what they say of ends.
class Followed {
public:
    explicit Followed(const Told& told) {
        auto options = std::make_shared<const nf::ipsec::Options>(told.options());
        std::vector<uint32_t> slots;
        for (const nf::ipsec::SaOptions& sa : options->sas)
            slots.push_back(*state->slot_of(sa.identity(), sa.inbound, sa.kernel->bytes));
        lifetimes_.emplace(
            options, state, slots,
            [this](const nf::ipsec::SaOptions& sa, Age age) {
                ends.push_back(std::to_string(sa.sa.spi) + (age == Age::hard ? " hard" : " soft"));
            },
            warn);
    }
    /// What has been told of ends meanwhile.
    std::vector<std::string> look() {
        standing = lifetimes_->look(Lifetimes::Clock::now());
        return std::exchange(ends, {});
    }

    std::shared_ptr<SaState> state = std::make_shared<SaState>(4);
    std::vector<std::string> ends;
    nf::ipsec::Standing standing;
    Reporter warn;

private:
    std::optional<Lifetimes> lifetimes_;
};

TEST(XfrmLifetime, IsThatOfTheKernelByPacketsAndBytes) {
    Told told;
    told.tell(policy_message({}));
    told.tell(sa_message({.soft_bytes = 3000, .hard_bytes = 4000, .soft_packets = 30, .hard_packets = 40}, kTunnel));
    const nf::ipsec::SaOptions sa = told.options().sas.at(0);
    EXPECT_EQ(sa.soft.bytes, 3000u);
    EXPECT_EQ(sa.hard.bytes, 4000u);
    EXPECT_EQ(sa.soft.packets, 30u);
    EXPECT_EQ(sa.hard.packets, 40u);
    EXPECT_EQ(sa.hard.time, std::chrono::nanoseconds::max()) << "the kernel has clocks of its own";
    EXPECT_TRUE(sa.sa.counts_bytes);
    EXPECT_EQ(sa.kernel->added, 100u);
    Told endless;
    endless.tell(policy_message({}));
    endless.tell(sa_message({}, kTunnel));
    EXPECT_FALSE(endless.options().sas.at(0).hard.ends() || endless.options().sas.at(0).soft.ends());
}

TEST(XfrmLifetime, ChangesWithTheSaButNotWithWhatTheKernelCounts) {
    Told told;
    told.tell(policy_message({}));
    told.tell(sa_message({.soft_packets = 30}, kTunnel));
    const uint64_t before = told.database().version();
    told.tell(sa_message({.soft_packets = 30, .used_bytes = 77}, kTunnel));
    EXPECT_EQ(told.database().version(), before) << "its own counts come back to it";
    told.tell(sa_message({.soft_packets = 50}, kTunnel));
    EXPECT_EQ(told.database().version(), before + 1);
    EXPECT_EQ(told.options().sas.at(0).soft.packets, 50u);
}

TEST(XfrmLifetime, IsToldOnceWhenItEnds) {
    Told told;
    told.tell(policy_message({}));
    told.tell(sa_message({.soft_packets = 30, .hard_packets = 40}, kTunnel));
    Followed of(told);
    const auto sent = [&](uint64_t packets) { (*of.state->tickets)[0] = packets; };
    using Ends = std::vector<std::string>;
    sent(29);
    EXPECT_EQ(of.look(), Ends{});
    EXPECT_EQ(of.state->ages[0], Age::young);
    sent(30);
    EXPECT_EQ(of.look(), Ends{"4097 soft"});
    EXPECT_EQ(of.look(), Ends{});
    EXPECT_EQ(of.state->ages[0], Age::soft);
    EXPECT_TRUE(of.warn.take_warnings().empty()) << "the IKE daemon's business";
    EXPECT_EQ(of.standing.limits.at(0), 40u) << "no packet goes beyond it, whenever somebody looks";
    sent(40);
    EXPECT_EQ(of.look(), Ends{"4097 hard"});
    EXPECT_EQ(of.look(), Ends{});
    EXPECT_EQ(of.standing.limits.at(0), 0u);
    EXPECT_EQ(of.warn.take_warnings().size(), 1u);
    EXPECT_EQ(of.state->soft_ends, 1u);
    EXPECT_EQ(of.state->hard_ends, 1u);
}

TEST(XfrmLifetime, ByBytesGoesOnWhereAnEarlierRunStopped) {
    Told told;
    told.tell(policy_message({}));
    told.tell(sa_message({.soft_bytes = 3000, .used_bytes = 2900}, kTunnel));
    Followed of(told);
    EXPECT_EQ(of.state->used_bytes(0), 2900u);
    EXPECT_TRUE(of.look().empty());
    (*of.state->bytes)[0] += 100;
    EXPECT_EQ(of.look(), std::vector<std::string>{"4097 soft"});
}

TEST(XfrmLifetime, EndsWhatAGatewaySends) {
    for (const unsigned lanes : {0u, 1u, 8u, 32u}) {
        Told near;
        near.tell(policy_message({}));
        near.tell(sa_message({.hard_packets = 3}, kTunnel));
        near.apply();
        std::vector<Frame> frames(5, clear_frame(20));
        EXPECT_EQ(near.run(frames, lanes), (std::vector<std::string>{"protected", "protected", "protected",
                                                                     "sequence-unreserved", "sequence-unreserved"}))
            << lanes;
        EXPECT_EQ(frames[4], clear_frame(20));
    }
}

/// The first message in `bytes`, and its body.
template <class Body>
std::pair<nlmsghdr, Body> message_of(const std::vector<uint8_t>& bytes) {
    const auto head = netlink::read<nlmsghdr>(bytes);
    EXPECT_EQ(head->nlmsg_len, bytes.size());
    return {*head, *netlink::read<Body>(netlink::Bytes(bytes).subspan(sizeof(nlmsghdr)))};
}

TEST(XfrmLifetime, IsToldInTheKernelsWords) {
    for (const bool v6 : {false, true}) {
        const std::string dst = v6 ? "2001:db8::2" : "198.51.100.1";
        nf::ipsec::XfrmId id{.spi = 0x1001, .ipv6 = v6};
        const xfrm_address_t address = xfrm_address(dst);
        std::memcpy(id.dst.words, &address, v6 ? 16 : 4);
        for (const bool hard : {false, true}) {
            const auto [head, end] = message_of<xfrm_user_expire>(nf::ipsec::xfrm_end(id, hard, 7));
            EXPECT_EQ(head.nlmsg_type, XFRM_MSG_EXPIRE);
            EXPECT_EQ(head.nlmsg_flags, NLM_F_REQUEST);
            EXPECT_EQ(head.nlmsg_seq, 7u);
            EXPECT_EQ(end.hard, hard);
            EXPECT_EQ(std::memcmp(&end.state.id.daddr, &address, sizeof address), 0);
            EXPECT_EQ(end.state.id.spi, swap32(0x1001));
            EXPECT_EQ(end.state.id.proto, IPPROTO_ESP);
            EXPECT_EQ(end.state.family, family_of(dst));
        }
        const std::vector<uint8_t> bytes = nf::ipsec::xfrm_use(
            id, {.added = 11, .first_used = 12, .bytes = 13, .packets = 14}, 8);
        const auto [head, event] = message_of<xfrm_aevent_id>(bytes);
        EXPECT_EQ(head.nlmsg_type, XFRM_MSG_NEWAE);
        EXPECT_EQ(head.nlmsg_flags, NLM_F_REQUEST | NLM_F_REPLACE);
        EXPECT_EQ(std::memcmp(&event.sa_id.daddr, &address, sizeof address), 0);
        EXPECT_EQ(event.sa_id.spi, swap32(0x1001));
        EXPECT_EQ(event.sa_id.family, family_of(dst));
        EXPECT_EQ(event.sa_id.proto, IPPROTO_ESP);
        size_t attributes = 0;
        EXPECT_TRUE(netlink::for_each_attribute(netlink::Bytes(bytes).subspan(sizeof(nlmsghdr) + sizeof event),
                                                [&](unsigned type, netlink::Bytes value) {
                                                    EXPECT_EQ(type, static_cast<unsigned>(XFRMA_LTIME_VAL));
                                                    const auto count = netlink::read<xfrm_lifetime_cur>(value);
                                                    EXPECT_EQ(count->bytes, 13u);
                                                    EXPECT_EQ(count->packets, 14u);
                                                    EXPECT_EQ(count->add_time, 11u);
                                                    EXPECT_EQ(count->use_time, 12u);
                                                    return ++attributes == 1;
                                                }));
        EXPECT_EQ(attributes, 1u);
    }
}

}  // namespace
}  // namespace millrace::test
