// The files that `millrace bench` writes: never over what it reads, never two in one, and known to be writable before
// anything is measured.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/program.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

const char* const kShort[] = {"--device", "sim",       "--sizes", "64",          "--for",
                              "0.05",     "--warm-up", "0",       "--max-batch", "256"};

struct Case {
    const char* name;
    std::vector<std::string> arguments;  ///< DIR stands for the folder of the files
    std::string told;                    ///< on the standard error output
};

class BenchFiles : public testing::TestWithParam<Case> {
protected:
    BenchFiles() {
        folder.write("permit.rules", "permit ip from any to any\n");
        folder.write("c.yaml",
                     "version: 1\nports: {in: {source: {count: 10}}, out: {sink: {}}}\nchains: {c: {input: in, output: "
                     "out, nfs: [firewall: {file: permit.rules}]}}\n");
        std::filesystem::copy_file(source_path("examples/traffic.pcap"), folder.path("frames.pcap"));
        for (const char* const name : kNames) before.push_back(text_of_file(folder.path(name)));
    }
    static constexpr const char* kNames[] = {"c.yaml", "permit.rules", "frames.pcap"};
    TestFolder folder;
    std::vector<std::string> before;
};

TEST_P(BenchFiles, AreRefusedBeforeAnythingIsMeasuredOrWritten) {
    std::vector<std::string> words = {"bench"};
    for (std::string word : GetParam().arguments) {
        if (const size_t at = word.find("DIR"); at != std::string::npos) word.replace(at, 3, folder.path());
        words.push_back(word);
    }
    const Ended ended = run_program(words);
    EXPECT_EQ(ended.status, 2);
    EXPECT_EQ(ended.out, "");
    EXPECT_NE(ended.err.find(GetParam().told), std::string::npos) << ended.err;
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(text_of_file(folder.path(kNames[i])), before[i]) << kNames[i];
    EXPECT_FALSE(std::filesystem::exists(folder.path("one.json")));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BenchFiles,
    testing::Values(
        Case{"configuration", {"chain", "--config", "DIR/c.yaml", "--json", "DIR/c.yaml"}, "is what --config reads"},
        Case{"configuration_by_another_way",
             {"chain", "--config", "DIR/c.yaml", "--json", "DIR/./c.yaml"},
             "is what --config reads"},
        Case{"rules_of_the_configuration",
             {"chain", "--config", "DIR/c.yaml", "--timeline", "DIR/permit.rules"},
             "permit.rules"},
        Case{"capture",
             {"modes", "--chain", "mirror", "--device", "sim", "--transfers", "--replay", "DIR/frames.pcap", "--json",
              "DIR/frames.pcap"},
             "is what --replay reads"},
        Case{
            "both_in_one",
            {"latency", "--chain", "mirror", "--device", "cpu", "--json", "DIR/one.json", "--timeline", "DIR/one.json"},
            "is what --json writes"},
        Case{"no_folder", {"nf", "--device", "cpu", "--json", "DIR/no/one.json"}, "no/one.json"},
        Case{"no_folder_for_figures_of_a_bus", {"transfer", "-d", "sim", "--json", "DIR/no/one.json"}, "no/one.json"},
        Case{"rules_and_their_trace",
             {"rules", "-n", "10", "-o", "DIR/one.json", "--trace", "DIR/one.json"},
             "is what --output writes"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BenchFilesThatAreSound, AreWritten) {
    const TestFolder folder;
    std::vector<std::string> words = {"bench",
                                      "chain",
                                      "--chain",
                                      "mirror",
                                      "--unchecked",
                                      "--json",
                                      folder.path("one.json"),
                                      "--timeline",
                                      folder.path("two.json")};
    words.insert(words.end(), std::begin(kShort), std::end(kShort));
    const Ended ended = run_program(words);
    EXPECT_EQ(ended.status, 0) << ended.err;
    for (const char* const name : {"one.json", "two.json"})
        EXPECT_FALSE(nlohmann::json::parse(text_of_file(folder.path(name)), nullptr, false).is_discarded()) << name;
    EXPECT_EQ(nlohmann::json::parse(text_of_file(folder.path("one.json")))["results"].size(), 1u);
}

}  // namespace
}  // namespace millrace::test
