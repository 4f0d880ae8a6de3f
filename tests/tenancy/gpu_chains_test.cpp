// Chains whose tenants have their functions on a GPU, fenced: what goes in and out is what it is without.
#include <dlfcn.h>

#include "millrace/exec/promises/promise_watch.hpp"
#include "tenancy/on_the_gpu.hpp"
#include "tenancy/scene.hpp"
#include "tenancy/sender.hpp"
#include "tenancy/thread_tenant.hpp"

namespace millrace::tenancy {
namespace {

using namespace std::chrono_literals;
using test::OnTheGpu;
using test::Sender;
using test::Tenant;
using test::terms_for;
using test::wait_until;

/// What becomes of a chain's packets whose tenant has its function on the GPU, and in its process.
class ChainsOnTheGpu : public OnTheGpu {};

TEST_F(ChainsOnTheGpu, ChainsGiveTheSamePacketsWithAndWithoutIt) {
    const std::string node = test::node_of("mallory", "drop"), here = "        runs-on: process\n";
    const std::string checked = "        isolation: checked\n";
    for (const std::string& more : {std::string(), checked, here}) {
        SCOPED_TRACE(more);
        test::Scene scene("{name: mallory}, {name: honest}", test::two_chains(node + more), 0, 4000, 2, "cuda");
        Tenant tenant(scene.socket(), "mallory", "mirror", "{}"), honest(scene.socket(), "honest", "mirror", "{}");
        ASSERT_TRUE(scene.wait_for("mallory") && scene.wait_for("honest"));
        ASSERT_TRUE(wait_until([&] { return !tenant.placement().empty() && !honest.placement().empty(); }));
        if (tenant.placement().find("NVRTC") != std::string::npos) GTEST_SKIP() << tenant.placement();
        const bool on_gpu = more != here;
        EXPECT_EQ(tenant.placement().starts_with("placed: "), on_gpu) << tenant.placement();
        scene.runtime().start();
        scene.finish();
        EXPECT_EQ(scene.sent("out"), 4000u);
        EXPECT_EQ(scene.sent("out2"), 4000u);
        const exec::TenantReport report = scene.tenant("mallory");
        EXPECT_EQ(report.answered, 4000u);
        EXPECT_EQ(report.gpu_batches, on_gpu ? report.batches : 0u) << "the device did the work, or the process";
        EXPECT_EQ(report.chain_batches, report.gpu_batches) << "in one piece";
        EXPECT_GT(report.batches, 0u);
        EXPECT_EQ(report.runs_on, !on_gpu ? "process" : more == checked ? "GPU, checked" : "GPU, fenced");
        EXPECT_EQ(report.fence_instructions > 0, on_gpu);
        EXPECT_EQ(scene.tenant("honest").gpu_batches, scene.tenant("honest").batches);
    }
}

/// How many of the device's kernels ran on these multiprocessors; an emulated one tells.
uint64_t launches_on(schedule::SmRange sms) {
    const auto launches = reinterpret_cast<unsigned long long (*)(unsigned, unsigned)>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "emulator_launches_on"));
    return launches != nullptr ? launches(sms.first, sms.count) : 1;
}

TEST_F(ChainsOnTheGpu, TenantsHaveMultiprocessorsOfTheirOwn) {
    const std::string promise = "        rate: 1k\n        latency: 11s\n";
    test::Scene scene("{name: mallory}, {name: honest}",
                      test::two_chains(test::node_of("mallory", "drop", "10s", promise)), 0, 2000, 1, "cuda");
    exec::PromiseWatch watch(scene.runtime(), nullptr);
    exec::PromiseWatch::Clock::time_point now{};
    watch.update(now);
    EXPECT_EQ(watch.plans(), 0u) << "nobody is there";
    std::unique_ptr<Tenant> mallory, honest;
    const auto attach = [&](std::unique_ptr<Tenant>& one, const std::string& name) {
        one.reset();
        ASSERT_TRUE(wait_until([&] { return scene.tenant(name).state != "attached"; }));
        one = std::make_unique<Tenant>(scene.socket(), name, "mirror", "{}");
        // Who was promised something and could not be measured is refused, and gets no place.
        wait_until([&] { return !one->placement().empty(); }, std::chrono::seconds(10));
    };
    // An emulated GPU on busy cores may be too slow to be measured, or on the least partition, and nothing is planned.
    const auto measured = [&] {
        const auto present = scene.manager().on_device().tenants;
        return present.size() == 2 &&
               std::ranges::all_of(present, [](const auto& one) { return one.model.most_of_sm >= one.max_batch / 8; });
    };
    for (int tries = 0; tries < 5 && !measured(); ++tries) {
        attach(mallory, "mallory");
        attach(honest, "honest");
        if (HasFatalFailure()) return;
        if (honest->placement().find("NVRTC") != std::string::npos) GTEST_SKIP() << honest->placement();
    }
    const auto present = scene.manager().on_device().tenants;
    ASSERT_EQ(present.size(), 2u) << mallory->placement() << "; " << honest->placement();
    for (const auto& [name, model, max_batch] : present) {
        EXPECT_GT(max_batch, 0u) << name;
        EXPECT_GE(model.most_of_sm, max_batch / 8) << name << ": it was measured on the least partition, too";
        EXPECT_GT(model.kernel_ns(1000, 8), 0) << name;
        EXPECT_GT(model.transfer_ns(1000), 0) << name;
    }
    watch.update(now += std::chrono::seconds(1));
    EXPECT_EQ(watch.plans(), 1u);
    const auto shares = [&] {
        std::map<std::string, schedule::SmRange> all;
        for (const auto& program : scene.runtime().configuration()->chains)
            if (program->is_tenants)
                all[chain::tenant_of(program->nodes.front())->tenant().name] = program->gpu_share.sms;
        return all;
    };
    ASSERT_EQ(shares().size(), 2u);
    const schedule::SmRange first = shares()["mallory"], second = shares()["honest"];
    EXPECT_GT(first.count, 0u);
    EXPECT_GT(second.count, 0u);
    EXPECT_TRUE(first.first + first.count <= second.first || second.first + second.count <= first.first);
    EXPECT_EQ(watch.of_tenant("mallory").sms, first.count);
    scene.runtime().start();
    scene.finish();
    for (const char* const name : {"mallory", "honest"}) {
        EXPECT_EQ(scene.tenant(name).answered, 2000u);
        EXPECT_EQ(scene.tenant(name).gpu_batches, scene.tenant(name).batches);
    }
    EXPECT_GT(launches_on(first), 0u);
    EXPECT_GT(launches_on(second), 0u);
    // Who goes leaves its multiprocessors to others.
    mallory.reset();
    ASSERT_TRUE(wait_until([&] { return scene.tenant("mallory").state != "attached"; }));
    watch.update(now += std::chrono::seconds(1));
    EXPECT_TRUE(shares()["mallory"].all());
    EXPECT_GT(shares()["honest"].count, second.count);
    EXPECT_EQ(watch.of_tenant("mallory").sms, 0u);
}

TEST_F(ChainsOnTheGpu, GoOnInItsProcessWhereADeviceHalfIsRefused) {
    std::string barrier = test::reads_and_marks(0, 1);
    barrier.insert(barrier.find("mov.u32"), "bar.sync 0;\n");
    DeviceHalf stranger = test::half_of(test::reads_and_marks(0, 1), "marker"), forged = stranger;
    stranger.function = "another";
    forged.to_terms = {29};
    for (const auto& [half, why] :
         {std::pair(test::half_of(barrier, "marker"), "mallory.ptx:11:1: "),
          std::pair(stranger, "no function 'another'"), std::pair(forged, "an outcome that was not agreed on")}) {
        test::Scene scene("{name: mallory}",
                          "  own:\n    input: in\n    output: out\n    nfs:\n" + test::node_of("mallory", "drop") +
                              "  other: {input: in2, output: out2, "
                              "nfs: [mirror]}\n",
                          0, 1000, 1, "cuda");
        Sender mallory(scene.socket(), "mallory", half);
        ASSERT_TRUE(wait_until([&] { return !mallory.text().empty(); }));
        EXPECT_NE(mallory.text().find(why), std::string::npos) << mallory.text();
        scene.runtime().start();
        scene.finish();
        EXPECT_EQ(scene.tenant("mallory").answered, 1000u);
        EXPECT_EQ(scene.tenant("mallory").gpu_batches, 0u);
        EXPECT_EQ(scene.tenant("mallory").runs_on, "process");
        EXPECT_EQ(scene.sent("out"), 1000u);
    }
}

TEST_F(ChainsOnTheGpu, LetATenantGoWhoseFunctionSaysWhatItMayNot) {
    test::Scene scene(test::kTwo, test::two_chains(test::node_of("mallory", "bypass")), 0, 1000, 1, "cuda");
    // The outcome is the destination's first byte, or nothing that was declared, which is 0.
    Sender mallory(scene.socket(), "mallory", test::half_of(test::reads_and_marks(0, 1), "marker")),
        honest(scene.socket(), "honest", test::half_of(test::reads_and_marks(12, 0), "marker"));
    ASSERT_TRUE(wait_until([&] { return !mallory.text().empty() && !honest.text().empty(); }));
    scene.runtime().start();
    scene.finish();
    EXPECT_TRUE(wait_until([&] { return !mallory.parted().empty(); })) << scene.tenant("mallory").state;
    EXPECT_EQ(mallory.parted(), "it answered by an outcome that it does not have");
    EXPECT_GE(scene.tenant("mallory").misdeeds.at("wrong"), 1u);
    EXPECT_GT(scene.tenant("mallory").chain_batches, 0u) << "its chain was in one piece";
    EXPECT_EQ(scene.sent("out"), 1000u) << "bypass";
    EXPECT_EQ(scene.tenant("honest").answered, 1000u);
    EXPECT_EQ(scene.tenant("honest").gpu_batches, scene.tenant("honest").batches);
}

TEST_F(ChainsOnTheGpu, WhoMisbehavedThereGetsBackLater) {
    test::Scene scene(test::kTwo, test::two_chains(test::node_of("mallory", "bypass")), 0, 1000, 1, "cuda");
    const DeviceHalf half = test::half_of(test::reads_and_marks(0, 1), "marker");
    std::optional<Sender> mallory(std::in_place, scene.socket(), "mallory", half);
    ASSERT_TRUE(wait_until([&] { return !mallory->text().empty(); }));
    EXPECT_NE(mallory->text().find("fenced"), std::string::npos) << "at once: " << mallory->text();
    scene.runtime().start();
    ASSERT_TRUE(wait_until([&] { return !mallory->parted().empty(); }));
    ASSERT_TRUE(wait_until([&] { return scene.tenant("mallory").state != "attached"; }));
    const auto then = std::chrono::steady_clock::now();
    mallory.emplace(scene.socket(), "mallory", half);
    ASSERT_TRUE(wait_until([&] { return !mallory->text().empty(); }));
    EXPECT_NE(mallory->text().find("; again in 5 s"), std::string::npos) << mallory->text();
    ASSERT_TRUE(wait_until([&] { return mallory->text().find("fenced") != std::string::npos; })) << mallory->text();
    EXPECT_GT(std::chrono::steady_clock::now() - then, 4s);
    scene.finish();
}

TEST_F(ChainsOnTheGpu, WhatAFunctionWantsThatNoTenantHasKeepsItInItsProcess) {
    struct Case {
        const char* kind;
        const char* options;
        const char* why;
    };
    for (const Case& one :
         {Case{"policer", "{rate: 1Gbps}", "keeps state"}, Case{"nids", "{rules: []}", "tells of events"}}) {
        std::string why;
        try {
            FunctionHost host(*nf::find_type(one.kind), Config::parse(one.options), "acme", testing::TempDir());
            const Terms terms = terms_for(nf::type_of(*nf::find_type(one.kind), host.function()));
            host.agree(terms);
            host.check_device_half();
        } catch (const std::runtime_error& e) {
            why = e.what();
        }
        EXPECT_NE(why.find(one.why), std::string::npos) << one.kind << ": " << why;
    }
}

}  // namespace
}  // namespace millrace::tenancy
