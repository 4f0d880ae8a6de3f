// Every command's options and exit statuses.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "cli/program.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

using Words = std::vector<std::string>;

/// The commands that the help of `command` lists.
std::set<std::string> commands_of(const Words& command) {
    Words words = command;
    words.push_back("--help");
    std::istringstream lines(run_program(words).out);
    std::set<std::string> commands;
    bool listed = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("Subcommands:") || line.starts_with("SUBCOMMANDS:")) listed = true;
        else if (listed && line.starts_with("  ") && line[2] != ' ')
            commands.insert(line.substr(2, line.find(' ', 2) - 2));
    }
    return commands;
}

const char* const kSmall =
    "version: 1\noutput: out\nports: {in: {source: {count: 1000}}, out: {sink: {}}}\nchains: {c: {input: in, output: "
    "out, nfs: [mirror]}}\n";

TEST(Commands, AllHaveHelpAndSayWhatTheyDo) {
    const std::set<std::string> commands = commands_of({});
    for (const char* known : {"run", "check", "explain", "show", "nf", "doctor", "verify", "profile", "bench"})
        EXPECT_TRUE(commands.contains(known)) << known;
    for (const std::string& command : commands) {
        const Ended help = run_program({command, "--help"});
        EXPECT_EQ(help.status, 0) << command;
        EXPECT_EQ(help.err, "") << command;
        EXPECT_NE(help.out.find("--help"), std::string::npos) << command;
        for (const std::string& below : commands_of({command}))
            EXPECT_EQ(run_program({command, below, "--help"}).status, 0) << command << " " << below;
    }
    EXPECT_TRUE(commands_of({"nf"}).contains("list"));
    EXPECT_TRUE(commands_of({"bench"}).contains("chain"));
}

TEST(Commands, RefuseWhatTheyDoNotKnowWithStatus2) {
    const TestFolder folder;
    const std::string file = folder.write("c.yaml", kSmall);
    const Words wrong[] = {{},
                           {"walk"},
                           {"--fast"},
                           {"run"},
                           {"run", file, "--fast"},
                           {"run", file, "--workers", "0"},
                           {"run", file, "--workers", "many"},
                           {"run", file, "--for", "-1"},
                           {"run", file, "--device", "abacus"},
                           {"run", file, file},
                           {"check", file, "--lanes", "7"},
                           {"check", folder.path("missing.yaml")},
                           {"explain", file, "--lanes"},
                           {"nf"},
                           {"nf", "show"},
                           {"doctor", "everything"},
                           {"profile", "--for", "0"},
                           {"bench", "chain", "--warm-up", "nan"},
                           {"bench", "chain", "--chains", "0"},
                           {"bench", "nothing"}};
    for (const Words& words : wrong) {
        const Ended ended = run_program(words);
        EXPECT_EQ(ended.status, 2) << testing::PrintToString(words);
        EXPECT_NE(ended.err, "") << testing::PrintToString(words);
    }
}

TEST(Commands, EndWell) {
    const TestFolder folder;
    const std::string file = folder.write("c.yaml", kSmall);
    const Words good[] = {{"--version"},       {"check", file},          {"explain", file},
                          {"nf", "list"},      {"nf", "show", "router"}, {"doctor"},
                          {"doctor", "--json"}};
    for (const Words& words : good) {
        const Ended ended = run_program(words);
        EXPECT_EQ(ended.status, 0) << testing::PrintToString(words) << ended.err;
        EXPECT_NE(ended.out, "") << testing::PrintToString(words);
    }
    EXPECT_EQ(run_program({"nf", "show", "rooter"}).status, 1);
}

TEST(Commands, SayNothingOfAQuietRunThatWentWell) {
    const TestFolder folder;
    const std::string file = folder.write("c.yaml", kSmall);
    for (const char* device : {"cpu", "sim"}) {
        const Ended quiet = run_program({"run", file, "-q", "-d", device, "-o", folder.path("out")});
        EXPECT_EQ(quiet.status, 0) << device;
        EXPECT_EQ(quiet.out + quiet.err, "") << device;
        const Ended loud = run_program({"run", file, "-d", device, "-o", folder.path("out")});
        EXPECT_NE(loud.out.find("1,000 in, 1,000 sent"), std::string::npos) << loud.out;
    }
}

TEST(Commands, TellOfPuntsThatHaveNowhereToGoWithTheirPlace) {
    const TestFolder folder;
    const std::string file = folder.write(
        "c.yaml", "version: 1\noutput: out\nports: {in: {pcap: " + source_path("examples/traffic.pcap") +
                      "}, out: {sink: {}}}\nchains:\n  border:\n    input: in\n" +
                      "    output: out\n    nfs:\n      - router: {routes: [{prefix: 0.0.0.0/0, via: a}], next-hops: "
                      "{a: {mac: \"02:00:00:00:00:01\"}}}\n");
    for (const char* command : {"check", "run"}) {
        const Ended ended = run_program({command, file, "-o", folder.path("out")});
        EXPECT_EQ(ended.status, 0) << ended.err;
        EXPECT_NE(ended.err.find("c.yaml:9:9: warning: chain 'border' has no punt port, so packets that 'router' punts "
                                 "are dropped (not-ip, ttl-expired)"),
                  std::string::npos)
            << ended.err;
        if (std::string(command) == "run") {
            EXPECT_NE(ended.out.find("exit.no-punt-port "), std::string::npos) << ended.out;
        }
    }
}

TEST(Commands, RunOneRuleMoreThanRteAclIsGiven) {
    const TestFolder folder;
    std::string rules;
    for (int i = 0; i < 2001; ++i)
        rules += "deny tcp from 10." + std::to_string(i >> 8) + "." + std::to_string(i & 255) + ".0/24\n";
    folder.write("r.rules", rules);
    const std::string file = folder.write(
        "c.yaml",
        "version: 1\noutput: out\nports: {in: {source: {count: 1000}}, out: {sink: {}}}\n"
        "chains: {c: {input: in, output: out, nfs: [{firewall: {file: r.rules, default: permit}}]}}\n");
    const Ended ended = run_program({"run", file, "-q", "-o", folder.path("out")});
    EXPECT_EQ(ended.status, 0);
    EXPECT_NE(ended.err.find("warning: rte_acl may take minutes and gigabytes to compile 2001 rules"),
              std::string::npos)
        << ended.err;
}

}  // namespace
}  // namespace millrace::test
