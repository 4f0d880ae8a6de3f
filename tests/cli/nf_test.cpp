// What helps to write a network function: `millrace nf test` and `nf check`.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/program.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

constexpr const char* kGood =
    "- name: lets a TTL at the limit pass\n"
    "  options: {least: 5}\n"
    "  packet: {ipv4: {ttl: 5}, udp: {}}\n"
    "  expect: {outcome: pass, unchanged: true, explain: TTL 5}\n";

/// The table, for the tutorial's function.
Ended test_table(const std::string& table) {
    const TestFolder folder;
    return run_program({"nf", "test", plugin_path("ttl-guard.so"), folder.write("t.yaml", table)});
}

TEST(NfTest, PassesTheTutorialsTable) {
    const Ended ended = run_program(
        {"nf", "test", plugin_path("ttl-guard.so"), source_path("examples/nf-ttl-guard/golden.yaml")});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_NE(ended.out.find("ttl-guard: 5 cases on cpu, sim"), std::string::npos) << ended.out;
    EXPECT_NE(ended.out.find("all passed"), std::string::npos) << ended.out;
}

TEST(NfTest, TakesAFunctionByItsName) {
    const Ended ended = run_program({"nf", "test", "mirror", source_path("src/millrace/nf/mirror/golden.yaml")});
    EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST(NfTest, TellsEachDifferenceOnceWithItsLine) {
    const Ended ended = test_table(std::string(kGood) +
                                   "- name: is wrong\n"
                                   "  options: {least: 5}\n"
                                   "  packet: {ipv4: {ttl: 4}, udp: {}}\n"
                                   "  expect:\n"
                                   "    outcome: pass\n"
                                   "    explain: TTL 5\n"
                                   "    packet: {ipv4: {ttl: 3}, udp: {}}\n");
    EXPECT_EQ(ended.status, 1);
    for (const char* words : {"t.yaml:9:14: error: 'is wrong': outcome too-low, expected pass",
                              "t.yaml:10:14: error: 'is wrong': explain 'TTL 4', expected 'TTL 5'",
                              "t.yaml:11:13: error: 'is wrong': the packets part at byte 22"}) {
        const size_t at = ended.err.find(words);
        EXPECT_NE(at, std::string::npos) << words << "\n" << ended.err;
        EXPECT_EQ(ended.err.find(words, at + 1), std::string::npos) << ended.err;
    }
    EXPECT_NE(ended.out.find("2 cases on cpu, sim"), std::string::npos) << ended.out;
    EXPECT_NE(ended.out.find("1 failed"), std::string::npos) << ended.out;
}

TEST(NfTest, RefusesWhatIsNoTable) {
    EXPECT_EQ(test_table("").status, 2);
    EXPECT_EQ(test_table("- {name: [").status, 2);
    for (const char* table : {"just words\n", "- 5\n", "- {name: a}\n", "- {name: a, packet: {}, expekt: {}}\n",
                              "- {name: a, options: {least: 0}, packet: {}, expect: {outcome: pass}}\n",
                              "- {name: a, options: {least: 1}, packet: {ipv7: {}}, expect: {outcome: pass}}\n",
                              "- {name: a, options: {least: 1}, packet: {}, expect: {outcome: fail}}\n",
                              "- {name: a, options: {least: 1}, packet: {pad: 20000}, expect: {outcome: pass}}\n",
                              "- {name: a, options: {least: 1}, packet: {capture: none.pcap}, expect: {}}\n"}) {
        const Ended ended = test_table(table);
        EXPECT_EQ(ended.status, 1) << table << ended.err;
        EXPECT_NE(ended.err.find("t.yaml:1:"), std::string::npos) << table << ended.err;
    }
    EXPECT_EQ(run_program({"nf", "test", "no-such.so", "t.yaml"}).status, 1);
    EXPECT_EQ(run_program({"nf", "test", source_path("README.md"), "t.yaml"}).status, 1);
}

TEST(NfTest, TakesPacketsOfACapture) {
    const std::string capture = source_path("examples/traffic.pcap");
    const auto table = [&](const std::string& number) {
        return "- name: a real one\n  options: {least: 1}\n  packet: {capture: " + capture + ", number: " + number +
               "}\n  expect: {outcome: pass, unchanged: true}\n";
    };
    const Ended first = test_table(table("3"));
    EXPECT_EQ(first.status, 0) << first.err;  // the first two are ARP
    const Ended beyond = test_table(table("1000000"));
    EXPECT_EQ(beyond.status, 1);
    EXPECT_NE(beyond.err.find("and no packet 1000000"), std::string::npos) << beyond.err;
}

/// NVRTC, or the reason that it isn't there.
bool has_compiler(Ended& ended) {
    ended = run_program({"nf", "check", plugin_path("ttl-guard.so")});
    return ended.err.find("was not found") == std::string::npos;
}

TEST(NfCheck, CompilesForAGpuThatIsNotThere) {
    Ended ended;
    if (!has_compiler(ended)) GTEST_SKIP() << ended.err;
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_NE(ended.out.find("ttl-guard compiles for sm_90"), std::string::npos) << ended.out;
    EXPECT_EQ(run_program({"nf", "check", "router", "--architecture", "seven"}).status, 2);
    const Ended old = run_program({"nf", "check", "mirror", "--architecture", "sm_1"});
    EXPECT_NE(old.status, 0);
}

TEST(NfCheck, TellsWhatOnlyAGpusCompilerRefuses) {
    Ended ended;
    if (!has_compiler(ended)) GTEST_SKIP() << ended.err;
    const Ended refused = run_program({"nf", "check", plugin_path("refused.so")});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("refused/device.hpp(20): error"), std::string::npos) << refused.err;
}

TEST(NfWatch, RefusesWhatItCanDoNothingWith) {
    const TestFolder folder;
    const std::string table = source_path("examples/nf-ttl-guard/golden.yaml");
    const Ended idle = run_program({"nf", "watch", plugin_path("ttl-guard.so")});
    EXPECT_EQ(idle.status, 2);
    EXPECT_NE(idle.err.find("--test or --run"), std::string::npos) << idle.err;
    EXPECT_EQ(run_program({"nf", "watch", plugin_path("ttl-guard.so"), "--test", "none.yaml"}).status, 2);
    EXPECT_EQ(run_program({"nf", "watch", plugin_path("ttl-guard.so"), "--test", table, "-d", "sim"}).status, 2);

    const Ended lost = run_program({"nf", "watch", folder.path("ttl-guard.so"), "--test", table});
    EXPECT_EQ(lost.status, 1);
    EXPECT_NE(lost.err.find("lies in no folder that CMake builds in"), std::string::npos) << lost.err;

    folder.write("CMakeCache.txt",
                 "CMAKE_COMMAND:INTERNAL=/usr/bin/cmake\nCMAKE_HOME_DIRECTORY:INTERNAL=" + folder.path() + "\n");
    const Ended mixed = run_program({"nf", "watch", folder.path("ttl-guard.so"), "--test", table});
    EXPECT_EQ(mixed.status, 1);
    EXPECT_NE(mixed.err.find("holds sources and build together"), std::string::npos) << mixed.err;
}

}  // namespace
}  // namespace millrace::test
