// Our own device halves pass the verifier, give the same packets and decisions when they are fenced, and a GPU's
// compiler takes what the rewriter wrote. The interpreter is checked on the way: it does what g++'s code does.
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "isolation/device_halves.hpp"
#include "isolation/hostile_corpus.hpp"
#include "millrace/device/cuda/compile/nf_source.hpp"
#include "millrace/isolation/kernel.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/ptx/writer.hpp"
#include "millrace/isolation/rewrite.hpp"

namespace millrace::isolation {
namespace {

using test::DeviceHalf;
using test::Frame;
using test::HalfResult;

Verdict verdict_of(const ptx::Module& module, const DeviceHalf& half) {
    Bounds bounds;
    bounds.shared_bytes = half.type().block_bytes;
    return verify(module, bounds);
}

ptx::Module rewritten(const ptx::Module& module, const Verdict& verdict, Isolation isolation, uint32_t guard,
                      uint32_t shared, std::string& text) {
    RewriteOptions options;
    options.isolation = isolation;
    options.window = test::kTestWindow;
    options.guard_bytes = guard;
    options.shared_bytes = shared;
    text = ptx::write(rewrite(module, verdict, options).module);
    ptx::Limits limits;
    limits.reserved_names = true;
    return ptx::read(text, "rewritten.ptx", limits);
}

class DeviceHalves : public testing::TestWithParam<test::HalfCase> {
protected:
    void SetUp() override {
        const auto [compiler, why] = test::isolation_compiler();
        if (compiler == nullptr) GTEST_SKIP() << why;
        half_ = std::make_unique<DeviceHalf>(GetParam().type, GetParam().options);
        // Compiled once, as that takes longest.
        static std::map<std::string, std::string> compiled;
        std::string& text = compiled[half_->type().name];
        if (text.empty()) text = half_->ptx();
        module_ = ptx::read(text, "half.ptx");
        verdict_ = verdict_of(module_, *half_);
        ASSERT_TRUE(verdict_.sound()) << ConfigError(verdict_.refusals).what();
    }
    std::unique_ptr<DeviceHalf> half_;
    ptx::Module module_;
    Verdict verdict_;
};

TEST_P(DeviceHalves, GiveTheSamePacketsAndDecisionsFencedCheckedAndBare) {
    constexpr size_t kPackets = 200;
    std::string text;
    const uint32_t shared = half_->type().block_bytes;
    const std::pair<const char*, ptx::Module> ways[] = {
        {"bare", module_},
        {"fenced", rewritten(module_, verdict_, Isolation::fenced, 0, shared, text)},
        {"fenced with guards", rewritten(module_, verdict_, Isolation::fenced, 2u << 20, shared, text)},
        {"checked", rewritten(module_, verdict_, Isolation::checked, 0, shared, text)}};
    test::Rng rng(20);
    test::RandomOptions random;
    random.max_payload = 300;
    half_->stage(module_);
    std::map<uint32_t, size_t> outcomes;
    uint64_t steps[4] = {};
    for (const Frame& frame : test::random_packets(rng, kPackets, random)) {
        const HalfResult want = half_->run_host(frame);
        if (want.parsed) ++outcomes[want.decision.outcome];
        for (size_t way = 0; way < std::size(ways); ++way) {
            const HalfResult got = half_->run(ways[way].second, frame, steps[way]);
            ASSERT_EQ(got, want) << ways[way].first << "\nin:\n"
                                 << test::hex_dump(frame) << "\nout:\n"
                                 << test::hex_dump(got.frame) << "\nwanted:\n"
                                 << test::hex_dump(want.frame);
        }
    }
    for (const auto& [outcome, count] : outcomes) std::cout << "  outcome " << outcome << ": " << count << " packets\n";
    EXPECT_FALSE(outcomes.empty());
    for (size_t way = 1; way < std::size(ways); ++way) {
        EXPECT_GT(steps[way], steps[0]) << "nothing was added";
        std::cout << "  " << ways[way].first << ": "
                  << 100.0 * (static_cast<double>(steps[way]) / static_cast<double>(steps[0]) - 1)
                  << " % more instructions run\n";
    }
}

TEST_P(DeviceHalves, AreTakenByTheCompilerForGpus) {
    for (const Isolation isolation : {Isolation::none, Isolation::checked, Isolation::fenced}) {
        std::string text;
        const ptx::Module made = rewritten(module_, verdict_, isolation, 2u << 20, half_->type().block_bytes, text);
        const std::string function = device::cuda::function_name(half_->type(), 1, "process");
        EXPECT_EQ(why_not_process(module_, function), "");
        EXPECT_TRUE(test::isolation_compiler()
                        .first->assemble(with_kernel(write_fenced(made, function)), "sm_90")
                        .starts_with("\177ELF"));
    }
}

INSTANTIATE_TEST_SUITE_P(Own, DeviceHalves, testing::ValuesIn(test::half_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Hostile, RewritesAreTakenByTheCompilerForGpus) {
    const auto [compiler, why] = test::isolation_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    size_t taken = 0;
    for (const test::HostileCase& one : test::hostile_cases()) {
        if (!one.refused.empty()) continue;
        Bounds bounds;
        bounds.shared_bytes = one.shared_bytes;
        const ptx::Module module = ptx::read(one.text, one.name);
        const Verdict verdict = verify(module, bounds);
        ASSERT_TRUE(verdict.sound()) << one.name;
        for (const Isolation isolation : {Isolation::fenced, Isolation::checked}) {
            std::string text;
            rewritten(module, verdict, isolation, 2u << 20, one.shared_bytes, text);
            try {
                EXPECT_TRUE(compiler->assemble(test::with_kernel(text, "hostile"), "sm_90").starts_with("\177ELF"))
                    << one.name;
                ++taken;
            } catch (const device::cuda::CompileError& e) {
                ADD_FAILURE() << one.name << ": " << e.what() << "\n" << text;
            }
        }
    }
    EXPECT_GT(taken, 100u);
}

}  // namespace
}  // namespace millrace::isolation
