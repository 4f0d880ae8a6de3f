// Files that can't be written, of every kind: packets go on, people are told, and the exit status is not 0, quiet or
// not.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

const char* const kAlerts = "nids: {rule: 'alert ip any any -> any any (msg:\"x\"; sid:1;)'";

struct OutputCase {
    const char* name;
    std::string nf;  ///< FILE stands for the file that can't be written
    std::string port = "sink: {}";
    std::vector<std::string> arguments = {};
    std::string told = {};  ///< on the standard error output
    bool starts = true;     ///< packets are forwarded all the same
};

std::string with_file(std::string text, const std::string& file) {
    for (size_t at = text.find("FILE"); at != std::string::npos; at = text.find("FILE")) text.replace(at, 4, file);
    return text;
}

class Outputs : public testing::TestWithParam<OutputCase> {
protected:
    /// Runs the case quietly with this file.
    Ended run(const std::string& file) {
        const OutputCase& c = GetParam();
        const std::string yaml = folder.write(
            "c.yaml", "version: 1\noutput: out\nports: {in: {pcap: " + source_path("examples/traffic.pcap") +
                          "}, out: {" + with_file(c.port, file) + "}}\nchains: {c: {input: in, output: out, nfs: [{" +
                          with_file(c.nf, file) + "}]}}\n");
        std::vector<std::string> words = {"run", yaml, "-q", "-o", folder.path("out")};
        for (const std::string& argument : c.arguments) words.push_back(with_file(argument, file));
        if (std::find(words.begin(), words.end(), "--json") == words.end())
            words.insert(words.end(), {"--json", folder.path("report.json")});
        return run_program(words);
    }
    void expect_told(const Ended& ended, bool at_start) {
        EXPECT_EQ(ended.out, "");
        EXPECT_NE(ended.err, "");
        EXPECT_NE(ended.err.find(GetParam().told), std::string::npos) << ended.err;
        if (at_start) return;
        EXPECT_EQ(ended.status, 1) << ended.err;
        const auto report = nlohmann::json::parse(text_of_file(folder.path("report.json")), nullptr, false);
        ASSERT_FALSE(report.is_discarded());
        EXPECT_TRUE(report["conserved"].get<bool>());
        EXPECT_GT(report["chains"][0]["sent-packets"].get<uint64_t>() + report["chains"][0]["dropped"].get<uint64_t>(),
                  6900u)
            << "forwarding stopped";
    }
    TestFolder folder;
};

TEST_P(Outputs, OnAFullDiskAreToldOf) { expect_told(run("/dev/full"), !GetParam().starts); }

TEST_P(Outputs, InAFolderThatIsNotThereAreToldOf) {
    const Ended ended = run(folder.path("no/such/folder/file"));
    EXPECT_NE(ended.status, 0);
    EXPECT_LT(ended.status, 128) << "it crashed";
    EXPECT_NE(ended.err.find("no/such/folder"), std::string::npos) << ended.err;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Outputs,
    testing::Values(
        OutputCase{"capture", "mirror: {}", "output: FILE", {}, "port out: /dev/full: No space left on device"},
        OutputCase{"eve", std::string(kAlerts) + ", eve: FILE}", "sink: {}", {}, "alerts are lost until it can"},
        OutputCase{"verdicts",
                   "mirror: {}",
                   "sink: {}",
                   {"--verdicts", "FILE"},
                   "/dev/full: 6993 verdicts could not be written"},
        OutputCase{"dump",
                   "switch: {flows: ['actions=output:2'], dump: FILE}",
                   "sink: {}",
                   {},
                   "/dev/full: cannot be written"},
        OutputCase{"json", "mirror: {}", "sink: {}", {"--json", "FILE"}, "/dev/full: cannot be written", false},
        OutputCase{
            "report",
            "nids: {rule: 'alert tcp any any -> any any (msg:\"b\"; ja3.hash; content:\"x\"; sid:2;)', report: FILE}",
            "sink: {}",
            {},
            "/dev/full",
            false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Output, OfTheClosingTableToAFullDiskIsToldOf) {
    const TestFolder folder;
    const std::string yaml = folder.write("c.yaml",
                                          "version: 1\nports: {in: {source: {count: 10}}, out: {sink: {}}}\nchains: "
                                          "{c: {input: in, output: out, nfs: [mirror]}}\n");
    const Ended ended = run_program({"run", yaml, "-o", folder.path("out")},
                                    {.environment = {}, .standard_output = "/dev/full"});
    EXPECT_EQ(ended.status, 1);
    EXPECT_NE(ended.err.find("the closing table could not be written"), std::string::npos) << ended.err;
}

TEST(Output, FolderThatCannotBeMadeIsAMistake) {
    const TestFolder folder;
    const std::string yaml = folder.write("c.yaml",
                                          "version: 1\nports: {in: {source: {count: 10}}, out: {sink: {}}}\nchains: "
                                          "{c: {input: in, output: out, nfs: [mirror]}}\n");
    const Ended ended = run_program({"run", yaml, "-q", "-o", "/dev/null/out"});
    EXPECT_EQ(ended.status, 2);  // a mistake on the command line
    EXPECT_NE(ended.err.find("/dev/null/out"), std::string::npos) << ended.err;
}

TEST(Output, OfAlertsBeginsInAFolderThatTheRunMakes) {
    const TestFolder folder;
    const std::string yaml = folder.write(
        "c.yaml", "version: 1\nports: {in: {pcap: " + source_path("examples/traffic.pcap") +
                      "}, out: {sink: {}}}\nchains: {c: {input: in, output: out, nfs: [{" + kAlerts + "}}]}}\n");
    const Ended ended = run_program({"run", yaml, "-q", "-o", folder.path("new/out")});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_TRUE(std::filesystem::exists(folder.path("new/out/eve.json")));
}

TEST(Input, ThatBreaksOffIsToldOf) {
    const TestFolder folder;
    std::filesystem::copy_file(source_path("examples/traffic.pcap"), folder.path("cut.pcap"));
    std::filesystem::resize_file(folder.path("cut.pcap"), 1'000'000);
    const std::string yaml = folder.write("c.yaml",
                                          "version: 1\nports: {in: {pcap: cut.pcap}, out: {sink: {}}}\nchains: {c: "
                                          "{input: in, output: out, nfs: [mirror]}}\n");
    const Ended ended = run_program({"run", yaml, "-q", "-o", folder.path("out")});
    EXPECT_EQ(ended.status, 1);
    EXPECT_NE(ended.err.find("port in: "), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace millrace::test
