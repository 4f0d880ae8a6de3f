// Promises to tenants, while their processes come, work and are killed.
#include <gtest/gtest.h>
#include <signal.h>

#include "millrace/exec/promises/promise_watch.hpp"
#include "tenancy/scene.hpp"

namespace millrace::tenancy {
namespace {

using namespace std::chrono_literals;
using exec::PromiseReport;
using exec::PromiseState;
using exec::PromiseWatch;
using test::node_of;
using test::Process;
using test::Scene;
using test::wait_until;

constexpr const char* kPromise = "        rate: 1M\n        latency: 10s\n";

/// Looks again and again, each time as if an interval had passed, until the last one was as asked for.
class Looker {
public:
    explicit Looker(PromiseWatch& watch) : watch_(watch) {}
    void look() {
        watch_.update(now_ += PromiseWatch::kInterval);
        longest_of_chain = std::max(longest_of_chain, watch_.of_chain("own").longest_ns);
        longest_of_tenant = std::max(longest_of_tenant, watch_.of_tenant("mallory").longest_ns);
    }
    uint64_t longest_of_chain = 0, longest_of_tenant = 0;  ///< in any interval
    bool wait_for(const std::string& tenant, PromiseState state) {
        return wait_until([&] {
            std::this_thread::sleep_for(5ms);
            look();
            return watch_.of_tenant(tenant).now == state;
        });
    }

private:
    PromiseWatch& watch_;
    PromiseWatch::Clock::time_point now_{};
};

TEST(TenantPromises, AreBrokenWhileATenantIsKilledAndKeptAgain) {
    Scene scene(
        "{name: mallory}",
        "  own:\n    input: in\n    output: out\n    rate: 1M\n    latency: 30s\n    nfs:\n      - mirror: {}\n" +
            node_of("mallory", "bypass", "10s", kPromise) +
            "      - {mirror: {}, name: last}\n"
            "  other: {input: in2, output: out2, nfs: [mirror]}\n",
        20'000, 1'000'000);
    auto first = std::make_unique<Process>([&] { return test::serve(scene.socket(), "mallory", "mirror", "{}"); });
    ASSERT_TRUE(scene.wait_for("mallory"));
    PromiseWatch watch(scene.runtime(), nullptr);
    Looker looker(watch);
    looker.look();
    scene.runtime().start();
    ASSERT_TRUE(looker.wait_for("mallory", PromiseState::kept));
    EXPECT_EQ(watch.of_tenant("mallory").rate_broken, 0u);
    EXPECT_EQ(watch.of_tenant("mallory").rate, 1e6);
    first->signal(SIGKILL);
    ASSERT_TRUE(looker.wait_for("mallory", PromiseState::rate)) << "packets are absent";
    const Process again([&] { return test::serve(scene.socket(), "mallory", "mirror", "{}"); });
    ASSERT_TRUE(looker.wait_for("mallory", PromiseState::kept));
    const PromiseReport tenant = watch.of_tenant("mallory"), chain = watch.of_chain("own");
    EXPECT_GE(tenant.rate_broken, 1u);
    EXPECT_GT(tenant.intervals, tenant.rate_broken);
    EXPECT_EQ(tenant.latency_broken, 0u);
    EXPECT_GT(tenant.longest_ns, 0u);
    EXPECT_GE(chain.intervals, tenant.rate_broken);
    EXPECT_EQ(chain.rate_broken + chain.latency_broken, 0u) << "absent: bypass";
    EXPECT_GE(looker.longest_of_chain, looker.longest_of_tenant) << "the tenant's part is one of the chain's";
    EXPECT_FALSE(watch.of_chain("own/mallory").made());
    scene.runtime().stop();
    exec::Report report = scene.finish();
    watch.add_to(report);
    EXPECT_TRUE(report.tenants[0].promise.made());
}

TEST(TenantPromises, OfALatencyAreBrokenByATenantThatIsSlow) {
    Scene scene("{name: slow}",
                "  own:\n    input: in\n    output: out\n    nfs:\n" +
                    node_of("slow", "bypass", "20ms", "        rate: 1M\n        latency: 20ms\n") +
                    "  other: {input: in2, output: out2, nfs: [mirror]}\n",
                10'000, 1'000'000);
    const Process slow([&] {
        Member member(scene.socket(), "slow");
        while (member.attached())
            if (const auto batch = member.next(100ms)) {
                std::this_thread::sleep_for(15ms);
                for (uint32_t i = 0; i < batch->count; ++i) batch->outcome(i) = 0;
                member.answer(*batch);
            }
        return 0;
    });
    ASSERT_TRUE(scene.wait_for("slow"));
    PromiseWatch watch(scene.runtime(), nullptr);
    Looker looker(watch);
    looker.look();
    scene.runtime().start();
    EXPECT_TRUE(wait_until([&] {
        std::this_thread::sleep_for(5ms);
        looker.look();
        return watch.of_tenant("slow").latency_broken > 0;
    })) << "batches of three slots wait for each other";
    scene.runtime().stop();
    scene.finish();
}

TEST(TenantPromises, OfSixtyFourAreToldApart) {
    constexpr int kTenants = 64;
    std::string tenants, nodes;
    const auto name = [](int i) { return "t" + std::to_string(i); };
    for (int i = 0; i < kTenants; ++i) {
        tenants += (i > 0 ? ", {name: " : "{name: ") + name(i) + "}";
        nodes += node_of(name(i), "bypass", "10s", i % 4 == 3 ? "" : kPromise);
    }
    Scene scene(tenants,
                "  own:\n    input: in\n    output: out\n    nfs:\n" + nodes +
                    "  other: {input: in2, output: out2, nfs: [mirror]}\n",
                0, 250);
    std::vector<std::unique_ptr<Process>> processes;  // of each other one
    for (int i = 0; i < kTenants; i += 2)
        processes.push_back(
            std::make_unique<Process>([&, i] { return test::serve(scene.socket(), name(i), "mirror", "{}"); }));
    for (int i = 0; i < kTenants; i += 2) ASSERT_TRUE(scene.wait_for(name(i)));
    PromiseWatch watch(scene.runtime(), nullptr);
    Looker looker(watch);
    looker.look();
    scene.runtime().start();
    exec::Report report = scene.finish();
    looker.look();
    watch.add_to(report);
    ASSERT_EQ(report.tenants.size(), size_t{kTenants});
    for (const exec::TenantReport& one : report.tenants) {
        const int i = std::stoi(one.name.substr(1));
        EXPECT_EQ(one.promise.made(), i % 4 != 3) << one.name;
        if (!one.promise.made()) continue;
        EXPECT_EQ(one.promise.offered, 500) << one.name;
        EXPECT_EQ(one.promise.now, i % 2 == 0 ? PromiseState::kept : PromiseState::rate) << one.name;
    }
}

}  // namespace
}  // namespace millrace::tenancy
