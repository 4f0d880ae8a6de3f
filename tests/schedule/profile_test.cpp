// What is kept of chains: written, read, and refused where it is no good.
#include "millrace/schedule/profile.hpp"

#include <gtest/gtest.h>

#include "millrace/base/text/diagnostic.hpp"
#include "support/test_folder.hpp"

namespace millrace::schedule {
namespace {

Profile example() {
    Profile profile{"NVIDIA H200", {}, {132, 8, 8}, {}};
    ChainProfile chain{"[{router: {routes: \"a: b\\n\"}}]", 512, {}, {}};
    chain.points = {{256, 132, 20'100.5, 9'000}, {16384, 132, 50'000, 180'000}};
    chain.model = fit(chain.points);
    profile.put(chain);
    chain.functions = "[mirror]";
    profile.put(chain);
    return profile;
}

TEST(Profile, IsReadAsItWasWritten) {
    const millrace::test::TestFolder folder;
    const Profile written = example();
    const Profile read = read_profile(folder.write("p.json", profile_json(written)), "NVIDIA H200");
    EXPECT_EQ(profile_json(read), profile_json(written));
    ASSERT_NE(read.find("[mirror]"), nullptr);
    EXPECT_EQ(read.find("[mirror]")->points.size(), 2u);
    EXPECT_EQ(read.find("[router]"), nullptr);
    EXPECT_EQ(read.gpu.sms, 132u);
}

TEST(Profile, ReplacesAnEarlierOneOfTheSameChain) {
    Profile profile = example();
    ChainProfile again = *profile.find("[mirror]");
    again.frame_bytes = 64;
    profile.put(again);
    EXPECT_EQ(profile.chains.size(), 2u);
    EXPECT_EQ(profile.find("[mirror]")->frame_bytes, 64);
}

TEST(Profile, IsRefusedWithItsPlaceWhereItIsNoGood) {
    const millrace::test::TestFolder folder;
    const std::string good = profile_json(example());
    const auto refused = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        if (at == std::string::npos) return false;
        text.replace(at, from.size(), to);
        try {
            read_profile(folder.write("p.json", text), "NVIDIA H200");
        } catch (const ConfigError& e) {
            EXPECT_GT(e.diagnostics().front().where.line, 0u);
            EXPECT_NE(e.diagnostics().front().hint.find("millrace profile --chain"), std::string::npos);
            return true;
        }
        return false;
    };
    EXPECT_FALSE(refused("\"sms\": 132", "\"sms\": 64"));
    EXPECT_TRUE(refused("\"version\": 1", "\"version\": 2"));
    EXPECT_TRUE(refused("NVIDIA H200", "NVIDIA H100"));
    EXPECT_TRUE(refused("\"sms\": 132", "\"sms\": 0"));
    EXPECT_TRUE(refused("\"sms\": 132", "\"sms\": 99999"));
    EXPECT_TRUE(refused("\"least-sms\": 8", "\"least-sms\": 133"));
    EXPECT_TRUE(refused("\"grain-sms\": 8", "\"grain-sms\": 0"));
    EXPECT_TRUE(refused("\"frame-bytes\": 512.0", "\"frame-bytes\": -1"));
    EXPECT_TRUE(refused("\"kernel\"", "\"colonel\""));
    EXPECT_TRUE(refused("\"r2\": 1.0", "\"r2\": 1.1"));
    EXPECT_TRUE(refused("\"r2\": 1.0", "\"r2\": .nan"));
    EXPECT_TRUE(refused("\"packets\": 256", "\"packets\": 0"));
    EXPECT_TRUE(refused("9000.0", ".inf"));
    EXPECT_TRUE(refused("9000.0", "2e9"));
    for (size_t end = 0; end + 2 < good.size(); end += 7) {
        const std::string path = folder.write("p.json", good.substr(0, end));
        EXPECT_THROW(read_profile(path, "NVIDIA H200"), ConfigError) << end;
    }
}

}  // namespace
}  // namespace millrace::schedule
