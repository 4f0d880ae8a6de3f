// SAs and policies of the Linux kernel: its messages, what is made of them, and the gateway that they are for.
#include <gtest/gtest.h>

#include <unistd.h>

#include "millrace/nftest/nf_runner.hpp"
#include "millrace/nf/ipsec/host.hpp"
#include "nf/ipsec/esp_oracle.hpp"
#include "nf/ipsec/xfrm_messages.hpp"
#include "support/packet_arena.hpp"

namespace millrace::test {
namespace {

using nf::ipsec::Action;
using nf::ipsec::IpsecHost;
using nf::ipsec::XfrmDatabase;

/// A gateway that messages are told to, in place of the kernel's.
class Told : public nf::ipsec::XfrmListener {
public:
    Told()
        : database_(4500, Config::parse("{}"),
                    [this](const std::string& message, const std::string&) { warnings.push_back(message); }) {
        unlink(sequence_file().c_str());
        const nf::Environment environment{
            .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts};
        configuration_ = std::make_shared<IpsecHost>(
            Config::parse("{kernel: true, sequence-file: '" + sequence_file() + "', default: bypass, sa-slots: 64}"),
            environment);
        now_ = configuration_;
    }
    ~Told() override { unlink(sequence_file().c_str()); }

    void tell(const XfrmMessage& message) { nf::ipsec::parse_xfrm(message.bytes(), *this); }
    nf::ipsec::Options options() const {
        nf::ipsec::Options all;
        all.default_action = Action::bypass;
        database_.add_to(all);
        return all;
    }
    /// Brings what was told to work, as `next` does.
    void apply() {
        nf::ipsec::Options all = options();
        now_ = std::make_shared<IpsecHost>(*now_, std::move(all), database_.version());
    }
    /// With one number of lanes, or by the CPU half (0); outcomes, and frames as they are afterwards.
    std::vector<std::string> run(std::vector<Frame>& frames, unsigned lanes) {
        const nf::Type& type = nf::type_of(*nf::find_type("ipsec"), *now_);
        PacketArena arena(128, 128);
        for (const Frame& frame : frames) arena.add(frame);
        std::vector<Decision> decisions(frames.size());
        if (lanes > 0) {
            nftest::run_device_half(type, now_->image().tables(), lanes, arena, decisions);
        } else {
            std::vector<Packet*> packets;
            for (size_t i = 0; i < frames.size(); ++i) packets.push_back(&arena[i]);
            now_->make_cpu_half()->process(packets, decisions.data());
        }
        std::vector<std::string> outcomes;
        for (size_t i = 0; i < frames.size(); ++i) {
            frames[i] = arena.bytes(i);
            outcomes.push_back(type.outcomes[decisions[i].outcome].name);
        }
        return outcomes;
    }
    std::string run_one(Frame& frame, unsigned lanes = 8) {
        std::vector<Frame> frames{frame};
        const std::string outcome = run(frames, lanes)[0];
        frame = frames[0];
        return outcome;
    }

    void on_sa(const nf::ipsec::XfrmSa& sa) override { database_.on_sa(sa); }
    void on_sa_gone(const nf::ipsec::XfrmId& id) override { database_.on_sa_gone(id); }
    void on_policy(const nf::ipsec::XfrmPolicy& policy) override { database_.on_policy(policy); }
    void on_policy_gone(const nf::ipsec::Selector& selector, uint8_t direction) override {
        database_.on_policy_gone(selector, direction);
    }
    void on_flush(bool policies) override { database_.on_flush(policies); }
    void on_hidden_change() override { ++hidden; }
    void on_answered(uint32_t, int) override {}
    void on_malformed() override { ++malformed; }

    std::vector<std::string> warnings;
    size_t malformed = 0, hidden = 0;
    XfrmDatabase& database() { return database_; }

private:
    static std::string sequence_file() { return testing::TempDir() + "xfrm-sequences-" + std::to_string(getpid()); }
    XfrmDatabase database_;
    std::shared_ptr<IpsecHost> configuration_, now_;
};

/// The outbound SA of gateway.hpp's near end, and its policy; or the inbound one of the far end.
void tell_near(Told& told, const Tunnel& tunnel) {
    told.tell(sa_message({}, tunnel));
    told.tell(policy_message({}));
    told.apply();
}
void tell_far(Told& told, const Tunnel& tunnel) {
    told.tell(policy_message({.direction = XFRM_POLICY_FWD}));
    told.tell(policy_message({.direction = XFRM_POLICY_IN}));
    told.tell(sa_message({}, tunnel));
    told.apply();
}

std::vector<Tunnel> served_tunnels() {
    std::vector<Tunnel> tunnels;
    for (const Tunnel& tunnel : all_tunnels())
        if (!tunnel.ipv6) tunnels.push_back(tunnel);
    return tunnels;
}

TEST(Xfrm, GivesPacketsTheSasOfThePoliciesThatTheyMatch) {
    for (const Tunnel& tunnel : served_tunnels()) {
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
    for (const Tunnel& tunnel : served_tunnels()) messages.push_back(sa_message({}, tunnel).bytes());
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
