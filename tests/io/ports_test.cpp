#include "io/support.hpp"

#include "millrace/io/ring_port.hpp"

namespace millrace::io {
namespace {

using test::mistake;
using test::ports;
using test::pump;

TEST(Ports, AreMadeInTheOrderOfTheFileAndKnowTheirIndex) {
    const auto made = ports("b: { sink: {} }\na: { source: { count: 1 } }\nc: { null: }\n");
    ASSERT_EQ(made.size(), 3u);
    EXPECT_EQ(made[0]->name(), "b");
    EXPECT_EQ(made[1]->name(), "a");
    EXPECT_EQ(made[1]->index(), 1);
    EXPECT_TRUE(made[1]->can_receive());
    EXPECT_FALSE(made[1]->can_send());
    EXPECT_FALSE(made[2]->can_receive());
    EXPECT_TRUE(made[2]->can_send());
    EXPECT_EQ(made[2]->info().kind, "null");
}

TEST(Ports, SayWhereAndWhatIsWrong) {
    EXPECT_NE(mistake("in: { sorce: {} }").find("did you mean 'source'"), std::string::npos);
    EXPECT_NE(mistake("in:\n  queues: 1\n").find("ports.yaml:2:3"), std::string::npos);
    EXPECT_NE(mistake("in: { sink: {}, null: {} }").find("make it two ports"), std::string::npos);
    EXPECT_NE(mistake("in: { sink: { keeep: 3 } }").find("did you mean 'keep'"), std::string::npos);
    EXPECT_NE(mistake("in: { sink: {}, queues: 0 }").find("out of range"), std::string::npos);
    EXPECT_NE(mistake("in: { pcap: nowhere.pcap }").find("No such file"), std::string::npos);
    EXPECT_NE(mistake("in: { pcap: /tmp }").find("is a folder, not a file"), std::string::npos);
    EXPECT_NE(mistake("in: { ring: x }").find("one end only"), std::string::npos);
    EXPECT_NE(mistake("a: { ring: x }\nb: { ring: x }\nc: { ring: x }").find("two ends already"), std::string::npos);
    EXPECT_NE(mistake("a: { ring: x }\nb: { ring: x, queues: 2 }").find("differ"), std::string::npos);
    EXPECT_NE(mistake("in: sink").find("is not a map"), std::string::npos);
    EXPECT_NE(mistake("{}").find("no ports"), std::string::npos);
    const std::string both = mistake("a: { sink: { x: 1 } }\nb: { null: {}, y: 2 }\n");
    EXPECT_NE(both.find("'x'"), std::string::npos);
    EXPECT_NE(both.find("'y'"), std::string::npos);
}

/// The second writer would cut off what the first has written.
TEST(Ports, RefuseAFileThatAnotherPortWrites) {
    const test::TestFolder folder;
    const std::string capture = folder / "in.pcap", link = folder / "link.pcap", hard_link = folder / "hard.pcap";
    {
        const auto made = ports("in: { source: { count: 3 } }\nout: { output: " + capture + " }\n");
        pump(*made[0], *made[1]);
    }
    std::filesystem::create_symlink(capture, link);
    std::filesystem::create_hard_link(capture, hard_link);
    const std::string twice = "a: { output: " + capture + " }\nb:\n  output: ";
    EXPECT_EQ(mistake("a: { output: " + (folder / "x.pcap") + " }\nb:\n  output: " + (folder / "y.pcap") + "\n"), "");
    EXPECT_EQ(mistake("a: { output: /dev/null }\nb: { output: /dev/null }\n"), "");
    EXPECT_EQ(mistake("a: { pcap: " + capture + " }\nb: { pcap: " + capture + " }\n"), "") << "reading harms nobody";
    for (const std::string& name :
         {capture, folder.path() + "/./in.pcap",
          folder.path() + "/../" + std::filesystem::path(folder.path()).filename().string() + "/in.pcap", link,
          hard_link}) {
        const std::string text = mistake(twice + name + "\n");
        EXPECT_NE(text.find("ports.yaml:3:11: "), std::string::npos) << text;
        EXPECT_NE(text.find("is what ports.yaml:1:14 writes"), std::string::npos) << text;
        EXPECT_NE(text.find("a file of its own"), std::string::npos) << text;
    }
    const std::string absent = folder / "not-there-yet.pcap";
    EXPECT_NE(mistake("a: { output: " + absent + " }\nb:\n  output: " + folder.path() + "/./not-there-yet.pcap\n")
                  .find("ports.yaml:3:11"),
              std::string::npos);
    const std::string over_input = mistake("a: { capture: " + capture + " }\nb:\n  output: " + link + "\n");
    EXPECT_NE(over_input.find("ports.yaml:3:11: "), std::string::npos) << over_input;
    EXPECT_NE(over_input.find("is what ports.yaml:1:15 reads"), std::string::npos) << over_input;
    const std::string from_output = mistake("a: { output: " + capture + " }\nb: { pcap: " + capture + " }\n");
    EXPECT_NE(from_output.find("ports.yaml:2:12: "), std::string::npos) << from_output;
    EXPECT_NE(
        mistake("a: { pcap: " + capture + ", output: " + capture + " }\n").find("what is read would be destroyed"),
        std::string::npos);

    PortEnvironment environment;
    environment.output_folder = folder.path();
    const Config relative = Config::parse("a: { output: r.pcap }\nb: { output: " + (folder / "r.pcap") + " }\n",
                                          "ports.yaml");
    EXPECT_THROW(check_ports(relative, environment), ConfigError) << "what check does";
    EXPECT_THROW(make_ports(relative, environment), ConfigError) << "what run does";
    EXPECT_FALSE(std::filesystem::exists(folder / "r.pcap"));
}

TEST(Ports, CheckingOpensNothing) {
    const std::string output = (std::filesystem::temp_directory_path() / "millrace-never-written.pcap").string();
    check_ports(Config::parse("out: { output: " + output + " }\nin: { source: {} }\n"));
    EXPECT_FALSE(std::filesystem::exists(output));
}

TEST(RingPort, CarriesTheSamePacketsInOrderWithTheirMetadata) {
    const auto made = ports(
        "in: { source: { count: 1000 } }\na: { ring: wire }\nb: { ring: wire }\nout: { sink: { keep: 1000 } }\n");
    EXPECT_FALSE(made[2]->exhausted());
    EXPECT_EQ(pump(*made[0], *made[1]), 1000u);
    made[1]->close();
    EXPECT_FALSE(made[2]->exhausted()) << "the packets on the wire are still to come";
    EXPECT_FALSE(made[2]->link().up);
    EXPECT_EQ(pump(*made[2], *made[3]), 1000u);
    EXPECT_TRUE(made[2]->exhausted());
    uint64_t number = 0;
    for (const SunkFrame& frame : dynamic_cast<SinkPort&>(*made[3]).sample()) EXPECT_EQ(frame.number, ++number);
    EXPECT_EQ(made[1]->counters().sent_packets, 1000u);
    EXPECT_EQ(made[2]->counters().received_bytes, made[1]->counters().sent_bytes);
}

TEST(RingPort, TakesOnlyWhatFitsAndLeavesTheRestToTheCaller) {
    const auto made = ports(
        "in: { source: { count: 100 } }\na: { ring: wire, slots: 40 }\nb: { ring: wire, slots: 40 }\n");
    rte_mbuf* mbufs[100];
    ASSERT_EQ(made[0]->receive(0, mbufs, 100), 100);
    EXPECT_EQ(made[1]->send(0, mbufs, 100), 40);
    EXPECT_EQ(made[1]->send(0, mbufs + 40, 60), 0);
    rte_mbuf* out[100];
    EXPECT_EQ(made[2]->receive(0, out, 100), 40);
    EXPECT_EQ(out[39], mbufs[39]);
    EXPECT_EQ(out[0]->port, 2);
    rte_pktmbuf_free_bulk(mbufs, 100);
}

TEST(SinkPort, CountsAndKeepsNoMoreThanAsked) {
    const auto made = ports("in: { source: { count: 500, size: 100 } }\nout: { sink: { keep: 7 } }\n");
    pump(*made[0], *made[1]);
    EXPECT_EQ(made[1]->counters().sent_packets, 500u);
    EXPECT_EQ(made[1]->counters().sent_bytes, 50000u);
    EXPECT_EQ(dynamic_cast<SinkPort&>(*made[1]).sample().size(), 7u);
    EXPECT_EQ(made[0]->pools()[0]->available(), made[0]->pools()[0]->packets()) << "every buffer is back";
}

}  // namespace
}  // namespace millrace::io
