// Sequence numbers that no process uses twice, and SAs that come to an end.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/changeable.hpp"
#include "nf/ipsec/esp_oracle.hpp"

namespace millrace::test {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kBlock = uint64_t{1} << 24;

/// A file of its own for one test, and what goes with it.
struct Scratch {
    Scratch() : path(testing::TempDir() + "sequences-" + std::to_string(getpid())) { clear(); }
    ~Scratch() { clear(); }
    void clear() const {
        for (const char* end : {"", ".lock", ".new"}) unlink((path + end).c_str());
    }
    std::string options(const Tunnel& tunnel = {}) const {
        Tunnel kept = tunnel;
        kept.policy_extra += "\nsequence-file: " + path;
        return near_end(kept);
    }
    std::string path;
};

nf::Environment live(nf::NetworkFunction* previous = nullptr) {
    return {.node_name = "nf",
            .chain_name = "chain",
            .output_folder = ".",
            .ports = kTestPorts,
            .previous = previous,
            .live = true};
}
NfRunner live_runner(const std::string& options, nf::NetworkFunction* previous = nullptr) {
    return NfRunner("ipsec", Config::parse(options), live(previous));
}

uint32_t sequence_of(const Frame& frame) { return load_be32(frame.data() + 14 + 20 + 4); }

/// The numbers of so many packets.
std::vector<uint32_t> send(NfRunner& runner, size_t count, const Half& half) {
    std::vector<uint32_t> numbers;
    const NfResult sent = runner.run(std::vector<Frame>(count, clear_frame(8)), half);
    for (size_t i = 0; i < count; ++i)
        if (outcome_name(runner, sent.decisions[i]) == "protected") numbers.push_back(sequence_of(sent.frames[i]));
    return numbers;
}

TEST(IpsecSequenceFile, SetsNumbersAsideBeforeTheyAreUsedAndGivesBackWhatWasNot) {
    const Scratch scratch;
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        scratch.clear();
        uint32_t next = 1;
        for (const size_t count : {3u, 40u, 257u}) {
            NfRunner runner = live_runner(scratch.options());
            EXPECT_NE(read_file(scratch.path).find(" " + std::to_string(next - 1 + kBlock) + "\n"), std::string::npos);
            for (const uint32_t number : send(runner, count, half)) ASSERT_EQ(number, next++) << half.text();
        }
        EXPECT_NE(read_file(scratch.path).find(" " + std::to_string(next - 1) + "\n"), std::string::npos);
        struct stat status{};
        ASSERT_EQ(stat(scratch.path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777, 0600u);
        for (const char* key : {kKeyText, kNonceText, kAuthKeyText})
            EXPECT_EQ(read_file(scratch.path).find(std::string(key).substr(0, 8)), std::string::npos);
    }
}

TEST(IpsecSequenceFile, KeepsEveryNumberFromBeingUsedTwiceWhenTheProcessIsKilled) {
    const Scratch scratch;
    std::set<uint32_t> seen;
    Rng rng(12);
    for (int life = 0; life < 8; ++life) {
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            NfRunner runner = live_runner(scratch.options());
            const Half half{life % 2 == 0 ? 0u : 8u};
            for (;;) {
                const std::vector<uint32_t> numbers = send(runner, 50, half);
                if (write(ends[1], numbers.data(), 4 * numbers.size()) < 0) _exit(1);
            }
        }
        close(ends[1]);
        uint32_t numbers[50];
        const size_t batches = 1 + rng() % 20;
        for (size_t i = 0; i < batches; ++i) {
            ASSERT_EQ(read(ends[0], numbers, sizeof numbers), static_cast<ssize_t>(sizeof numbers));
            for (const uint32_t number : numbers) ASSERT_TRUE(seen.insert(number).second) << number << " twice";
        }
        kill(child, SIGKILL);
        // What was on its way counts, too.
        for (ssize_t bytes; (bytes = read(ends[0], numbers, sizeof numbers)) > 0;)
            for (ssize_t i = 0; i < bytes / 4; ++i)
                ASSERT_TRUE(seen.insert(numbers[i]).second) << numbers[i] << " twice";
        close(ends[0]);
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status));
    }
    EXPECT_GT(*seen.rbegin(), 7 * kBlock);
    EXPECT_LE(*seen.rbegin(), 9 * kBlock);
}

TEST(IpsecSequenceFile, LetsNoPacketGoBeyondWhatIsSetAside) {
    const Scratch scratch;
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        scratch.clear();
        NfRunner runner = live_runner(scratch.options());
        runner.type().tickets(runner.nf().image().tables())[0] = kBlock - 2;
        const NfResult sent = runner.run(std::vector<Frame>(4, clear_frame(8)), half);
        EXPECT_EQ(outcome_names(runner, sent),
                  (std::vector<std::string>{"protected", "protected", "sequence-unreserved", "sequence-unreserved"}))
            << half.text();
        EXPECT_EQ(sent.frames[3], clear_frame(8));
        auto& changeable = dynamic_cast<nf::Changeable&>(runner.nf());
        const auto next = changeable.next();
        ASSERT_NE(next, nullptr);
        EXPECT_EQ(dynamic_cast<nf::Changeable&>(*next).next(), nullptr);
        EXPECT_NE(read_file(scratch.path).find(" " + std::to_string(2 * kBlock + 2) + "\n"), std::string::npos);
        NfRunner then = live_runner(scratch.options(), &runner.nf());
        EXPECT_EQ(send(then, 2, half).size(), 2u);
    }
}

TEST(IpsecSequenceFile, GivesANewKeyNumbersOfItsOwn) {
    const Scratch scratch;
    {
        NfRunner runner = live_runner(scratch.options());
        send(runner, 9, {8});
    }
    std::string rekeyed = scratch.options();
    rekeyed.replace(rekeyed.find("7e24"), 4, "8e24");
    {
        NfRunner runner = live_runner(rekeyed);
        EXPECT_EQ(send(runner, 1, {8}).front(), 1u);
    }
    NfRunner runner = live_runner(scratch.options());
    EXPECT_EQ(send(runner, 1, {8}).front(), 10u);
}

/// What is said when the file can't be used.
std::string complaint(const std::string& options) {
    try {
        live_runner(options);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return {};
}

TEST(IpsecSequenceFile, IsRefusedWhereItCannotBeTrusted) {
    const Scratch scratch;
    const std::string line = std::string(64, 'a') + " 5\n", head = "millrace sequence numbers 1\n";
    const auto said_of = [&](const std::string& text, mode_t mode) {
        scratch.clear();
        std::ofstream(scratch.path) << text;
        chmod(scratch.path.c_str(), mode);
        return complaint(scratch.options());
    };
    EXPECT_EQ(said_of(head + line, 0600), "");
    EXPECT_NE(said_of(head + line, 0640).find("chmod 600"), std::string::npos);
    for (const std::string& text :
         {std::string("x\n"), head + "x\n", head + line.substr(0, 66) + "x\n", head + line.substr(1), head + line + " ",
          head + std::string(64, 'a') + " 18446744073709551616\n"})
        EXPECT_NE(said_of(text, 0600).find("no line of reserved sequence numbers"), std::string::npos) << text;
    EXPECT_NE(complaint(near_end({.policy_extra = "sequence-file: /nowhere/at/all"})), "");
    scratch.clear();
    NfRunner first = live_runner(scratch.options());
    NfRunner same = live_runner(scratch.options(), &first.nf());
    EXPECT_THROW(live_runner(near_end({}), &first.nf()), ConfigError);
    const pid_t child = fork();
    if (child == 0) _exit(complaint(scratch.options()).find("another process") != std::string::npos ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "another process could use the same file";
}

TEST(IpsecSequenceFile, IsLeftAloneWhereNoPacketFlows) {
    const Scratch scratch;
    NfRunner runner("ipsec", scratch.options());
    EXPECT_FALSE(std::filesystem::exists(scratch.path));
}

const std::string kSecond =
    "{name: second, direction: out, spi: 0x3001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-ctr, nonce: "
    "11111111, key: 99112233445566778899aabbccddeeff, auth-key: 990102030405060708090a0b0c0d0e0f10111213}";

/// near_end with a second SA that its policies go over to.
std::string with_second(const std::string& lifetime) {
    std::string text = near_end({.extra = lifetime});
    text.replace(text.find("}]"), 2, "}, " + kSecond + "]");
    for (size_t at = 0; (at = text.find("sa: east", at)) != std::string::npos; at += 20)
        text.replace(at, 8, "sa: [east, second]");
    return text;
}

std::vector<std::string> told(const nf::Environment& environment) {
    std::vector<std::string> texts;
    for (const Diagnostic& warning : environment.warn.take_warnings()) texts.push_back(warning.message);
    return texts;
}

TEST(IpsecLifetime, GoesOverToTheNextSaBeforeTheFirstEndsAndLosesNothing) {
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        const std::string options = with_second("lifetime: {packets: 100}, soft-lifetime: {packets: 60}");
        const nf::Environment first = live();
        NfRunner runner("ipsec", Config::parse(options), first);
        const auto spi = [&](NfRunner& of) {
            const NfResult sent = of.run({clear_frame(8)}, half);
            EXPECT_EQ(outcome_name(of, sent.decisions[0]), "protected");
            return load_be32(sent.frames[0].data() + 34);
        };
        EXPECT_EQ(send(runner, 58, half).size(), 58u);
        EXPECT_EQ(spi(runner), 0x1001u);
        EXPECT_EQ(dynamic_cast<nf::Changeable&>(runner.nf()).next(), nullptr);
        EXPECT_EQ(spi(runner), 0x1001u);
        EXPECT_NE(dynamic_cast<nf::Changeable&>(runner.nf()).next(), nullptr);
        EXPECT_EQ(told(first), (std::vector<std::string>{"SA 'east' is soon at its end"}));
        NfRunner later("ipsec", Config::parse(options), live(&runner.nf()));
        EXPECT_EQ(spi(later), 0x3001u);
        // What the generation before still has on its way goes out, up to the hard end.
        EXPECT_EQ(send(runner, 50, half).size(), 40u);
        NfRunner last("ipsec", Config::parse(options), live(&later.nf()));
        EXPECT_EQ(spi(last), 0x3001u);
    }
}

TEST(IpsecLifetime, EndsAnSaThatNobodyFollowsAndTellsOnce) {
    const std::string options = near_end({.extra = "lifetime: {packets: 10}"});
    const nf::Environment first = live(), second = live();
    for (const Half& half : host_halves(*nf::find_type("ipsec"))) {
        NfRunner runner("ipsec", Config::parse(options), first);
        EXPECT_EQ(send(runner, 12, half).size(), 10u);
        const auto next = dynamic_cast<nf::Changeable&>(runner.nf()).next();
        ASSERT_NE(next, nullptr);
        EXPECT_EQ(told(first), (std::vector<std::string>{"SA 'east' has come to the end of its lifetime"}));
        const nf::ShownTable shown = *next->show("sas", 9);
        EXPECT_EQ(shown.columns.back(), "state");
        EXPECT_EQ(std::get<std::string>(shown.rows.at(0).back()), "ended");
        EXPECT_TRUE(std::ranges::any_of(next->statistics(), [](const nf::Statistic& statistic) {
            return statistic.name == "hard-ends" && statistic.value == 1;
        }));
        nf::Environment after = live(&runner.nf());
        NfRunner later("ipsec", Config::parse(options), after);
        const NfResult refused = later.run({clear_frame(8)}, half);
        EXPECT_EQ(outcome_name(later, refused.decisions[0]), "expired") << half.text();
        EXPECT_EQ(refused.frames[0], clear_frame(8));
        EXPECT_EQ(dynamic_cast<nf::Changeable&>(later.nf()).next(), nullptr);
        EXPECT_TRUE(told(after).empty());
    }
}

TEST(IpsecLifetime, CountsBytesInBothDirections) {
    for (const char* cipher : {"aes-128-ctr", "aes-256-gcm", "aes-128-cbc"}) {
        const Tunnel tunnel{.cipher = cipher, .extra = "lifetime: {bytes: 10000}, soft-lifetime: {bytes: 4000}"};
        for (const Half& half : halves(*nf::find_type("ipsec"))) {
            SCOPED_TRACE(tunnel.text() + ", " + half.text());
            const nf::Environment of_near = live(), of_far = live();
            NfRunner near("ipsec", Config::parse(near_end(tunnel)), of_near);
            NfRunner far("ipsec", Config::parse(far_end(tunnel)), of_far);
            EXPECT_EQ(near.type().name, "ipsec:complete");
            const auto next = [](NfRunner& runner) { return dynamic_cast<nf::Changeable&>(runner.nf()).next(); };
            const auto pass = [&](size_t count) {
                const NfResult sent = near.run(std::vector<Frame>(count, clear_frame(1000)), half);
                EXPECT_EQ(outcome_names(near, sent), std::vector<std::string>(count, "protected"));
                const NfResult received = far.run(sent.frames, half);
                EXPECT_EQ(outcome_names(far, received), std::vector<std::string>(count, "unprotected"));
            };
            pass(3);  // 1,028 bytes each, and their padding
            EXPECT_EQ(next(near), nullptr);
            EXPECT_TRUE(told(of_near).empty());
            pass(1);
            next(near);
            next(far);
            EXPECT_EQ(told(of_near), (std::vector<std::string>{"SA 'east' is soon at its end"}));
            EXPECT_EQ(told(of_far).back(), "SA 'east' is soon at its end");
            pass(6);
            EXPECT_NE(next(near), nullptr);
            EXPECT_NE(next(far), nullptr);
            EXPECT_EQ(told(of_near), (std::vector<std::string>{"SA 'east' has come to the end of its lifetime"}));
        }
    }
}

TEST(IpsecLifetime, EndsByTimeAndForgetsInboundSas) {
    const Tunnel tunnel{.extra = "lifetime: {time: 200ms}"};
    const EspOracle oracle(tunnel);
    nf::Environment environment = live();
    NfRunner far("ipsec", Config::parse(far_end(tunnel)), environment);
    EXPECT_EQ(outcome_name(far, far.run({oracle.seal(inner_of(clear_frame(8)), 1)}, {8}).decisions[0]), "unprotected");
    EXPECT_EQ(dynamic_cast<nf::Changeable&>(far.nf()).next(), nullptr);
    std::this_thread::sleep_for(190ms);
    dynamic_cast<nf::Changeable&>(far.nf()).next();
    EXPECT_GE(told(environment).size(), 1u);
    std::this_thread::sleep_for(30ms);
    EXPECT_NE(dynamic_cast<nf::Changeable&>(far.nf()).next(), nullptr);
    NfRunner later("ipsec", Config::parse(far_end(tunnel)), live(&far.nf()));
    for (const Half& half : host_halves(*nf::find_type("ipsec")))
        EXPECT_EQ(outcome_name(later, later.run({oracle.seal(inner_of(clear_frame(8)), 2)}, half).decisions[0]),
                  "no-sa");
}

TEST(IpsecLifetime, OfAnInboundSaIsNotEndedByPacketsThatAreSentAgain) {
    const Tunnel tunnel{.cipher = "aes-128-gcm", .extra = "lifetime: {bytes: 10000}"};
    const Frame frame = EspOracle(tunnel).seal(inner_of(clear_frame(1000)), 1);
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        NfRunner far("ipsec", Config::parse(far_end(tunnel)), live());
        const NfResult received = far.run(std::vector<Frame>(40, frame), half);
        EXPECT_EQ(outcome_name(far, received.decisions[0]), "unprotected");
        EXPECT_EQ(outcome_name(far, received.decisions[39]), "replayed");
        EXPECT_EQ(dynamic_cast<nf::Changeable&>(far.nf()).next(), nullptr) << half.text();
    }
}

TEST(IpsecLifetime, OfAnInboundSaIsNotEndedByForgedPackets) {
    const Tunnel tunnel{.extra = "lifetime: {packets: 10}"};
    NfRunner far("ipsec", Config::parse(far_end(tunnel)), live());
    Frame forged = EspOracle(tunnel).seal(inner_of(clear_frame(8)), 5000);
    forged.back() ^= 1;
    far.run(std::vector<Frame>(100, forged), {8});
    EXPECT_EQ(dynamic_cast<nf::Changeable&>(far.nf()).next(), nullptr);
}

}  // namespace
}  // namespace millrace::test
