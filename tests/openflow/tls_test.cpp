// Controllers by TLS: who is let in, who is refused, and what is said of it.
#include <fcntl.h>

#include "millrace/openflow/peer.hpp"
#include "openflow/certificates.hpp"
#include "openflow/log.hpp"
#include "openflow/messages.hpp"
#include "openflow/test_socket.hpp"

namespace millrace::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A controller's end, which never waits.
class TlsEnd {
public:
    TlsEnd(int socket, const TlsContext& context, TlsStream::Side side)
        : socket_(socket), stream_(context, socket_.get(), side) {
        ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
    }
    /// A turn: goes on with the handshake, sends what is to be sent, takes what has come.
    void turn() {
        if (!done_) done_ = stream_.shake_hands() == TlsStream::Progress::done;
        if (!done_) return;
        if (sent_ < to_send_.size())
            if (const ssize_t sent = stream_.send(ByteView(to_send_).subspan(sent_)); sent > 0)
                sent_ += static_cast<size_t>(sent);
        uint8_t buffer[65536];
        for (ssize_t got = 0; (got = stream_.receive(buffer)) > 0;) heard_.insert(heard_.end(), buffer, buffer + got);
    }
    void say(const std::string& hex) {
        const Bytes bytes = from_hex(hex);
        to_send_.insert(to_send_.end(), bytes.begin(), bytes.end());
    }
    const Bytes& heard() const { return heard_; }

private:
    Socket socket_;
    TlsStream stream_;
    bool done_ = false;
    Bytes to_send_, heard_;
    size_t sent_ = 0;
};

/// A switch whose controller is at `address`, with these certificates.
class Switch {
public:
    Switch(const std::string& address, std::shared_ptr<const TlsContext> tls)
        : peer_(*flow_switch::parse_controller(address), datapath_, roles_, std::move(tls)) {}
    void turn(Peer::Clock::duration step = milliseconds(1)) {
        now_ += step;
        std::vector<pollfd> sockets;
        peer_.prepare(now_, sockets);
        ::poll(sockets.data(), sockets.size(), 1);
        peer_.work(now_, sockets);
    }
    size_t sessions() {
        size_t count = 0;
        peer_.for_each_session([&](Session&) { ++count; });
        return count;
    }
    Peer& peer() { return peer_; }

private:
    FakeDatapath datapath_;
    Roles roles_;
    Peer peer_;
    Peer::Clock::time_point now_{seconds(1000)};
};

const Identity kAuthority("authority"), kOther("another authority");
const Identity kController("controller.example", &kAuthority), kSwitch("switch.example", &kAuthority);

/// A switch that goes to a controller with `shown` as its certificate, which trusts `trusted`, by `name`: whether the
/// controller answers an echo, and what the log says.
std::pair<bool, std::string> connects(const Identity& shown, const Identity& trusted_by_controller,
                                      const std::string& name = {}, const Identity& ours = kSwitch) {
    const Log log;
    TestSocket listener;
    const uint16_t port = listener.listen();
    Switch at("ssl:127.0.0.1:" + std::to_string(port), ours.context(kAuthority, name));
    at.turn();
    const auto context = shown.context(trusted_by_controller);
    TlsEnd controller(listener.accept(), *context, TlsStream::Side::server);
    controller.say(kMessages.at("hello") + kMessages.at("echo"));
    for (int i = 0; i < 300 && controller.heard().size() < 28; ++i) {
        controller.turn();
        at.turn();
    }
    return {controller.heard().size() >= 28, log.text()};
}

TEST(Tls, ConnectsThoseWhoTrustEachOther) {
    const auto [good, log] = connects(kController, kAuthority);
    EXPECT_TRUE(good) << log;
    EXPECT_NE(log.find("connected"), std::string::npos) << log;
    EXPECT_TRUE(connects(kController, kAuthority, "controller.example").first);
    EXPECT_TRUE(connects(kController, kAuthority, "127.0.0.1").first);
}

TEST(Tls, RefusesCertificatesThatDoNotHold) {
    const Identity expired("controller.example", &kAuthority, -7200, -3600);
    const Identity early("controller.example", &kAuthority, 3600, 7200);
    const Identity strange("controller.example", &kOther);
    const Identity alone("controller.example");
    const auto refusal = [](const Identity& shown, const std::string& name = {}) {
        const auto [good, log] = connects(shown, kAuthority, name);
        EXPECT_FALSE(good);
        EXPECT_NE(log.find("the other side's certificate is refused"), std::string::npos) << log;
        EXPECT_EQ(log.find(": connected"), std::string::npos) << log;
        return log;
    };
    EXPECT_NE(refusal(expired).find("expired"), std::string::npos);
    EXPECT_NE(refusal(early).find("not yet valid"), std::string::npos);
    refusal(strange);
    refusal(alone);
    EXPECT_NE(refusal(kController, "other.example").find("mismatch"), std::string::npos);
    EXPECT_NE(refusal(kController, "127.0.0.2").find("mismatch"), std::string::npos);
}

TEST(Tls, IsRefusedByControllersThatDoNotTrustTheSwitch) {
    EXPECT_FALSE(connects(kController, kOther).first);
    const Identity expired("switch.example", &kAuthority, -7200, -3600);
    EXPECT_FALSE(connects(kController, kAuthority, {}, expired).first);
}

TEST(Tls, GivesUpWhoSpeaksSomethingElseOrNothing) {
    const Log log;
    TestSocket listener;
    Switch at("ssl:127.0.0.1:" + std::to_string(listener.listen()), kSwitch.context(kAuthority));
    at.turn();
    {
        const TestSocket plain(listener.accept());
        plain.say(kMessages.at("hello"));
        for (int i = 0; i < 50 && at.peer().connections() > 0; ++i) at.turn();
        EXPECT_EQ(at.peer().connections(), 0u);
        EXPECT_NE(log.text().find("trying on"), std::string::npos) << log.text();
    }
    at.turn(seconds(10));
    const TestSocket silent(listener.accept());
    for (int i = 0; i < 5; ++i) at.turn();
    EXPECT_EQ(at.peer().connections(), 1u);
    EXPECT_EQ(at.sessions(), 0u);
    bool given_up = false;
    for (int i = 0; i < 6 && !given_up; ++i) {
        at.turn(seconds(1));
        given_up = at.peer().connections() == 0;
    }
    EXPECT_TRUE(given_up);
}

TEST(Tls, LetsControllersInThatComeWithACertificate) {
    const Log log;
    Switch at("pssl:0", kSwitch.context(kAuthority));
    const auto come = [&](const TlsContext& context) {
        TestSocket socket;
        socket.connect(at.peer().listens_on());
        auto end = std::make_unique<TlsEnd>(::dup(socket.descriptor()), context, TlsStream::Side::client);
        end->say(kMessages.at("hello") + kMessages.at("echo"));
        for (int i = 0; i < 100 && end->heard().size() < 28; ++i) {
            end->turn();
            at.turn();
        }
        return end;
    };
    const auto known = kController.context(kAuthority);
    const auto strange = Identity("controller.example", &kOther).context(kAuthority);
    EXPECT_GE(come(*known)->heard().size(), 28u);
    EXPECT_EQ(come(*strange)->heard().size(), 0u);
    EXPECT_NE(log.text().find("certificate is refused"), std::string::npos) << log.text();
    // Those who shake no hands take no place from those who do.
    std::vector<std::unique_ptr<TestSocket>> silent;
    for (size_t i = 0; i < 2 * Peer::kMaxConnections; ++i) {
        silent.push_back(std::make_unique<TestSocket>());
        silent.back()->connect(at.peer().listens_on());
        at.turn();
    }
    EXPECT_GE(come(*known)->heard().size(), 28u);
    EXPECT_LE(at.peer().connections(), Peer::kMaxConnections);
}

TEST(Tls, CarriesMuchInBothDirections) {
    TestSocket listener;
    Switch at("ssl:127.0.0.1:" + std::to_string(listener.listen()), kSwitch.context(kAuthority));
    at.turn();
    const auto context = kController.context(kAuthority);
    TlsEnd controller(listener.accept(), *context, TlsStream::Side::server);
    controller.say(kMessages.at("hello"));
    constexpr size_t kEchoes = 200, kBytes = 60'000;
    std::string echo = "0402" + std::string("ea68") + "00000009";  // 8 + 60,000
    for (size_t i = 0; i < kBytes; ++i) echo += i % 7 == 0 ? "a5" : "5a";
    for (size_t i = 0; i < kEchoes; ++i) controller.say(echo);
    for (int i = 0; i < 20'000 && controller.heard().size() < 16 + kEchoes * (kBytes + 8); ++i) {
        controller.turn();
        at.turn(milliseconds(0));
    }
    ASSERT_EQ(controller.heard().size(), 16 + kEchoes * (kBytes + 8));
    EXPECT_EQ(to_hex(ByteView(controller.heard()).last(kBytes)), echo.substr(16));
}

TEST(TlsContext, SaysWhichTextIsWrong) {
    const auto trouble = [](TlsFiles files) -> std::string {
        try {
            const TlsContext context(std::move(files));
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        return "none";
    };
    const TlsFiles good{kSwitch.certificate(), kSwitch.key(), kAuthority.certificate(), {}};
    EXPECT_EQ(trouble(good), "none");
    const auto with = [&](std::string TlsFiles::* text, const std::string& value) {
        TlsFiles files = good;
        files.*text = value;
        return trouble(files);
    };
    EXPECT_TRUE(with(&TlsFiles::certificate, "").starts_with("the certificate is none in PEM"));
    EXPECT_TRUE(with(&TlsFiles::certificate, kSwitch.key()).starts_with("the certificate is none in PEM"));
    EXPECT_TRUE(with(&TlsFiles::key, kController.key()).starts_with("the private key is not that of the certificate"));
    EXPECT_TRUE(with(&TlsFiles::key, "no key").starts_with("the private key is none in PEM"));
    EXPECT_TRUE(with(&TlsFiles::authorities, "").starts_with("there is no authority's certificate"));
    EXPECT_TRUE(with(&TlsFiles::authorities, kSwitch.key()).starts_with("there is no authority's certificate"));
    for (size_t cut = 0; cut < good.certificate.size() - 30; cut += 13)
        EXPECT_NE(with(&TlsFiles::certificate, good.certificate.substr(0, cut)), "none") << cut;
}

}  // namespace
}  // namespace millrace::test
