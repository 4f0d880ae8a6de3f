// Plugins that change, move, clash or don't fit, in a process that goes on.
#include "millrace/nf/plugin.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "millrace/base/files/file.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/device/cuda/compile/kernel_store.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

/// A folder of its own, where plugins are put and overwritten.
class Plugins : public testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::path(testing::TempDir()) / ("plugins-" + std::to_string(getpid()) + "-" +
                                                  testing::UnitTest::GetInstance()->current_test_info()->name());
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string path(const std::string& name) const { return folder_ / name; }
    /// Puts the plugin `build` there in place, into the very file, as `cp` does.
    std::string put(const std::string& build, const std::string& name) const { return write(name, content(build)); }
    std::string write(const std::string& name, const std::string& bytes) const {
        std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bytes;
        return path(name);
    }
    static std::string content(const std::string& build) { return read_file(plugin_path(build + ".so")); }

    chain::Configuration load(const std::string& plugins, const chain::Configuration* previous = nullptr,
                              const std::string& node = "probe: {}") const {
        chain::LoadOptions options;
        options.previous = previous;
        return chain::parse_configuration("version: 1\nplugins: [" + plugins +
                                              "]\nports: {in: {null: {}}}\nchains: {c: {input: in, output: in, nfs: [" +
                                              node + "]}}\n",
                                          path("chain.yaml"), options);
    }
    /// Which build of the probe runs in a configuration.
    static uint32_t build_of(const chain::Configuration& configuration) {
        const chain::Node& node = configuration.chains[0]->nodes[0];
        Packet packet;
        return node.type->process_with(1)(packet, node.nf->image().tables()).detail;
    }
    std::string trouble_of(const std::string& plugins) const {
        try {
            load(plugins);
        } catch (const ConfigError& e) {
            return e.what();
        }
        return "";
    }
    fs::path folder_;
};

TEST_F(Plugins, AreTheSameByAnyPath) {
    const chain::Configuration first = load(put("probe-1", "a.so"));
    const chain::Configuration second = load(put("probe-1", "b.so"), &first);
    EXPECT_EQ(first.chains[0]->nodes[0].type, second.chains[0]->nodes[0].type);
    EXPECT_EQ(build_of(second), 1u);
    EXPECT_EQ(build_of(load("a.so, b.so")), 1u) << "the same one, named twice";
}

TEST_F(Plugins, AreLoadedAgainWhenTheyWereBuiltAnew) {
    const chain::Configuration first = load(put("probe-1", "probe.so"));
    const chain::Configuration second = load(put("probe-2", "probe.so"), &first);
    EXPECT_EQ(build_of(second), 2u);
    EXPECT_EQ(build_of(first), 1u) << "a generation that is at work keeps its code";
    const chain::Configuration third = load(put("probe-1", "probe.so"), &second);
    EXPECT_EQ(build_of(third), 1u);
    EXPECT_EQ(first.chains[0]->nodes[0].type, third.chains[0]->nodes[0].type);
}

TEST_F(Plugins, KeepTheirCodeWhenTheirFilesGo) {
    const chain::Configuration first = load(put("probe-1", "probe.so"));
    std::ofstream(path("probe.so"), std::ios::trunc);
    EXPECT_EQ(build_of(first), 1u);
    fs::remove(path("probe.so"));
    EXPECT_EQ(build_of(first), 1u);
}

TEST_F(Plugins, BuiltAnewBeginWithStateOfTheirOwnAndSaySo) {
    const std::string node = "probe: {keeps: true}";
    const auto kept = [](const chain::Configuration& configuration) {
        return configuration.chains[0]->nodes[0].nf->image().arrays()[0].data;
    };
    const chain::Configuration first = load(put("probe-1", "probe.so"), nullptr, node);
    const chain::Configuration same = load("probe.so", &first, node);
    EXPECT_EQ(kept(same), kept(first));
    EXPECT_TRUE(same.warnings.empty());
    const chain::Configuration other = load(put("probe-2", "probe.so"), &same, node);
    EXPECT_NE(kept(other), kept(same));
    ASSERT_EQ(other.warnings.size(), 1u);
    EXPECT_NE(other.warnings[0].render().find("'probe' has been built anew: its state begins afresh"),
              std::string::npos)
        << other.warnings[0].render();
}

TEST_F(Plugins, OfOneNameCantBeNamedTogether) {
    put("probe-1", "a.so");
    put("probe-2", "b.so");
    const std::string trouble = trouble_of("a.so, b.so");
    EXPECT_NE(trouble.find("chain.yaml:2:17: error: this plugin can't be loaded"), std::string::npos) << trouble;
    EXPECT_NE(trouble.find("a network function named 'probe' comes from " + path("a.so") + " already"),
              std::string::npos)
        << trouble;
    EXPECT_EQ(build_of(load("b.so")), 2u);
}

TEST_F(Plugins, BuiltAgainstOtherHeadersAreRefusedByName) {
    std::string bytes = content("probe-1");
    const std::string stamp(nf::abi_stamp());
    ASSERT_EQ(nf::abi_stamp_of(bytes), stamp);
    const size_t at = bytes.find(stamp);
    const size_t digest = at + stamp.find("headers ") + 8;
    bytes[digest] = bytes[digest] == '0' ? '1' : '0';
    const std::string trouble = trouble_of(write("old.so", bytes));
    EXPECT_NE(trouble.find("old.so: it was built against the headers of another Millrace"), std::string::npos)
        << trouble;
    EXPECT_NE(trouble.find("build it again"), std::string::npos) << trouble;
}

TEST_F(Plugins, MustBePlugins) {
    write("text.so", "#!/bin/sh\n");
    write("empty.so", "");
    write("cut.so", content("probe-1").substr(0, 5000));
    for (const std::string name : {"text.so", "empty.so", "cut.so", "libm.so.6"}) {
        const std::string trouble = trouble_of(name == "libm.so.6" ? "/lib/x86_64-linux-gnu/libm.so.6" : name);
        EXPECT_NE(trouble.find(name + ": this is no plugin of Millrace"), std::string::npos) << name << ": " << trouble;
    }
    EXPECT_NE(trouble_of("nowhere.so").find("nowhere.so: there is no such file"), std::string::npos);
    // Cut behind the stamp, it is the loader that finds out.
    std::string torn = content("probe-1");
    std::fill(torn.begin() + 64, torn.begin() + 4096, '\xff');
    EXPECT_NE(trouble_of(write("torn.so", torn)), "");
}

TEST_F(Plugins, CantTakeABuiltInName) {
    const std::string trouble = trouble_of(put("probe-mirror", "mirror.so"));
    EXPECT_NE(trouble.find("'mirror' has the name of a network function that is built in"), std::string::npos)
        << trouble;
    EXPECT_NE(trouble_of("mirror.so"), "") << "it is refused again";
}

TEST_F(Plugins, MustDeclareOutcomes) {
    const std::string trouble = trouble_of(put("probe-mute", "mute.so"));
    EXPECT_NE(trouble.find("'probe' declares no outcomes"), std::string::npos) << trouble;
}

TEST_F(Plugins, AreCompiledForGpusFromTheirOwnHeaders) {
    std::vector<std::string> prints;
    for (const char* build : {"probe-1", "probe-2"}) {
        const nf::Type& type = *nf::Plugin::open(plugin_path(std::string(build) + ".so")).types()[0];
        // As if the two had been built from different sources.
        nf::DeviceSources sources = *type.sources;
        const std::string text = std::string(sources.at("probe/device.hpp")) + "// " + build + "\n";
        sources["probe/device.hpp"] = text;
        device::cuda::ChainSource source;
        source.nfs.push_back({"probe_1.cu", "#include \"probe/device.hpp\"\n", &sources});
        prints.push_back(device::cuda::fingerprint(source, "sm_90"));
        EXPECT_EQ(device::cuda::collect_headers(source.nfs[0]).at("probe/device.hpp"), text);
    }
    EXPECT_NE(prints[0], prints[1]);
    EXPECT_EQ(nf::find_device_source("probe/device.hpp"), nullptr) << "nobody else's";
}

}  // namespace
}  // namespace millrace::test
