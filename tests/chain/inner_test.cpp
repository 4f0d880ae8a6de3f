// `inner:` of a chain: kinds of tunnels, and functions that may stand in such a chain.
#include "millrace/chain/inner.hpp"

#include <gtest/gtest.h>

#include "millrace/chain/configuration.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::chain {
namespace {

Configuration load(const std::string& inner, const std::string& nf = "firewall: {default: permit}",
                   const std::string& device = "sim") {
    return parse_configuration("version: 1\nports: {in: {source: {count: 1}}, out: {sink: {}}}\ndevice: " + device +
                                   "\nchains:\n  c:\n    input: in\n    output: out\n" +
                                   (inner.empty() ? "" : "    inner: " + inner + "\n") + "    nfs: [" + nf + "]\n",
                               "c.yaml");
}

std::string mistake_of(const std::string& inner, const std::string& nf = "firewall: {default: permit}") {
    try {
        load(inner, nf);
    } catch (const ConfigError& e) {
        return e.what();
    }
    return "";
}

TEST(Inner, IsOneKindOrSeveralOrAny) {
    EXPECT_EQ(load("").chains[0]->inner, 0u);
    EXPECT_EQ(load("vxlan").chains[0]->inner, tunnel::kVxlan);
    EXPECT_EQ(load("[gre, gtp-u]").chains[0]->inner, tunnel::kGre | tunnel::kGtpU);
    EXPECT_EQ(load("any").chains[0]->inner, tunnel::kAny);
    EXPECT_EQ(inner_text(tunnel::kGre | tunnel::kGtpU), "gre, gtp-u");
    for (unsigned i = 0; i < tunnel::kCount; ++i)
        EXPECT_EQ(load(tunnel::kNames[i]).chains[0]->inner, 1u << i) << tunnel::kNames[i];
}

TEST(Inner, IsRefusedWhereItMakesNoSense) {
    EXPECT_NE(mistake_of("vxlam").find("vxlan"), std::string::npos);
    EXPECT_NE(mistake_of("any", "mirror").find("'mirror' changes packets"), std::string::npos);
    EXPECT_NE(mistake_of("any", "firewall: {default: permit}, mirror").find("c.yaml:8"), std::string::npos);
}

TEST(Inner, BringsWholeFramesToADevice) {
    EXPECT_NE(prefix_bytes(load("").chains[0]->plan.to_device_total()), kWholeFrame);
    EXPECT_EQ(prefix_bytes(load("vxlan").chains[0]->plan.to_device_total()), kWholeFrame);
    EXPECT_EQ(load("vxlan").chains[0]->plan.to_host_total(), field::none) << "nothing comes back";
}

}  // namespace
}  // namespace millrace::chain
