// millrace verify: refuses with a place, fences, and says what it cost.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

constexpr const char* kHead =
    ".version 9.0\n.target sm_90\n.address_size 64\n.visible .func f(.param .b64 p)\n{\n.reg .b64 %rd<3>;\n.reg .b32 "
    "%r<3>;\nld.param.u64 %rd1, [p];\n";

TEST(Verify, FencesWhatIsSound) {
    const TestFolder folder;
    const std::string file = folder.write("sound.ptx", std::string(kHead) + "ld.u32 %r1, [%rd1+8];\nret;\n}\n");
    const std::string out = folder.path() + "/fenced.ptx";
    const Ended ended = run_program({"verify", file, "--window", "0x7f0000000000", "--rewrite", out});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_NE(ended.out.find("sound; 1 function, fenced"), std::string::npos) << ended.out;
    const std::string fenced = text_of_file(out);
    EXPECT_NE(fenced.find("mov.b64 %fence_base"), std::string::npos) << fenced;
    EXPECT_NE(fenced.find(", 32512}"), std::string::npos) << "the upper half of the window's address\n" << fenced;
    const Ended printed = run_program({"verify", file, "--isolation", "none", "--rewrite", "-"});
    EXPECT_EQ(printed.status, 0) << printed.err;
    EXPECT_TRUE(printed.out.starts_with(".version 9.0\n")) << printed.out;
    EXPECT_EQ(printed.out.find("fence"), std::string::npos) << printed.out;
}

TEST(Verify, RefusesWithLineInstructionWhyAndWhatMends) {
    const TestFolder folder;
    const std::string file = folder.write("trap.ptx", std::string(kHead) + "trap;\nret;\n}\n");
    const std::string out = folder.path() + "/fenced.ptx";
    const Ended ended = run_program({"verify", file, "--rewrite", out});
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.err.find("trap.ptx:9:1: error: 'trap;' is refused: it ends the GPU's context"), std::string::npos)
        << ended.err;
    EXPECT_NE(ended.err.find("hint: return an outcome"), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("1 mistake\n"), std::string::npos) << ended.err;
    EXPECT_EQ(text_of_file(out), "") << "nothing is written";
    const Ended json = run_program({"verify", file, "--json"});
    EXPECT_EQ(json.status, 2);
    const auto report = nlohmann::json::parse(json.out);
    EXPECT_FALSE(report.at("sound").get<bool>());
    EXPECT_EQ(report.at("refusals").at(0).at("line"), 9);
}

TEST(Verify, TellsFiguresAsJson) {
    const TestFolder folder;
    const std::string file = folder.write("sound.ptx", std::string(kHead) + "ld.u32 %r1, [%rd1+8];\nret;\n}\n");
    const Ended ended = run_program({"verify", file, "--json", "--isolation", "checked"});
    ASSERT_EQ(ended.status, 0) << ended.err;
    const auto report = nlohmann::json::parse(ended.out);
    EXPECT_TRUE(report.at("sound").get<bool>());
    EXPECT_EQ(report.at("isolation"), "checked");
    EXPECT_EQ(report.at("functions").at(0).at("accesses").at("window"), 1);
    EXPECT_GT(report.at("functions").at(0).at("added").at("window"), 4);
}

TEST(Verify, CompilesAndFencesTheDeviceHalfOfAFunction) {
    const TestFolder folder;
    const std::string plugin = plugin_path("ttl-guard.so"), out = folder.path() + "/fenced.ptx";
    const Ended ended = run_program({"verify", "--function", plugin, "--rewrite", out});
    if (ended.err.find("was not found") != std::string::npos) GTEST_SKIP() << ended.err;
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_NE(ended.out.find("ttl-guard.ptx: sound; 1 function, fenced"), std::string::npos) << ended.out;
    EXPECT_NE(text_of_file(out).find("%fence_base"), std::string::npos);

    // Refused by the line of what it was compiled to, which is kept, and by that of its source.
    const std::string ptx = folder.path() + "/nids.ptx";
    const Ended refused = run_program({"verify", "--function", "nids", "--ptx", ptx});
    EXPECT_EQ(refused.status, 2);
    EXPECT_NE(refused.err.find(ptx + ":"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("millrace/nf/nids/evaluate.hpp:"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("hint: store an index in place of an address"), std::string::npos) << refused.err;
    EXPECT_NE(text_of_file(ptx).find("millrace_nids_1_process"), std::string::npos);
    // What shows a domain's state and block memory is verified with it.
    for (const char* own : {"firewall", "policer"})
        EXPECT_EQ(run_program({"verify", "--function", own}).status, 0) << own;

    const Ended no_gpus = run_program({"verify", "--function", plugin_path("refused.so")});
    EXPECT_EQ(no_gpus.status, 1);
    EXPECT_NE(no_gpus.err.find("refused/device.hpp(20): error"), std::string::npos) << no_gpus.err;
    EXPECT_NE(run_program({"verify", "--function", "mirrow"}).err.find("no network function 'mirrow'"),
              std::string::npos);
}

TEST(Verify, RefusesCommandLinesThatMeanNothing) {
    const TestFolder folder;
    const std::string file = folder.write("sound.ptx", std::string(kHead) + "ret;\n}\n");
    const std::vector<std::string> wrong[] = {
        {"verify"},
        {"verify", folder.path() + "/none.ptx"},
        {"verify", file, "--window", "0x7f0000001000"},
        {"verify", file, "--window", "0"},
        {"verify", file, "--window", "there"},
        {"verify", file, "--guard", "100"},
        {"verify", file, "--budget", "0"},
        {"verify", file, "--budget", "4294967295"},
        {"verify", file, "--shared", "1000000"},
        {"verify", file, "--isolation", "some"},
        {"verify", file, "--json", "--rewrite", "-"},
        {"verify", file, "--function", "mirror"},
        {"verify", file, "--ptx", folder.path() + "/out.ptx"},
        {"verify", file, "--architecture", "sm_90"},
        {"verify", "--function", "mirror", "--architecture", "seven"},
        {"verify", file, "--rewrite", folder.path() + "/no/such/folder.ptx"},
        {"verify", folder.write("text.ptx", "no PTX\n")},
    };
    for (const auto& words : wrong) {
        const Ended ended = run_program(words);
        EXPECT_EQ(ended.status, 2) << words.back() << "\n" << ended.err;
        EXPECT_NE(ended.err, "") << words.back();
    }
}

}  // namespace
}  // namespace millrace::test
