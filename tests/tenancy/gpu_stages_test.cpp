// Chains with a tenant's function that has CPU stages, on a GPU: what goes in and out is what its process alone gives.
#include "support/engine_runner.hpp"
#include "tenancy/scene.hpp"
#include "tenancy/stages.hpp"
#include "tenancy/thread_tenant.hpp"

namespace millrace::tenancy {
namespace {

using namespace std::chrono_literals;
using millrace::test::Frame;
using test::Asked;
using test::OnTheGpu;
using test::Tenant;
using test::wait_until;

constexpr const char* kTerms =
    "reads: [ip.src, ip.tos, ip.checksum]\n        writes: [ip.tos, ip.checksum]\n        outcomes: {marked: next, "
    "guest: next, stranger: drop, not-ipv4: next}\n        absent: drop\n        patience: 10s\n";

std::string chain_with(const std::string& more) {
    return "  own:\n    input: in\n    output: out\n    nfs:\n      - {mirror: {}}\n      - tenant: acme\n        " +
           std::string(kTerms) + more + "      - {mirror: {}, name: last}\n" +
           "  other: {input: in2, output: out2, nfs: [mirror]}\n";
}

class ChainsWithStagesOnTheGpu : public OnTheGpu {
protected:
    /// What becomes of frames at the function, of the tenant's own part of the chain; nothing without NVRTC.
    std::optional<std::vector<millrace::test::Outcome>> run(const std::vector<Frame>& frames, size_t burst,
                                                            bool on_gpu) {
        const millrace::test::TestFolder folder;
        chain::LoadOptions options;
        options.output_folder = folder.path();
        const chain::Configuration configuration = chain::parse_configuration(
            "version: 1\nports: {in: {null: {}}, out: {null: {}}}\ntenants: [{name: acme}]\nchains:\n  own:\n"
            "    input: in\n    output: out\n    nfs:\n      - tenant: acme\n        " +
                std::string(kTerms) + (on_gpu ? "" : "        runs-on: process\n"),
            "(test)", options);
        Manager manager(1);
        manager.run_on(device_);
        manager.follow(configuration);
        Tenant tenant(folder / "tenants.sock", "acme", test::marks().name, test::kMarks);
        EXPECT_TRUE(wait_until([&] { return !tenant.placement().empty(); }));
        if (tenant.placement().find("NVRTC") != std::string::npos) return std::nullopt;
        EXPECT_EQ(tenant.placement().starts_with("placed: "), on_gpu) << tenant.placement();
        millrace::test::Collector collector;
        const auto engine = manager.engine(collector, 0, 8192);
        exec::ChainCounters counters(*configuration.chains.front());
        std::vector<rte_mbuf*> mbufs;
        for (size_t i = 0; i < frames.size(); ++i) {
            mbufs.push_back(millrace::test::make_mbuf(frames[i], i));
            if (mbufs.size() < burst && i + 1 < frames.size()) continue;
            engine->submit(configuration.chains.front(), counters, mbufs.data(), mbufs.size());
            mbufs.clear();
            if (engine->in_flight() > 2048) engine->drain();
        }
        engine->drain();
        const exec::TenantReport report = manager.report().front();
        EXPECT_EQ(report.answered, report.packets);
        EXPECT_TRUE(report.absent.empty());
        EXPECT_EQ(report.gpu_batches, on_gpu ? report.batches : 0);
        EXPECT_EQ(report.stages.size(), on_gpu ? 3u : 0u) << "each has its time";
        return std::move(collector.outcomes);
    }
};

TEST_F(ChainsWithStagesOnTheGpu, GiveThePacketsThatTheProcessAloneGives) {
    for (const size_t burst : {size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{256}}) {
        SCOPED_TRACE(burst);
        std::vector<Frame> frames;
        for (Asked& packet : test::packets_of_customers(burst < 31 ? 40 : burst < 256 ? 330 : 1500, burst))
            frames.push_back(std::move(packet.frame));
        const auto wanted = run(frames, burst, false), got = run(frames, burst, true);
        if (!wanted || !got) GTEST_SKIP() << "there is no NVRTC";
        ASSERT_EQ(got->size(), frames.size());
        ASSERT_EQ(wanted->size(), frames.size());
        std::set<uint32_t> outcomes;
        size_t changed = 0;
        for (size_t i = 0; i < frames.size(); ++i) {
            const auto &one = (*wanted)[i], &other = (*got)[i];
            ASSERT_EQ(other.number, i) << "they keep their order";
            ASSERT_EQ(one.number, i);
            ASSERT_EQ(other.verdict.decision.outcome, one.verdict.decision.outcome) << i;
            ASSERT_EQ(other.verdict.target, one.verdict.target);
            ASSERT_EQ(millrace::test::hex_dump(other.frame), millrace::test::hex_dump(one.frame)) << i;
            outcomes.insert(one.verdict.decision.outcome);
            changed += !one.frame.empty() && one.frame != frames[i];
        }
        EXPECT_GT(changed, 0u);
        EXPECT_EQ(outcomes.size(), 4u) << "packets of each kind came";
    }
}

/// A whole run: the stages of one batch are at work beside the device's work at another.
TEST_F(ChainsWithStagesOnTheGpu, StagesWorkBesideTheDevice) {
    test::Scene scene("{name: acme}", chain_with(""), 0, 6000, 2, "cuda");
    Tenant tenant(scene.socket(), "acme", test::marks().name, "{customers: {10.0.0.0/24: 46}, guests: 1000000}");
    ASSERT_TRUE(wait_until([&] { return !tenant.placement().empty(); }));
    if (tenant.placement().find("NVRTC") != std::string::npos) GTEST_SKIP() << tenant.placement();
    ASSERT_TRUE(tenant.placement().starts_with("placed: ")) << tenant.placement();
    scene.runtime().start();
    scene.finish();
    const exec::TenantReport report = scene.tenant("acme");
    EXPECT_EQ(report.answered, 6000u);
    EXPECT_EQ(report.gpu_batches, report.batches);
    EXPECT_EQ(report.chain_batches, 0u) << "its process has a part in each batch, so its chain goes in parts";
    EXPECT_GT(report.stages_beside, 0u);
    for (const char* stage : {"before", "device", "after"}) {
        ASSERT_TRUE(report.stages.contains(stage)) << stage;
        EXPECT_GT(report.stages.at(stage).p50_ns, 0u);
        EXPECT_GE(report.stages.at(stage).p99_ns, report.stages.at(stage).p50_ns);
    }
    EXPECT_EQ(scene.sent("out2"), 6000u);
    EXPECT_EQ(scene.sent("out"), 6000u);
}

}  // namespace
}  // namespace millrace::tenancy
