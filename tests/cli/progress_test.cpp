#include "millrace/cli/text/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "millrace/cli/text/report_text.hpp"

namespace millrace::cli {
namespace {

TEST(Progress, TellsTheRateSinceTheLastLineAndNotSinceTheStart) {
    std::ostringstream out;
    Progress progress(out, false);
    EXPECT_FALSE(progress.due(4.9));
    EXPECT_TRUE(progress.due(5));
    progress.show(1'000'000, 625'000'000, -1, 5);
    EXPECT_EQ(out.str(), "1,000,000 packets  1.00 Gb/s\n");
    EXPECT_FALSE(progress.due(9.9));
    EXPECT_TRUE(progress.due(10));
    out.str("");
    progress.show(1'000'000, 625'000'000, -1, 10);
    EXPECT_EQ(out.str(), "1,000,000 packets  0.00 b/s\n") << "nothing came for five seconds";
    out.str("");
    progress.show(1'001'000, 625'125'000, -1, 11);
    EXPECT_EQ(out.str(), "1,001,000 packets  1.00 Mb/s\n");
}

TEST(Progress, IsALineThatIsWrittenOverOnATerminal) {
    std::ostringstream out;
    Progress progress(out, true);
    EXPECT_TRUE(progress.due(0.1));
    progress.show(500, 125, 0.5, 0.1);
    EXPECT_EQ(out.str().front(), '\r');
    EXPECT_EQ(out.str().find('\n'), std::string::npos);
    EXPECT_NE(out.str().find("50 %"), std::string::npos) << out.str();
    progress.end();
    progress.end();
    const std::string text = out.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(ClosingTable, HasNoRowsOfWhatDidNotHappen) {
    exec::Report report;
    report.engine = "cpu, run to completion";
    report.workers = 1;
    exec::ChainReport chain;
    chain.name = "c";
    chain.received_packets = chain.sent_packets = 10;
    chain.batches = 1;
    report.chains.push_back(chain);
    const std::string text = report_text(report, 1);
    for (const char* row : {"batches", "cpu  ", "bus  ", "ways", "events", "punts", "drops  ", "on cpu", "receiving",
                            "controllers", "no chain"})
        EXPECT_EQ(text.find(std::string("  ") + row), std::string::npos) << row << "\n" << text;
    EXPECT_NE(text.find("10 in, 10 sent, 0 dropped, 0 punted"), std::string::npos);
}

TEST(ClosingTable, NamesWhatItCounts) {
    exec::Report report;
    report.stray_injections = 3;
    report.unclassified_packets = 4;
    exec::ChainReport chain;
    chain.name = "c";
    chain.drops = {{"exit.no-punt-port", 1234}};
    chain.stages.us = {{"round-trip", 1.5}};
    chain.stages.cycles_per_packet = {{"layout", 2}};
    report.chains.push_back(chain);
    report.ports.push_back({"lan", "pcap", "", {}, "breaks off"});
    const std::string text = report_text(report, 1);
    for (const char* said : {"3 packets of controllers were for a chain that had gone", "4 packets were for no chain",
                             "exit.no-punt-port 1,234", "batches   round-trip 1.5 us on average",
                             "cpu       layout 2.0 cycles a packet", "port lan: breaks off"})
        EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
}

TEST(ClosingTable, HasTheBusiestOfAThousand) {
    exec::Report report;
    for (size_t i = 0; i < 1000; ++i) {
        exec::ChainReport chain;
        chain.name = "chain-" + std::to_string(i);
        chain.received_packets = i % 100 == 7 ? 5 : 1;
        report.chains.push_back(chain);
        report.ports.push_back({"port-" + std::to_string(i), "pcap", "", {}, ""});
    }
    report.ports[900].counters.sent_packets = 1;
    for (size_t i = 0; i < 1000; ++i) {
        exec::NodeReport node;
        node.name = node.kind = "nf-" + std::to_string(i);
        node.packets = i < 970 ? 3 : 4;
        report.chains[7].nodes.push_back(node);
    }
    const std::string text = report_text(report, 1);
    for (const char* said : {"chain chain-7:", "chain chain-907:", "\nport-900 ", "\nport-0 ", "\nnf-999 ", "\nnf-970 ",
                             "\nnf-9 ", "and 960 more network functions, none with more packets; --json has all",
                             "and 960 more ports", "and 960 more chains"})
        EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
    for (const char* said : {"chain-100:", "\nport-899 ", "\nnf-969 ", "\nnf-10 "})
        EXPECT_EQ(text.find(said), std::string::npos) << said << "\n" << text;
    EXPECT_LT(text.size(), 20'000u);
}

}  // namespace
}  // namespace millrace::cli
