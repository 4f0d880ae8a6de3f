// What the verifier tells, and what the rewriter adds.
#include <gtest/gtest.h>

#include <cstring>

#include "isolation/hostile_corpus.hpp"
#include "isolation/interpreter/machine.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/ptx/writer.hpp"
#include "millrace/isolation/rewrite.hpp"

namespace millrace::isolation {
namespace {

using test::function_around;
using test::ptx_machine::Machine;
using test::ptx_machine::MachineOptions;
using test::ptx_machine::Outcome;
using test::ptx_machine::Window;

constexpr uint64_t kWindow = uint64_t{0x7000} << 32;

struct Made {
    FunctionReport report;
    std::string text;
    ptx::Module module;
};

Made make(const std::string& text, RewriteOptions options = {}) {
    const ptx::Module module = ptx::read(text, "test.ptx");
    const Verdict verdict = verify(module);
    EXPECT_TRUE(verdict.sound()) << ConfigError(verdict.refusals).what();
    options.window = kWindow;
    Rewritten rewritten = rewrite(module, verdict, options);
    Made made{rewritten.functions.at(0), ptx::write(rewritten.module), {}};
    ptx::Limits limits;
    limits.reserved_names = true;
    made.module = ptx::read(made.text, "rewritten.ptx", limits);
    return made;
}

RewriteOptions with_guard(uint32_t bytes) {
    RewriteOptions options;
    options.guard_bytes = bytes;
    return options;
}

TEST(Verifier, TellsLineInstructionWhyAndWhatMends) {
    const ptx::Module module = ptx::read(
        ".version 9.0\n.target sm_90\n.address_size 64\n.file 1 \"deep.hpp\"\n.visible .func f()\n{\n.loc 1 77 3\n"
        "\tbar.sync 0;\nret;\n}\n",
        "test.ptx");
    const Verdict verdict = verify(module);
    ASSERT_EQ(verdict.refusals.size(), 1u);
    const Diagnostic& refusal = verdict.refusals[0];
    EXPECT_EQ(refusal.where.line, 8u);
    EXPECT_EQ(refusal.where.column, 2u);
    EXPECT_EQ(refusal.message,
              "'bar.sync 0;' is refused: threads that do not come leave the others waiting for ever (in f, from "
              "deep.hpp:77)");
    EXPECT_EQ(refusal.hint, "work on one packet with one lane, without barriers");
}

TEST(Verifier, TellsEveryRefusalUpToALimit) {
    std::string body;
    for (int i = 0; i < 70; ++i) body += "trap;\n";
    const ptx::Module module = ptx::read(function_around(body), "test.ptx");
    EXPECT_EQ(verify(module).refusals.size(), Bounds().most_refusals);
}

TEST(Fence, AddsWhatAnAccessNeedsAndNoMore) {
    const std::pair<const char*, size_t> exact[] = {
        {"ld.u8 %rs1, [%rd1];", 2},    // low half, window
        {"ld.u32 %r1, [%rd1];", 3},    // and aligned
        {"ld.u8 %rs1, [%rd1+7];", 3},  // and offset
        {"ld.u32 %r1, [%rd1+8];", 4}, {"st.v4.u32 [%rd1+16], {%r1, %r1, %r1, %r1};", 4},
    };
    for (const auto& [body, added] : exact)
        EXPECT_EQ(make(function_around("mov.u32 %r1, 1;\n" + std::string(body)), with_guard(0)).report.for_window,
                  added)
            << body;
    // With guards an offset costs nothing, and one fence serves several accesses by a pointer.
    const std::string three = "ld.u32 %r1, [%rd1];\nld.u32 %r2, [%rd1+4];\nst.u32 [%rd1+-8], %r1;";
    EXPECT_EQ(make(function_around(three), with_guard(4096)).report.for_window, 3u);
    EXPECT_EQ(make(function_around(three), with_guard(0)).report.for_window, 11u);
}

TEST(Fence, IsMadeAnewWhenItsPointerChanges) {
    const std::string body =
        "ld.u32 %r1, [%rd1];\nadd.s64 %rd1, %rd1, 4;\nld.u32 %r2, [%rd1];\nst.v2.u32 [%rd2], {%r1, %r2};";
    const Made made = make(function_around(body), with_guard(4096));
    EXPECT_EQ(made.report.for_window, 9u);
    Window window(kWindow, 4096);
    const uint32_t words[2] = {11, 22};
    std::memcpy(window.at(kWindow + 64, 8).data(), words, 8);
    ASSERT_TRUE(Machine(made.module, window).run("hostile", {kWindow + 64, kWindow + 128}).harmless());
    EXPECT_EQ(std::memcmp(window.at(kWindow + 128, 8).data(), words, 8), 0) << made.text;
}

TEST(Fence, IsMadeAnewInEveryBlock) {
    const std::string body =
        "setp.eq.s64 %p1, %rd2, 0;\n@%p1 bra $end;\nld.u32 %r1, [%rd1];\n$end:\nld.u32 %r2, [%rd1];";
    EXPECT_EQ(make(function_around(body), with_guard(4096)).report.for_window, 6u);
}

TEST(Fence, KeepsAnOffsetThatDoesNotFitItsWidthOutOfTheSharedBase) {
    // The pointer need not be aligned where pointer and offset together are.
    const std::string body = "add.s64 %rd3, %rd1, 2;\nld.u32 %r1, [%rd3+2];\nst.u32 [%rd2], %r1;";
    const Made made = make(function_around(body), with_guard(4096));
    Window window(kWindow, 4096);
    const uint32_t words[2] = {11, 22};
    std::memcpy(window.at(kWindow + 64, 8).data(), words, 8);
    ASSERT_TRUE(Machine(made.module, window).run("hostile", {kWindow + 64, kWindow + 128}).harmless());
    EXPECT_EQ(window.at(kWindow + 128, 4)[0], 22) << made.text;
}

TEST(Fence, LeavesProvenAccessesAlone) {
    const Made made = make(
        function_around(".local .align 8 .b8 v[32];\nmov.u64 %rd3, v;\nadd.s64 %rd4, %rd3, 8;\n"
                        "st.local.u64 [%rd4+16], %rd1;\nld.local.u64 %rd5, [v+24];"));
    EXPECT_EQ(made.report.proven_accesses, 2u);
    EXPECT_EQ(made.report.for_window + made.report.for_objects, 0u);
    EXPECT_EQ(made.report.for_clearing, 3u) << "one zero and two stores of it";
}

TEST(Fence, DoesNotTrustARegisterThatIsSetLater) {
    // On the first round the register is not the variable's address yet.
    const std::string body =
        ".local .align 8 .b8 v[32];\nmov.u32 %r1, 0;\n$again:\nsetp.eq.s32 %p1, %r1, 0;\n"
        "@%p1 bra $skip;\nst.local.u64 [%rd3], %rd1;\n$skip:\nmov.u64 %rd3, v;\n"
        "add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p2, %r1, 3;\n@%p2 bra $again;";
    const Made made = make(function_around(body));
    EXPECT_EQ(made.report.proven_accesses, 0u);
    EXPECT_EQ(made.report.object_accesses, 1u);
}

/// The smallest budget with which a function comes to its end, and what it runs then without any.
std::pair<uint32_t, uint64_t> smallest_budget(const std::string& text, uint64_t wanted) {
    Window window(kWindow, 2u << 20);
    const auto finishes = [&](uint32_t budget) {
        RewriteOptions options;
        options.budget = budget;
        options.verdict = 0x1122334455667788;
        const Made made = make(text, options);
        const Outcome outcome = Machine(made.module, window).run("hostile", {kWindow + 64, kWindow + 128});
        EXPECT_TRUE(outcome.harmless()) << outcome.violation.what << made.text;
        uint64_t given = 0;
        std::memcpy(&given, outcome.result.data(), 8);
        EXPECT_TRUE(given == wanted || given == options.verdict) << given;
        return given == wanted;
    };
    uint32_t fails = 0, enough = 1u << 20;
    EXPECT_TRUE(finishes(enough));
    while (enough - fails > 1) {
        const uint32_t middle = fails + (enough - fails) / 2;
        (finishes(middle) ? enough : fails) = middle;
    }
    const ptx::Module bare = ptx::read(text, "bare.ptx");
    return {enough, Machine(bare, window).run("hostile", {kWindow + 64, kWindow + 128}).steps};
}

TEST(Budget, IsTheInstructionsOfAllLoopsTogether) {
    const std::string body =
        "mov.u32 %r1, 0;\n$a:\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 50;\n@%p1 bra $a;\nmov.u32 %r2, 0;\n$b:\n"
        "add.s32 %r2, %r2, 1;\nsetp.lt.s32 %p1, %r2, 90;\n@%p1 bra $b;\nst.u32 [%rd1], %r2;";
    const auto [budget, steps] = smallest_budget(function_around(body), 0);
    EXPECT_GT(steps, 400u);
    EXPECT_GE(budget + 10, steps);
    EXPECT_LE(budget, 2 * steps) << "the longest way is counted, though not so much longer";
}

TEST(Budget, CountsTheLongestWay) {
    // Of two ways through a loop one is long; what is counted is that one.
    std::string body = "mov.u32 %r1, 0;\n$a:\nadd.s32 %r1, %r1, 1;\nsetp.ne.s64 %p2, %rd1, 0;\n@%p2 bra $short;\n";
    for (int i = 0; i < 100; ++i) body += "add.s32 %r2, %r1, 1;\n";
    body += "$short:\nsetp.lt.s32 %p1, %r1, 10;\n@%p1 bra $a;";
    const auto [budget, steps] = smallest_budget(function_around(body), 0);
    EXPECT_LT(steps, 100u);
    EXPECT_GT(budget, 1000u);
}

TEST(Budget, IsSharedWithFunctionsThatAreCalled) {
    const std::string text =
        ".version 9.0\n.target sm_90\n.address_size 64\n.func (.param .b32 given) rounds(.param .b32 count)\n{\n"
        ".reg .pred %p<2>;\n.reg .b32 %r<3>;\nld.param.u32 %r1, [count];\nmov.u32 %r2, 0;\n$a:\nadd.s32 %r2, %r2, 1;\n"
        "setp.lt.s32 %p1, %r2, %r1;\n@%p1 bra $a;\nst.param.b32 [given], %r2;\nret;\n}\n"
        ".visible .func (.param .align 8 .b8 result[8]) hostile(.param .b64 packet)\n{\n.reg .b32 %r<4>;\n"
        "mov.u32 %r1, 7;\n{\n.param .b32 c;\n.param .b32 g;\nst.param.b32 [c], %r1;\ncall (g), rounds, (c);\n"
        "ld.param.b32 %r2, [g];\n}\n{\n.param .b32 c;\n.param .b32 g;\nst.param.b32 [c], %r1;\ncall (g), rounds, (c);\n"
        "ld.param.b32 %r3, [g];\n}\nadd.s32 %r2, %r2, %r3;\nst.param.b32 [result], %r2;\nst.param.b32 [result+4], 0;\n"
        "ret;\n}\n";
    const auto [budget, steps] = smallest_budget(text, 14);
    EXPECT_GT(steps, 50u);
    EXPECT_GE(budget + 12, steps);
    EXPECT_LE(budget, 2 * steps);
}

TEST(Budget, RefusesWhatRunsTooLongWithoutALoop) {
    // Each function calls the one before it, which has no loop and calls nothing, so that nobody counts.
    std::string text =
        ".version 9.0\n.target sm_90\n.address_size 64\n.func leaf()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, 0;\n";
    for (int i = 0; i < 5000; ++i) text += "add.s32 %r1, %r1, 1;\n";
    text += "ret;\n}\n.visible .func top()\n{\n";
    for (int i = 0; i < 4000; ++i) text += "call leaf;\n";
    text += "ret;\n}\n";
    const Verdict verdict = verify(ptx::read(text, "long.ptx"));
    ASSERT_EQ(verdict.refusals.size(), 1u);
    EXPECT_NE(verdict.refusals[0].message.find("without coming to a loop"), std::string::npos);
}

TEST(Budget, IsNotKeptWhereNothingRepeats) {
    EXPECT_EQ(make(function_around("ld.u32 %r1, [%rd1];")).report.for_budget, 0u);
}

TEST(Clearing, TouchesOnlyWhatIsReadBeforeItIsWritten) {
    EXPECT_EQ(make(function_around("mov.u32 %r1, 1;\nadd.s32 %r2, %r1, 1;")).report.for_clearing, 0u);
    EXPECT_EQ(make(function_around("add.s32 %r2, %r1, 1;")).report.for_clearing, 1u);
}

TEST(Rewriter, LeavesEverythingAsItIsWithoutIsolation) {
    RewriteOptions options;
    options.isolation = Isolation::none;
    const std::string text = function_around("$a:\nld.u32 %r1, [%rd1];\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra $a;");
    const Made made = make(text, options);
    EXPECT_EQ(made.report.added(), 0u);
    EXPECT_EQ(made.text, ptx::write(ptx::read(text, "x")));
}

TEST(Checked, LeavesTheFunctionAtTheFirstAccessBeyond) {
    RewriteOptions options;
    options.isolation = Isolation::checked;
    const std::string body = "mov.u32 %r1, 1;\nst.u32 [%rd2], %r1;\nst.u32 [%rd1@], %r1;\nst.u32 [%rd2+4], %r1;";
    for (const auto& [offset, finishes] : {std::pair("", true), std::pair("+-4", false), std::pair("+2", false)}) {
        std::string text = body;
        text.replace(text.find('@'), 1, offset);
        const Made made = make(function_around(text), options);
        Window window(kWindow, 0);
        const Outcome outcome = Machine(made.module, window).run("hostile", {kWindow, kWindow + 128});
        ASSERT_TRUE(outcome.harmless()) << outcome.violation.what;
        EXPECT_EQ(window.at(kWindow + 128, 4)[0], 1);
        EXPECT_EQ(window.at(kWindow + 132, 4)[0], finishes ? 1 : 0) << offset;
    }
}

}  // namespace
}  // namespace millrace::isolation
