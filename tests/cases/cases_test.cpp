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

class Case : public testing::TestWithParam<std::string> {};

TEST_P(Case, EndsAsExpectedAndTheSameHoweverItRuns) {
    for (const std::string& device : test_devices()) MILLRACE_NEEDS_DEVICE(device);
    const std::string folder = kFolder + GetParam();
    std::map<uint64_t, std::string> first;
    std::map<uint64_t, Frame> first_frames;
    for (const Variant& variant : variants()) {
        SCOPED_TRACE(variant.name);
        const CaseRun run = run_case(folder, variant);
        check_case(folder, run);
        // Beyond what the case asks for: every verdict to the letter, every byte that left.
        std::map<uint64_t, std::string> lines;
        std::map<uint64_t, Frame> frames;
        for (const auto& [number, packet] : run.packets) lines[number] = packet.line;
        for (const auto& [number, sent] : run.sent) frames[number] = sent.frame;
        if (&variant == &variants().front()) {
            first = lines;
            first_frames = frames;
        }
        EXPECT_EQ(first, lines);
        EXPECT_TRUE(first_frames == frames) << "other bytes than with " << variants().front().name;
        if (HasFailure()) return;  // the other variants would say the same again
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, Case, testing::ValuesIn(all_cases()), [](const auto& info) {
    std::string name = info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

TEST(Cases, AreManyAndWhole) {
    EXPECT_GE(all_cases().size(), 15u);
    for (const std::string& name : all_cases()) {
        EXPECT_TRUE(std::filesystem::exists(kFolder + name + "/chain.yaml")) << name;
        EXPECT_TRUE(std::filesystem::exists(kFolder + name + "/expect.yaml")) << name;
        EXPECT_NE(std::filesystem::exists(kFolder + name + "/in.yaml"), std::filesystem::exists(kFolder + name + "/in.pcap")) << name;
    }
}

}  // namespace
}  // namespace millrace::test
