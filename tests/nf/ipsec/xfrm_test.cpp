// SAs and policies of the Linux kernel: its messages, what is made of them, and the gateway that they are for.
#include <gtest/gtest.h>

#include "nf/ipsec/esp_oracle.hpp"
#include "nf/ipsec/told_gateway.hpp"

namespace millrace::test {
namespace {

using nf::ipsec::Action;

/// The outbound SA of gateway.hpp's near end, and its policy; or the inbound one of the far end.
SaSpec sa_of(const Tunnel& tunnel) {
    return tunnel.ipv6 ? SaSpec{.src = "2001:db8::1", .dst = "2001:db8::2"} : SaSpec{};
}
XfrmMessage policy_of(const Tunnel& tunnel, uint8_t direction) {
    return policy_message({.direction = direction, .tunnel_src = sa_of(tunnel).src, .tunnel_dst = sa_of(tunnel).dst});
}
void tell_near(Told& told, const Tunnel& tunnel) {
    told.tell(sa_message(sa_of(tunnel), tunnel));
    told.tell(policy_of(tunnel, XFRM_POLICY_OUT));
    told.apply();
}
void tell_far(Told& told, const Tunnel& tunnel) {
    told.tell(policy_of(tunnel, XFRM_POLICY_FWD));
    told.tell(policy_of(tunnel, XFRM_POLICY_IN));
    told.tell(sa_message(sa_of(tunnel), tunnel));
    told.apply();
}

TEST(Xfrm, GivesPacketsTheSasOfThePoliciesThatTheyMatch) {
    for (const Tunnel& tunnel : all_tunnels()) {
        if (tunnel.udp && tunnel.ipv6 && tunnel.is("cbc")) continue;  // see TellsOnceOfWhatItCannotDo
        SCOPED_TRACE(tunnel.text());
        for (const unsigned lanes : {0u, 1u, 8u, 32u}) {
            Told near, far;
            tell_near(near, tunnel);
            tell_far(far, tunnel);
            ASSERT_TRUE(near.warnings.empty()) << near.warnings[0];
            Frame frame = clear_frame(40);
            ASSERT_EQ(near.run_one(frame, lanes), "protected");
            const auto opened = EspOracle(tunnel).open(frame);
            ASSERT_TRUE(opened.has_value());
            EXPECT_EQ(opened->inner, inner_of(clear_frame(40)));
            ASSERT_EQ(far.run_one(frame, lanes), "unprotected");
            EXPECT_EQ(frame, clear_frame(40));
            EXPECT_EQ(far.run_one(frame, lanes), "discarded-by-policy") << "in clear what must come protected";
        }
        EXPECT_EQ(Told().malformed, 0u);
    }
}

TEST(Xfrm, GoesOverToTheNewestSaAndTakesInBoth) {
    const Tunnel tunnel{.cipher = "aes-128-gcm"};
    Told near, far;
    tell_near(near, tunnel);
    tell_far(far, tunnel);
    const SaSpec second{.spi = 0x2002, .added = 200};
    far.tell(sa_message(second, tunnel, 0x55));
    far.apply();
    Frame early = clear_frame(1);
    ASSERT_EQ(near.run_one(early), "protected");
    near.tell(sa_message(second, tunnel, 0x55));
    near.apply();
    for (int i = 0; i < 3; ++i) {
        Frame frame = clear_frame(20);
        ASSERT_EQ(near.run_one(frame), "protected");
        EXPECT_EQ(load_be32(frame.data() + 34), 0x2002u);
        EXPECT_EQ(load_be32(frame.data() + 38), static_cast<uint32_t>(i + 1));
        ASSERT_EQ(far.run_one(frame), "unprotected");
    }
    EXPECT_EQ(far.run_one(early), "unprotected") << "what was on its way in the old SA";
    near.tell(sa_gone({}));
    far.tell(sa_gone({}));
    near.apply();
    far.apply();
    Frame last = clear_frame(20);
    EXPECT_EQ(near.run_one(last), "protected");
    EXPECT_EQ(far.run_one(last), "unprotected");
}

TEST(Xfrm, DropsWhatAPolicyProtectsWhereNoSaServes) {
    Told near;
    near.tell(policy_message({}));
    near.apply();
    Frame frame = clear_frame(8);
    EXPECT_EQ(near.run_one(frame), "discarded-by-policy");
    near.tell(sa_message({.reqid = 9}, {}));
    near.tell(sa_message({.dst = "198.51.100.9", .spi = 0x1009}, {}, 1));
    near.apply();
    EXPECT_EQ(near.run_one(frame), "discarded-by-policy") << "SAs of another policy, to another end";
    near.tell(policy_message({.priority = 10, .tunnel_dst = ""}));
    near.apply();
    EXPECT_EQ(near.run_one(frame), "bypass") << "a change of the same policy";
    near.tell(policy_message({.prefix = 15, .priority = 5, .action = XFRM_POLICY_BLOCK}));
    near.apply();
    EXPECT_EQ(near.run_one(frame), "discarded-by-policy");
    near.tell(policy_gone({.prefix = 15}));
    near.tell(policy_gone({}));
    near.apply();
    EXPECT_EQ(near.run_one(frame), "bypass");
}

TEST(Xfrm, TakesTransportModeBetweenTwoHosts) {
    const Tunnel mode{.cipher = "aes-256-gcm", .transport = true};
    const PolicySpec policy{.src = "192.0.2.1", .dst = "198.51.100.1", .prefix = 32, .mode = XFRM_MODE_TRANSPORT};
    PolicySpec bare = policy, in = policy;
    bare.tunnel_src = bare.tunnel_dst = "0.0.0.0";
    in.direction = XFRM_POLICY_IN;
    for (const PolicySpec& spec : {policy, bare}) {
        Told near, far;
        near.tell(sa_message({.mode = XFRM_MODE_TRANSPORT}, mode));
        near.tell(policy_message(spec));
        near.apply();
        far.tell(sa_message({.mode = XFRM_MODE_TRANSPORT}, mode));
        far.tell(policy_message(in));
        far.apply();
        Frame frame = transport_frame(30);
        ASSERT_EQ(near.run_one(frame), "protected");
        ASSERT_EQ(far.run_one(frame), "unprotected");
        EXPECT_EQ(frame, transport_frame(30));
    }
}

TEST(Xfrm, TellsOnceOfWhatItCannotDo) {
    const auto said = [](const XfrmMessage& message) {
        Told told;
        told.tell(message);
        told.tell(message);
        told.tell(policy_message({}));
        EXPECT_EQ(told.options().sas.size(), 0u);
        EXPECT_EQ(told.malformed, 0u);
        return told.warnings.size() == 1 ? told.warnings[0] : std::to_string(told.warnings.size()) + " warnings";
    };
    XfrmMessage weak(XFRM_MSG_NEWSA, sa_info({}));
    weak.add_algorithm(XFRMA_ALG_CRYPT, "cbc(des3_ede)", Frame(24, 1));
    EXPECT_NE(said(weak).find("cbc(des3_ede)"), std::string::npos);
    XfrmMessage medium(XFRM_MSG_NEWSA, sa_info({}));
    medium.add_algorithm(XFRMA_ALG_CRYPT, "cbc(aes)", Frame(24, 1));
    EXPECT_NE(said(medium).find("192 bits"), std::string::npos);
    XfrmMessage hash(XFRM_MSG_NEWSA, sa_info({}));
    hash.add_algorithm(XFRMA_ALG_CRYPT, "cbc(aes)", Frame(16, 1));
    hash.add_algorithm(XFRMA_ALG_AUTH_TRUNC, "hmac(sha512)", Frame(64, 1), 256);
    EXPECT_NE(said(hash).find("hmac(sha512) with 256 bits"), std::string::npos);
    EXPECT_NE(said(sa_message({.mode = 4}, {})).find("neither tunnel nor transport"), std::string::npos);
    EXPECT_NE(said(sa_message({.spi = 99}, {})).find("below 256"), std::string::npos);
    const Tunnel longest{.cipher = "aes-256-cbc", .ipv6 = true, .udp = true};
    EXPECT_NE(said(sa_message(sa_of(longest), longest)).find("AES-CBC in UDP over IPv6"), std::string::npos);
    XfrmMessage marked = sa_message({}, {});
    marked.add(XFRMA_IF_ID, uint32_t{7});
    EXPECT_NE(said(marked).find("XFRM interface"), std::string::npos);
    // An SPI that an IKE daemon has set aside is nothing to tell of.
    EXPECT_EQ(said(XfrmMessage(XFRM_MSG_NEWSA, sa_info({}))), "0 warnings");
}

TEST(Xfrm, LeavesOutSasWhoseKeysAreThoseOfOthers) {
    Told near;
    tell_near(near, {.cipher = "aes-128-gcm"});
    near.tell(policy_message({.src = "10.3.0.0", .tunnel_dst = "198.51.100.7", .reqid = 2}));
    near.tell(sa_message({.dst = "198.51.100.7", .reqid = 2}, {.cipher = "aes-128-gcm"}));
    EXPECT_EQ(near.options().sas.size(), 1u);
    EXPECT_EQ(near.warnings.size(), 1u);
}

TEST(Xfrm, ForgetsWhatIsNotToldAgain) {
    Told told;
    tell_near(told, {});
    told.tell(sa_message({.spi = 0x3003}, {}, 3));
    told.tell(policy_message({.src = "10.9.0.0"}));
    const uint64_t before = told.database().version();
    told.database().begin_resync();
    told.tell(sa_message({}, {}));
    told.tell(policy_message({}));
    told.database().end_resync();
    EXPECT_EQ(told.database().sas(), 1u);
    EXPECT_EQ(told.database().policies(), 1u);
    EXPECT_EQ(told.database().version(), before + 2);
    told.tell({XFRM_MSG_FLUSHPOLICY, uint32_t{0}});
    EXPECT_EQ(told.database().policies(), 0u);
    told.tell({XFRM_MSG_FLUSHSA, uint32_t{IPPROTO_AH}});
    EXPECT_EQ(told.database().sas(), 1u);
    told.tell({XFRM_MSG_FLUSHSA, uint32_t{IPPROTO_ESP}});
    EXPECT_EQ(told.database().sas(), 0u);
}

TEST(Xfrm, EndsSasAndPoliciesWithTheirLifetimes) {
    Told told;
    tell_near(told, {});
    xfrm_user_expire end{};
    end.state = sa_info({});
    told.tell({XFRM_MSG_EXPIRE, end});
    EXPECT_EQ(told.database().sas(), 1u) << "a soft end is for the IKE daemon";
    end.hard = 1;
    told.tell({XFRM_MSG_EXPIRE, end});
    EXPECT_EQ(told.database().sas(), 0u);
    xfrm_user_polexpire policy_end{};
    policy_end.pol.sel = selector_of({});
    policy_end.pol.dir = XFRM_POLICY_OUT;
    policy_end.hard = 1;
    told.tell({XFRM_MSG_POLEXPIRE, policy_end});
    EXPECT_EQ(told.database().policies(), 0u);
}

TEST(Xfrm, TakesAMillionMessagesOfSasThatComeAndGo) {
    Told told;
    told.tell(policy_message({}));
    std::vector<std::vector<uint8_t>> messages;
    for (uint32_t i = 0; i < 1000; ++i) {
        messages.push_back(
            sa_message({.spi = 0x10000 + i, .added = i}, {.cipher = "aes-128-gcm"}, static_cast<uint8_t>(i)).bytes());
        messages.push_back(sa_gone({.spi = 0x10000 + i - (i % 2 == 0 ? 0 : 1)}).bytes());
    }
    for (int round = 0; round < 500; ++round)
        for (const auto& message : messages) nf::ipsec::parse_xfrm(message, told);
    EXPECT_EQ(told.malformed, 0u);
    EXPECT_EQ(told.database().sas(), 500u);
    EXPECT_LE(told.options().sas.size(), 256u) << "more keys than there are";
}

TEST(Xfrm, SurvivesMessagesThatAreCutOrChangedAnywhere) {
    std::vector<std::vector<uint8_t>> messages;
    for (const Tunnel& tunnel : all_tunnels()) messages.push_back(sa_message({}, tunnel).bytes());
    for (const XfrmMessage& message : {policy_message({}), policy_gone({}), sa_gone({})})
        messages.push_back(message.bytes());
    Rng rng(3);
    size_t malformed = 0;
    for (const std::vector<uint8_t>& message : messages) {
        Told told;
        for (size_t cut = 0; cut < message.size(); ++cut) nf::ipsec::parse_xfrm({message.data(), cut}, told);
        for (size_t i = 0; i < 3000; ++i) {
            std::vector<uint8_t> changed = message;
            for (uint64_t hits = 1 + rng() % 3; hits > 0; --hits)
                changed[16 + rng() % (changed.size() - 16)] = static_cast<uint8_t>(rng());
            nf::ipsec::parse_xfrm(changed, told);
        }
        nf::ipsec::Options options = told.options();
        for (const nf::ipsec::SaOptions& sa : options.sas) EXPECT_GE(sa.sa.spi, 256u);
        malformed += told.malformed;
    }
    EXPECT_GT(malformed, 1000u);
}

TEST(XfrmOptions, WantAFileOfSequenceNumbers) {
    try {
        NfRunner runner("ipsec", "kernel: true");
        FAIL();
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find("sequence-file"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace millrace::test
