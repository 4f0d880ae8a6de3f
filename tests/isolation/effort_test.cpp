// What a stranger's PTX costs whoever reads it: not much more where it is made to take long.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <functional>

#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/rewrite.hpp"

namespace millrace::isolation {
namespace {

/// A function of so many blocks, each of which writes a register and may go to another one.
std::string many_blocks(size_t blocks, size_t registers, const std::function<size_t(size_t)>& target) {
    std::string text =
        ".version 9.0\n.target sm_90\n.address_size 64\n"
        ".visible .func (.param .align 4 .b8 result[8]) process(.param .b64 packet, .param .b64 tables)\n"
        "{\n.reg .pred %p<2>;\n.reg .b32 %r<2>;\n.reg .b64 %rd<" +
        std::to_string(registers + 1) + ">;\nld.param.u64 %rd0, [packet];\nsetp.eq.u64 %p1, %rd0, 0;\n";
    for (size_t i = 0; i < blocks; ++i)
        text += "$L" + std::to_string(i) + ":\nadd.u64 %rd" + std::to_string((i + 1) % registers) + ", %rd" +
                std::to_string(i % registers) + ", 8;\n@%p1 bra $L" + std::to_string(target(i)) + ";\n";
    return text + "mov.u32 %r1, 0;\nst.param.b32 [result], %r1;\nst.param.b32 [result+4], %r1;\nret;\n}\n";
}

/// Of this thread's own time: other programs on the core do not count.
double seconds_of(const std::string& text) {
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double begin = now();
    const ptx::Module module = ptx::read(text, "long.ptx");
    const Verdict verdict = verify(module);
    EXPECT_TRUE(verdict.sound());
    rewrite(module, verdict, {});
    return now() - begin;
}

TEST(Effort, IsNotMuchMoreForWhatIsMadeToTakeLong) {
    constexpr size_t kBlocks = 40'000;
    const double usual = seconds_of(many_blocks(kBlocks, 64, [](size_t i) { return std::min(i + 2, kBlocks - 1); }));
    const auto expect_like = [&](const char* what, double seconds) {
        EXPECT_LT(seconds, 5 * usual + 1) << what << "; as much as is usual takes " << usual << " s";
    };
    expect_like("all go back to the first", seconds_of(many_blocks(kBlocks, 64, [](size_t) { return 0; })));
    expect_like("each goes one back, with many registers",
                seconds_of(many_blocks(kBlocks / 3, kBlocks / 3, [](size_t i) { return i == 0 ? 0 : i - 1; })));
    expect_like("anywhere", seconds_of(many_blocks(kBlocks, 64, [](size_t i) { return (i * 7919 + 13) % kBlocks; })));
}

}  // namespace
}  // namespace millrace::isolation
