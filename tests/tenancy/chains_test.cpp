// Chains with functions of tenants, at work: nothing is lost without a reason, whatever the tenants do.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include "tenancy/scene.hpp"

namespace millrace::tenancy {
namespace {

using namespace std::chrono_literals;
using millrace::test::TestFolder;
using test::kTwo;
using test::node_of;
using test::Process;
using test::Scene;
using test::two_chains;
using test::wait_until;

TEST(TenantChains, AnswerEveryPacketOnEveryDevice) {
    for (const std::string device : {"cpu", "sim"})
        for (const unsigned workers : {1u, 3u}) {
            SCOPED_TRACE(device + ", workers: " + std::to_string(workers));
            // As many as have room, so that all can come at once.
            Scene scene(kTwo, two_chains(node_of("mallory", "drop")), 0, 4000, workers, device);
            Process tenant([&] { return test::serve(scene.socket(), "mallory", "mirror", "{}"); });
            Process honest([&] { return test::serve(scene.socket(), "honest", "mirror", "{}"); });
            ASSERT_TRUE(scene.wait_for("mallory") && scene.wait_for("honest"));
            scene.runtime().start();
            scene.finish();
            EXPECT_EQ(scene.sent("out"), 4000u);
            EXPECT_EQ(scene.tenant("mallory").answered, 4000u);
            EXPECT_EQ(scene.tenant("honest").answered, 4000u);
        }
}

TEST(TenantChains, OfSixtyFourTenantsPassEachPacketThroughAll) {
    std::string tenants, nodes;
    std::vector<std::unique_ptr<Process>> processes;
    for (int i = 0; i < 64; ++i) {
        tenants += (i > 0 ? ", {name: t" : "{name: t") + std::to_string(i) + "}";
        nodes += node_of("t" + std::to_string(i), "drop");
    }
    Scene scene(tenants,
                "  own: {input: in, output: out, nfs: [mirror]}\n"
                "  other:\n    input: in2\n    output: out2\n    nfs:\n" +
                    nodes,
                0, 250);
    for (int i = 0; i < 64; ++i)
        processes.push_back(std::make_unique<Process>(
            [&] { return test::serve(scene.socket(), "t" + std::to_string(i), "mirror", "{}"); }));
    for (int i = 0; i < 64; ++i) ASSERT_TRUE(scene.wait_for("t" + std::to_string(i)));
    scene.runtime().start();
    const exec::Report report = scene.finish();
    EXPECT_EQ(scene.sent("out2"), 250u);
    EXPECT_EQ(report.tenants.size(), 64u);
    for (const exec::TenantReport& one : report.tenants) EXPECT_EQ(one.answered, 250u) << one.name;
}

TEST(TenantChains, DoWithoutThemAsTheyAreTold) {
    struct Case {
        const char* absent;
        uint64_t sent;
    };
    for (const Case& one : {Case{"bypass", 5000}, Case{"drop", 0}, Case{"punt", 0}}) {
        SCOPED_TRACE(one.absent);
        Scene scene(kTwo, two_chains(node_of("mallory", one.absent)), 0, 5000);
        scene.runtime().start();
        const exec::Report report = scene.finish();
        EXPECT_EQ(scene.sent("out"), one.sent);
        EXPECT_EQ(scene.tenant("mallory").absent.at("away"), 5000u);
        for (const exec::ChainReport& chain : report.chains)
            if (chain.name == "own/mallory" && one.sent == 0) {
                EXPECT_EQ(chain.drops.begin()->second, 5000u) << chain.drops.begin()->first;
            }
    }
}

/// What a tenant does with a batch, and with its process.
struct Deed {
    const char* name;
    std::function<void(Member&, const Member::Batch&)> work;  ///< of the tenth batch
    std::set<std::string> misdeeds;                           ///< one of which it is named for
    const char* patience = "10s";
};
[[noreturn]] void die() {
    kill(getpid(), SIGKILL);
    _exit(98);
}
void answer_all(const Member::Batch& batch, uint32_t outcome) {
    for (uint32_t i = 0; i < batch.count; ++i) {
        batch.outcome(i) = outcome;
        std::copy_n(batch.in(i).begin(), std::min(batch.in(i).size(), batch.back(i).size()), batch.back(i).begin());
    }
}

std::vector<Deed> deeds() {
    return {
        {"is killed when asked", [](Member&, const Member::Batch&) { die(); }, {"gone"}},
        {"is killed in the middle of an answer",
         [](Member&, const Member::Batch& batch) {
             batch.outcome(0) = 1;
             std::fill_n(batch.back(0).data(), batch.back(0).size(), uint8_t{0xee});
             die();
         },
         {"gone"}},
        {"is killed behind its answer",
         [](Member& member, const Member::Batch& batch) {
             answer_all(batch, 0);
             member.answer(batch);
             die();
         },
         {"gone"}},
        {"stops", [](Member&, const Member::Batch&) { kill(getpid(), SIGSTOP); }, {"late"}, "50ms"},
        {"answers what it may not",
         [](Member& member, const Member::Batch& batch) {
             answer_all(batch, 2);
             member.answer(batch);
             std::this_thread::sleep_for(30s);
         },
         {"wrong"}},
        {"gives the greatest outcome there is",
         [](Member& member, const Member::Batch& batch) {
             answer_all(batch, 0xffffffff);
             member.answer(batch);
             std::this_thread::sleep_for(30s);
         },
         {"wrong"}},
        {"sends what nobody asked for",
         [](Member& member, const Member::Batch&) {
             while (send(member.socket(), "more", 4, MSG_NOSIGNAL) > 0) {
             }
             std::this_thread::sleep_for(30s);
         },
         {"unasked"}},
        {"lets go",
         [](Member& member, const Member::Batch&) {
             shutdown(member.socket(), SHUT_RDWR);
             std::this_thread::sleep_for(30s);
         },
         {"gone"}},
    };
}

class Misdeed : public testing::TestWithParam<size_t> {};

TEST_P(Misdeed, CostsItsOwnChainAloneAndIsNamed) {
    const Deed deed = deeds()[GetParam()];
    SCOPED_TRACE(deed.name);
    constexpr unsigned kPackets = 20'000;
    Scene scene(kTwo, two_chains(node_of("mallory", "bypass", deed.patience)), 20'000, kPackets);
    Process honest([&] { return test::serve(scene.socket(), "honest", "mirror", "{}"); });
    auto mallory = std::make_unique<Process>([&] {
        Member member(scene.socket(), "mallory");
        for (int seen = 0; member.attached();) {
            const auto batch = member.next(100ms);
            if (!batch) continue;
            if (++seen == 10) deed.work(member, *batch);
            answer_all(*batch, 0);
            member.answer(*batch);
        }
        return 0;
    });
    ASSERT_TRUE(scene.wait_for("mallory") && scene.wait_for("honest"));
    scene.runtime().start();
    EXPECT_TRUE(wait_until([&] { return scene.tenant("mallory").process == 0; })) << "it is detached";
    mallory.reset();
    // Somebody attaches in its place, and the chain is back.
    const auto away = Attachment::Clock::now();
    const uint64_t answered = scene.tenant("mallory").answered;
    Process again([&] { return test::serve(scene.socket(), "mallory", "mirror", "{}"); });
    EXPECT_TRUE(wait_until([&] { return scene.tenant("mallory").answered > answered; }));
    EXPECT_LT(Attachment::Clock::now() - away, 5s) << "a second, on a machine that does nothing else";
    const exec::Report report = scene.finish();
    EXPECT_EQ(scene.sent("out"), kPackets) << "absent: bypass";
    EXPECT_EQ(scene.sent("out2"), kPackets);
    EXPECT_EQ(scene.tenant("honest").answered, kPackets) << "others lose nothing";
    EXPECT_TRUE(scene.tenant("honest").misdeeds.empty());
    const auto misdeeds = scene.tenant("mallory").misdeeds;
    EXPECT_TRUE(std::any_of(deed.misdeeds.begin(), deed.misdeeds.end(),
                            [&](const std::string& one) { return misdeeds.contains(one); }));
    EXPECT_GE(scene.tenant("mallory").attached, 2u);
    std::string news;
    for (const Diagnostic& one : scene.runtime().news()) news += one.message + "\n";
    EXPECT_NE(news.find("tenant 'mallory' (user " + std::to_string(getuid())), std::string::npos) << news;
    EXPECT_EQ(news.find("'honest'"), news.find("'honest' (user", news.size()));
}
INSTANTIATE_TEST_SUITE_P(All, Misdeed, testing::Range(size_t{0}, deeds().size()));

TEST(TenantChains, ThatGetMoreThanATenantTakesKeepOrderAndBounds) {
    Scene scene(kTwo, two_chains(node_of("mallory", "bypass")), 30'000, 20'000);
    Process honest([&] { return test::serve(scene.socket(), "honest", "mirror", "{}"); });
    Process slow([&] {
        Member member(scene.socket(), "mallory");
        while (member.attached())
            if (const auto batch = member.next(100ms)) {
                std::this_thread::sleep_for(100ms);
                answer_all(*batch, 0);
                member.answer(*batch);
            }
        return 0;
    });
    ASSERT_TRUE(scene.wait_for("mallory") && scene.wait_for("honest"));
    scene.runtime().start();
    scene.finish();
    EXPECT_EQ(scene.sent("out"), 20'000u);
    EXPECT_EQ(scene.tenant("honest").answered, 20'000u);
    EXPECT_GT(scene.tenant("mallory").answered, 0u);
    EXPECT_GT(scene.tenant("mallory").absent["busy"], 0u);
}

TEST(TenantChains, TakeOtherTermsWhileTheyWorkAndLoseNothing) {
    Scene scene(kTwo, two_chains(node_of("mallory", "bypass")), 20'000, 20'000);
    Process tenant([&] { return test::serve(scene.socket(), "mallory", "mirror", "{}"); });
    Process honest([&] { return test::serve(scene.socket(), "honest", "mirror", "{}"); });
    ASSERT_TRUE(scene.wait_for("mallory") && scene.wait_for("honest"));
    scene.runtime().start();
    ASSERT_TRUE(wait_until([&] { return scene.tenant("mallory").answered > 1000; }));
    scene.reload("reads: [eth.dst, eth.src]", "reads: [eth.dst, eth.src, ip.ttl]");
    const uint64_t answered = scene.tenant("mallory").answered;
    EXPECT_TRUE(wait_until([&] { return scene.tenant("mallory").answered > answered + 1000; })) << "it came again";
    EXPECT_EQ(scene.tenant("mallory").attached, 2u);
    EXPECT_EQ(scene.tenant("honest").attached, 1u);
    scene.finish();
    EXPECT_EQ(scene.sent("out"), 20'000u);
    EXPECT_EQ(scene.tenant("honest").answered, 20'000u);
}

TEST(TenantChains, NeedSomebodyWhoListens) {
    const TestFolder folder;
    chain::LoadOptions options;
    options.output_folder = folder.path();
    auto configuration = chain::parse_configuration(
        "version: 1\nports: {in: {source: {size: 64}}, out: {sink: {}}}\ntenants: [{name: a}]\nchains:\n  c:\n    "
        "input: in\n    output: out\n    nfs:\n" +
            node_of("a", "drop"),
        "(test)", options);
    EXPECT_THROW(exec::Runtime(std::move(configuration)), ConfigError);
}

}  // namespace
}  // namespace millrace::tenancy
