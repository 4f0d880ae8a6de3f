// Tenants that come to a GPU on which what they were promised has room, or none.
#include <fstream>

#include "millrace/exec/promises/promise_watch.hpp"
#include "tenancy/on_the_gpu.hpp"
#include "tenancy/scene.hpp"
#include "tenancy/sender.hpp"

namespace millrace::tenancy {
namespace {

using test::half_of;
using test::node_of;
using test::Scene;
using test::Sender;
using test::wait_until;

/// As if `slow` took 5 ms for a batch, `quick` 50 us, and of others nobody could say.
void make_up(const std::string& tenant, ConfinedFunction& function) {
    const double start_ns = tenant == "slow" ? 5e6 : 50e3;
    if (tenant != "endless") function.take_model({{start_ns, 100}, {1'000, 1}, 1, 1, 256});
}
const DeviceHalf kHalf = half_of(test::reads_and_marks(12, 0), "marker");

constexpr const char* kSmall = "        memory: 64Ki\n        patience: 100us\n";
std::string promise(const std::string& latency) {
    return std::string(kSmall) + "        rate: 1\n        latency: " + latency + "\n";
}
std::string node(const std::string& name, const std::string& latency) {
    std::string text = node_of(name, "bypass", "P", promise(latency));
    return text.erase(text.find("        patience: P\n"), 20);
}

/// They take turns on all multiprocessors: what one takes, others wait for.
std::string chains(const std::string& slow, const std::string& quick, const std::string& more = "") {
    return "  own:\n    input: in\n    output: out\n    nfs:\n" + node("slow", slow) +
           "  other:\n    input: in2\n    output: out2\n    nfs:\n" + node("quick", quick) + "sharing: temporal\n" +
           more;
}
constexpr const char* kBoth = "{name: slow}, {name: quick}";

class AdmissionOnTheGpu : public test::OnTheGpu {};

TEST_F(AdmissionOnTheGpu, RefusesWhoHasNoRoomUntilSomebodyLeaves) {
    Scene scene(kBoth, chains("10s", "4ms"), 0, 500, 1, "cuda", make_up);
    auto slow = std::make_unique<Sender>(scene.socket(), "slow", kHalf);
    ASSERT_TRUE(wait_until([&] { return !slow->text().empty(); }));
    EXPECT_EQ(scene.tenant("slow").runs_on, "GPU, fenced") << slow->text();
    {
        Sender quick(scene.socket(), "quick", kHalf);
        ASSERT_TRUE(wait_until([&] { return !quick.parted().empty(); }));
        EXPECT_EQ(
            quick.parted().find("its promise has no room; latency: 4000 us were asked for, and a packet may take"), 0u)
            << quick.parted();
        EXPECT_EQ(quick.parted().find("slow"), std::string::npos) << "others' names are not its business";
    }
    ASSERT_TRUE(wait_until([&] { return scene.tenant("quick").state == "refused"; }));
    const std::vector<Diagnostic> news = scene.runtime().news();
    ASSERT_EQ(news.size(), 1u);
    EXPECT_EQ(news[0].message.find("tenant 'quick' is refused: 1 packets a second within "), 0u) << news[0].message;
    EXPECT_NE(news[0].message.find(" have no room; latency: "), std::string::npos) << news[0].message;
    EXPECT_NE(news[0].message.find("promised besides: tenant 'slow' in line "), std::string::npos) << news[0].message;
    EXPECT_NE(news[0].hint.find("'latency: "), std::string::npos) << news[0].hint;
    EXPECT_GT(news[0].where.line, 0u);
    // The same process is told at once, and the other one keeps what it has.
    try {
        const Member again(scene.socket(), "quick");
        ADD_FAILURE() << "it was let in";
    } catch (const std::runtime_error& e) {
        EXPECT_NE(std::string(e.what()).find("it refuses: its promise has no room; "), std::string::npos) << e.what();
    }
    EXPECT_EQ(scene.tenant("slow").state, "attached");
    EXPECT_EQ(scene.tenant("slow").runs_on, "GPU, fenced");
    ASSERT_EQ(scene.manager().on_device().tenants.size(), 1u);
    slow.reset();
    ASSERT_TRUE(wait_until([&] { return scene.tenant("slow").state != "attached"; }));
    Sender quick(scene.socket(), "quick", kHalf);
    ASSERT_TRUE(wait_until([&] { return !quick.text().empty() || !quick.parted().empty(); }));
    EXPECT_EQ(quick.parted(), "");
    EXPECT_EQ(scene.tenant("quick").runs_on, "GPU, fenced");
    EXPECT_EQ(scene.manager().on_device().tenants.front().name, "quick");
}

TEST_F(AdmissionOnTheGpu, LetsEverybodyInWhereTheFileSaysSo) {
    Scene scene(kBoth, chains("10s", "4ms", "admission: warn\n"), 0, 500, 1, "cuda", make_up);
    Sender slow(scene.socket(), "slow", kHalf);
    ASSERT_TRUE(wait_until([&] { return !slow.text().empty(); }));
    Sender quick(scene.socket(), "quick", kHalf);
    ASSERT_TRUE(wait_until([&] { return !quick.text().empty() || !quick.parted().empty(); }));
    EXPECT_EQ(quick.parted(), "");
    EXPECT_EQ(scene.tenant("quick").runs_on, "GPU, fenced");
    EXPECT_EQ(scene.manager().on_device().tenants.size(), 2u);
}

TEST_F(AdmissionOnTheGpu, RefusesAPromiseOfWhichNobodyCanSayWhatItTakes) {
    std::string text = chains("10s", "10s");
    for (size_t at; (at = text.find("slow")) != std::string::npos;) text.replace(at, 4, "endless");
    Scene scene("{name: endless}, {name: quick}", text, 0, 500, 1, "cuda", make_up);
    Sender endless(scene.socket(), "endless", kHalf);
    ASSERT_TRUE(wait_until([&] { return !endless.parted().empty(); }));
    EXPECT_NE(endless.parted().find("could not be measured"), std::string::npos) << endless.parted();
    EXPECT_EQ(scene.tenant("endless").state, "refused");
}

TEST_F(AdmissionOnTheGpu, AConfigurationThatPromisesMoreThanThereIsIsNotReadAgain) {
    const millrace::test::TestFolder folder;
    const std::string path = folder / "run.yaml";
    const auto write = [&](const std::string& latency) {
        std::ofstream(path) << "version: 1\ndevice: cuda\noutput: " + folder.path() +
                                   "\nports:\n  in: {source: {size: 128, count: 300}}\n  in2: {source: {size: 128, "
                                   "count: 300}}\n  out: {sink: {}}\n  out2: {sink: {}}\ntenants: [" +
                                   kBoth + "]\nchains:\n" + chains("10s", latency);
    };
    write("9s");
    const auto manager = std::make_shared<Manager>(1, nullptr, make_up);
    exec::RuntimeOptions options;
    options.tenants = manager;
    options.admit = [&](const chain::Configuration& next) {
        const auto broken = broken_promises(share_device(demand_of(next, nullptr, 1), manager->on_device()));
        if (!broken.empty()) throw ConfigError(broken);
    };
    exec::Runtime runtime(chain::load_configuration(path), options);
    Sender slow(folder / "tenants.sock", "slow", kHalf);
    ASSERT_TRUE(wait_until([&] { return !slow.text().empty(); }));
    Sender quick(folder / "tenants.sock", "quick", kHalf);
    ASSERT_TRUE(wait_until([&] { return !quick.text().empty(); }));
    write("4ms");
    try {
        runtime.reload();
        ADD_FAILURE() << "it came in";
    } catch (const ConfigError& e) {
        EXPECT_NE(e.diagnostics().front().message.find("tenant 'quick' can't keep this; latency: 4000 us were asked"),
                  std::string::npos)
            << e.what();
        EXPECT_NE(e.diagnostics().front().hint.find("'latency: "), std::string::npos) << e.what();
    }
    EXPECT_EQ(runtime.configuration()->generation, 1u);
    EXPECT_EQ(manager->on_device().tenants.size(), 2u) << "both stay";
    write("8s");
    runtime.reload();
    EXPECT_EQ(runtime.configuration()->generation, 2u);
    EXPECT_EQ(quick.parted() + slow.parted(), "") << "nobody has to come again";
}

}  // namespace
}  // namespace millrace::tenancy
