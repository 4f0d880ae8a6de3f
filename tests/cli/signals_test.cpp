// Signals at many moments of a run, most of them while it starts.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "cli/program.hpp"

namespace millrace::test {
namespace {

class Signals : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(MILLRACE_INTERRUPT)) GTEST_SKIP() << "this build has no " << MILLRACE_INTERRUPT;
        yaml = folder.write("c.yaml",
                            "version: 1\nports: {in: {source: {count: 10}}, out: {sink: {}}}\nchains: {c: {input: in, "
                            "output: out, nfs: [mirror]}}\n");
        const Ended undisturbed = run(SIGHUP, -1);
        ASSERT_EQ(undisturbed.status, 0) << undisturbed.err;
        moments = std::stol("0" + undisturbed.out);
        ASSERT_GT(moments, 1000);
    }
    /// A run that gets this signal at that moment. Its `out` is how many moments it had.
    Ended run(int signal, long moment) {
        const std::string count = folder.path("count");
        Ended ended = run_program(
            {"run", yaml, "-q", "-o", folder.path("out")},
            {.environment = {"LD_PRELOAD=" MILLRACE_INTERRUPT, "INTERRUPT_WITH=" + std::to_string(signal),
                             "INTERRUPT_AT=" + std::to_string(moment), "INTERRUPT_COUNT=" + count},
             .standard_output = {}});
        ended.out = text_of_file(count);
        return ended;
    }
    void expect_good_ends(int signal, long tries) {
        for (long i = 0; i < tries; ++i) {
            const long moment = 1 + i * (moments - 1) / (tries - 1);
            const Ended ended = run(signal, moment);
            EXPECT_EQ(ended.status, 0) << "moment " << moment << " of " << moments << "\n" << ended.err;
        }
    }
    TestFolder folder;
    std::string yaml;
    long moments = 0;
};

TEST_F(Signals, ThatReloadKillNoRunWhateverItDoes) { expect_good_ends(SIGHUP, 16); }
TEST_F(Signals, ThatEndARunDoSoInOrderWhateverItDoes) {
    expect_good_ends(SIGTERM, 8);
    expect_good_ends(SIGINT, 8);
}

}  // namespace
}  // namespace millrace::test
