// Every case folder, in every way that a configuration can run.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cases/case.hpp"
#include "support/data.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

const std::string kFolder = source_path("tests/cases/");

std::vector<std::string> all_cases() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder))
        if (entry.is_directory()) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

/// Every verdict to the letter, and every frame that left, by packet.
struct Outcome {
    std::map<uint64_t, std::string> lines;
    std::map<uint64_t, Frame> frames;

    explicit Outcome(const CaseRun& run) {
        for (const auto& [number, packet] : run.packets) lines[number] = packet.line;
        for (const auto& [number, sent] : run.sent) frames[number] = sent.frame;
    }
};

/// What becomes of a case in the first of all ways to run it; found once.
const Outcome& first_outcome(const std::string& name) {
    static std::map<std::string, Outcome> found;
    const auto at = found.find(name);
    return at != found.end() ? at->second
                             : found.emplace(name, Outcome(run_case(kFolder + name, variants().front()))).first->second;
}

class Case : public testing::TestWithParam<std::tuple<std::string, Variant>> {};

TEST_P(Case, EndsAsExpectedAndAsInTheFirstWay) {
    const auto& [name, variant] = GetParam();
    MILLRACE_NEEDS_DEVICE(variant.device);
    const std::string folder = kFolder + name;
    const CaseRun run = run_case(folder, variant);
    check_case(folder, variant, run);
    // Beyond what the case asks for.
    const Outcome outcome(run);
    EXPECT_EQ(first_outcome(name).lines, outcome.lines);
    EXPECT_TRUE(first_outcome(name).frames == outcome.frames) << "other bytes than with " << variants().front().name;
}

/// "branches_on_cuda_fused_bursts_of_3"
INSTANTIATE_TEST_SUITE_P(Cases, Case, testing::Combine(testing::ValuesIn(all_cases()), testing::ValuesIn(variants())),
                         [](const auto& info) {
                             std::string name;
                             for (const char letter : std::get<0>(info.param) + " on " + std::get<1>(info.param).name) {
                                 if (std::isalnum(static_cast<unsigned char>(letter))) name += letter;
                                 else if (name.back() != '_') name += '_';
                             }
                             return name;
                         });

TEST(Cases, AreManyAndWhole) {
    EXPECT_GE(all_cases().size(), 15u);
    for (const std::string& name : all_cases()) {
        EXPECT_TRUE(std::filesystem::exists(kFolder + name + "/chain.yaml")) << name;
        EXPECT_TRUE(std::filesystem::exists(kFolder + name + "/expect.yaml")) << name;
        EXPECT_NE(std::filesystem::exists(kFolder + name + "/in.yaml"),
                  std::filesystem::exists(kFolder + name + "/in.pcap"))
            << name;
    }
}

}  // namespace
}  // namespace millrace::test
