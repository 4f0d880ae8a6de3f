// What the closing table says, and what fails a run.
#include "millrace/cli/text/report_text.hpp"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

exec::Report report_of(const std::string& chain) {
    exec::Report report;
    report.chains.emplace_back().name = chain;
    return report;
}

TEST(FailuresText, IsEmptyWhereAllIsInOrder) { EXPECT_EQ(failures_text(report_of("a")), ""); }

TEST(FailuresText, TellsOfLostEvents) {
    exec::Report report = report_of("a");
    report.chains[0].events = 5000;
    report.chains[0].events_lost = 1234;
    EXPECT_EQ(failures_text(report), "millrace: chain 'a': 1,234 events were lost\n");
    EXPECT_NE(report_text(report, 1).find("events    5,000, lost 1,234\n"), std::string::npos);
}

TEST(FailuresText, TellsOfUndeclaredOutcomesAndOfPacketsThatAreNotAccountedFor) {
    exec::Report report = report_of("a");
    report.chains[0].undeclared["probe"] = 1000;
    report.chains[0].received_packets = 1;
    EXPECT_EQ(failures_text(report),
              "millrace: 'probe' of chain 'a' gave 1,000 packets an outcome that it does not declare; they were "
              "dropped\nmillrace: the counters do not add up: packets were lost without a reason\n");
}

}  // namespace
}  // namespace millrace::cli
