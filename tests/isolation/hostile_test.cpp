// Each function of the corpus is refused for the reason that it gives, or harmless once it is fenced. Without a fence
// it does the harm that it says: else it would prove nothing.
#include <gtest/gtest.h>

#include <cstring>

#include "isolation/hostile_corpus.hpp"
#include "isolation/interpreter/machine.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/ptx/writer.hpp"
#include "millrace/isolation/rewrite.hpp"

namespace millrace::isolation {
namespace {

using test::HostileCase;
using test::ptx_machine::Machine;
using test::ptx_machine::MachineOptions;
using test::ptx_machine::Outcome;
using test::ptx_machine::Violation;
using test::ptx_machine::Window;

constexpr uint64_t kTenantsWindow = uint64_t{0x7000} << 32;
constexpr uint32_t kTenantsGuard = 2u << 20;
constexpr uint64_t kPacket = kTenantsWindow + 0x1000, kTables = kTenantsWindow + 0x2000;

/// One for all cases, as each takes some time to map.
Window& shared_window() {
    static Window window(kTenantsWindow, kTenantsGuard);
    return window;
}

class Hostile : public testing::TestWithParam<HostileCase> {
protected:
    /// The words of what is wrong with it; empty when nothing is.
    std::string refusal() {
        try {
            module_ = ptx::read(GetParam().text, "hostile.ptx");
        } catch (const ConfigError& e) {
            return e.what();
        }
        Bounds bounds;
        bounds.shared_bytes = GetParam().shared_bytes;
        verdict_ = verify(module_, bounds);
        return verdict_.sound() ? "" : ConfigError(verdict_.refusals).what();
    }

    static Outcome run(const ptx::Module& module, bool in_guards) {
        Window& window = shared_window();
        window.clear();
        window.open_guards(in_guards);
        MachineOptions options;
        options.shared_bytes = GetParam().shared_bytes;
        options.most_steps = 1'000'000;
        options.thread = 33;
        options.block = 2;
        return Machine(module, window, options).run("hostile", {kPacket, kTables});
    }

    /// The module as the text that a GPU's compiler would get says it.
    ptx::Module rewritten(Isolation isolation, uint32_t guard) {
        RewriteOptions options;
        options.isolation = isolation;
        options.window = kTenantsWindow;
        options.guard_bytes = guard;
        options.budget = 500;
        options.shared_bytes = GetParam().shared_bytes;
        text_ = ptx::write(rewrite(module_, verdict_, options).module);
        ptx::Limits limits;
        limits.reserved_names = true;
        return ptx::read(text_, "rewritten.ptx", limits);
    }

    void expect_harmless(Isolation isolation, uint32_t guard) {
        const Outcome outcome = run(rewritten(isolation, guard), guard > 0);
        EXPECT_TRUE(outcome.harmless()) << outcome.violation.what << "\n" << text_;
        if (!outcome.harmless() || outcome.result.size() != 8) return;
        uint64_t given = 0;
        std::memcpy(&given, outcome.result.data(), 8);
        const uint64_t left = RewriteOptions().verdict;
        if (GetParam().spent) {
            EXPECT_EQ(given, left) << text_;
        } else if (isolation == Isolation::fenced) {
            EXPECT_EQ(given, 0u) << "it does not come to its end\n" << text_;
        }
    }

    ptx::Module module_;
    Verdict verdict_;
    std::string text_;
};

TEST_P(Hostile, IsRefusedOrHarmless) {
    const std::string refused = refusal();
    if (!GetParam().refused.empty()) {
        EXPECT_NE(refused.find(GetParam().refused), std::string::npos) << refused << "\n" << GetParam().text;
        return;
    }
    ASSERT_EQ(refused, "") << GetParam().text;
    const Outcome bare = run(module_, false);
    const std::string harm = name_of(bare.violation.kind);
    const bool any = GetParam().unfenced == "any" && harm != "none";
    EXPECT_TRUE(any || harm == GetParam().unfenced) << harm << ": " << bare.violation.what << "\n" << GetParam().text;
    expect_harmless(Isolation::fenced, 0);
    expect_harmless(Isolation::fenced, kTenantsGuard);
    expect_harmless(Isolation::checked, 0);
}

INSTANTIATE_TEST_SUITE_P(Corpus, Hostile, testing::ValuesIn(test::hostile_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(HostileCorpus, HasHundredsOfCases) { EXPECT_GE(test::hostile_cases().size(), 480u); }
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Hostile);

}  // namespace
}  // namespace millrace::isolation
