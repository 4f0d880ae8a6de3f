#include "millrace/base/reporter.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "millrace/base/files/line_file.hpp"

namespace millrace {
namespace {

TEST(Reporter, KeepsWhatIsToldAfterWhoeverMadeItIsGone) {
    std::optional<Reporter> made(std::in_place);
    const Reporter teller = *made, listener = *made;
    made.reset();
    teller({{"a.yaml", 3, 1}, "a warning", ""});
    teller.trouble({{}, "a trouble", ""});
    const std::vector<Diagnostic> warnings = listener.take_warnings(), troubles = listener.take_troubles();
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0].where.line, 3u);
    EXPECT_EQ(warnings[0].severity, Diagnostic::Severity::warning);
    ASSERT_EQ(troubles.size(), 1u);
    EXPECT_EQ(troubles[0].severity, Diagnostic::Severity::error);
    EXPECT_TRUE(listener.take_warnings().empty());
}

TEST(Reporter, SaysHowManyItHadNoRoomFor) {
    const Reporter reporter;
    for (size_t i = 0; i < Reporter::kMax + 234; ++i) reporter({{}, std::to_string(i), ""});
    const std::vector<Diagnostic> warnings = reporter.take_warnings();
    ASSERT_EQ(warnings.size(), Reporter::kMax + 1);
    EXPECT_EQ(warnings.back().message, "234 more warnings came at once");
}

TEST(Reporter, IsToldByManyThreadsAtOnce) {
    const Reporter reporter;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([copy = reporter] {
            for (int j = 0; j < 1000; ++j) copy.trouble({{}, "x", ""});
        });
    size_t taken = 0;
    for (std::thread& thread : threads) thread.join();
    for (const Diagnostic& trouble : reporter.take_troubles()) taken += trouble.message == "x";
    EXPECT_EQ(taken, Reporter::kMax);
}

TEST(LineFile, CountsWhatCannotBeWrittenAndSaysSoOnce) {
    const Reporter reporter;
    LineFile file("/dev/full", "alerts", reporter);
    for (int i = 0; i < 3; ++i) {
        file.append("a");
        file.append("b");
        file.flush();
    }
    EXPECT_EQ(file.lost(), 6u);
    const std::vector<Diagnostic> troubles = reporter.take_troubles();
    ASSERT_EQ(troubles.size(), 1u);
    EXPECT_EQ(troubles[0].message, "/dev/full: cannot be written: No space left on device");
    EXPECT_EQ(troubles[0].hint, "alerts are lost until it can");
}

TEST(LineFile, SaysWhereItsFolderIsMissing) {
    const Reporter reporter;
    {
        LineFile file(testing::TempDir() + "no/such/folder/eve.json", "alerts", reporter);
        file.append("a");
        EXPECT_THROW(file.start_afresh(), std::runtime_error);
    }
    EXPECT_EQ(reporter.take_troubles().size(), 1u) << "what its end could not write is told";
}

}  // namespace
}  // namespace millrace
