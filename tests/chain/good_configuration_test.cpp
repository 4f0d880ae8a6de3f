// Sound configurations: what is read from them, and what their functions share.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {
namespace {

TEST(GoodConfiguration, IsReadAsItIsWritten) {
    const Configuration c = parse_configuration(
        "version: 1\ndevice: sim\noutput: there\nports: {in: {null: {}}, out: {null: {}}, aside: {null: {}}}\n"
        "classify: [{match: {vlan: 7}, chain: b}]\n"
        "chains:\n"
        "  a: {input: in, output: out, punt: aside, max-delay: 2ms, max-batch: 100, malformed: pass, nfs: [mirror]}\n"
        "  b:\n"
        "    output: aside\n"
        "    nfs:\n"
        "      - firewall: {default: permit}\n"
        "        lanes: 8\n"
        "        name: guard\n"
        "        on: {permit: last, deny: mirror}\n"
        "      - {mirror: , on: {forward: output}}\n"
        "      - {mirror: , name: last, on: {forward: chain a}}\n",
        "good.yaml", {});
    EXPECT_EQ(c.device, "sim");
    EXPECT_EQ(c.output_folder, "there");
    EXPECT_EQ(c.chains.size(), 2u);
    EXPECT_EQ(c.chains[0]->max_delay, std::chrono::milliseconds(2));
    EXPECT_EQ(c.chains[0]->max_batch, 100u);
    EXPECT_FALSE(c.chains[0]->drop_malformed);
    EXPECT_EQ(c.chains[0]->punt_port, 2u);
    const Program& b = *c.chains[1];
    EXPECT_EQ(b.nodes[0].name, "guard");
    EXPECT_EQ(b.nodes[0].lanes, 8u);
    EXPECT_EQ(b.nodes[0].targets[0], (Target{Target::Kind::node, 2}));
    EXPECT_EQ(b.nodes[0].targets[1], (Target{Target::Kind::node, 1}));
    EXPECT_EQ(b.nodes[1].targets[0], (Target{Target::Kind::output, 0}));
    EXPECT_EQ(b.nodes[2].targets[0], (Target{Target::Kind::chain, 0}));
    ASSERT_EQ(c.classification.rules().size(), 2u);
    EXPECT_EQ(c.classification.rules()[0].vlan, 7);
    EXPECT_EQ(c.classification.rules()[0].chain, 1u);
    EXPECT_EQ(c.classification.chain_of_port(1), kNoChain);
}

TEST(GoodConfiguration, SaysWhatWorkersDoWithoutPackets) {
    const auto idle = [](const std::string& line) {
        return parse_configuration(
                   "version: 1\n" + line + "ports: {in: {null: {}}}\nchains: {c: {input: in, nfs: [mirror]}}\n",
                   "idle.yaml", {})
            .idle;
    };
    EXPECT_EQ(idle(""), Idle::sleep);
    EXPECT_EQ(idle("idle: sleep\n"), Idle::sleep);
    EXPECT_EQ(idle("idle: poll\n"), Idle::poll);
    EXPECT_THROW(idle("idle: never\n"), ConfigError);
}

/// A thousand chains with equal options have one table; what keeps state has its own in each.
TEST(Functions, WithEqualOptionsAreOneUnlessTheyKeepState) {
    const auto load = [](size_t chains) {
        std::string text = "version: 1\nports: {in: {null: {}}, out: {null: {}}}\nchains:\n", lines = "classify:\n";
        for (size_t i = 0; i < chains; ++i) {
            const std::string n = std::to_string(i);
            text +=
                "  c" + n +
                ":\n    output: out\n    nfs:\n      - firewall: {rules: [permit tcp from any to any], default: " +
                (i % 2 == 0 ? "permit" : "deny") +
                "}\n      - {firewall: {rules: [permit tcp from any to any], default: permit}, name: g" + n +
                "}\n      - ipsec: {sas: [{name: t, direction: out, spi: 256, local: 192.0.2.1, remote: 198.51.100.1, "
                "cipher: 'null', auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}]}\n";
            lines += "  - {match: {dst-port: " + n + "}, chain: c" + n + "}\n";
        }
        return parse_configuration(text + lines, "shared.yaml", {});
    };
    const Configuration c = load(1000);
    std::set<const nf::NetworkFunction*> firewalls, gateways;
    for (const auto& program : c.chains) {
        EXPECT_EQ(program->nodes[0].nf == program->nodes[1].nf, program->index % 2 == 0) << "their options are equal";
        for (const size_t at : {0, 1}) firewalls.insert(program->nodes[at].nf.get());
        gateways.insert(program->nodes[2].nf.get());
    }
    EXPECT_EQ(firewalls.size(), 2u);
    EXPECT_EQ(gateways.size(), 1000u);
}

TEST(Functions, WithEqualOptionsShareTablesWhereTheyKeepState) {
    std::string text = "version: 1\nports: {in: {null: {}}, out: {null: {}}}\nchains:\n", lines = "classify:\n";
    for (int i = 0; i < 1000; ++i) {
        const std::string n = std::to_string(i);
        text += "  c" + n +
                ":\n    output: out\n    nfs:\n      - nids: {rule: 'alert tcp any any -> any any (msg:\"x\"; " +
                "content:\"" + (i % 2 == 0 ? "even" : "odd") + "\"; sid:1;)', eve: /dev/null}\n";
        lines += "  - {match: {dst-port: " + n + "}, chain: c" + n + "}\n";
    }
    const Configuration c = parse_configuration(text + lines, "shared.yaml", {});
    std::set<const nf::NetworkFunction*> functions;
    std::set<const void*> arrays;
    for (const auto& program : c.chains) {
        functions.insert(program->nodes[0].nf.get());
        for (const nf::Image::Array& array : program->nodes[0].nf->image().arrays())
            if (array.bytes > 0) arrays.insert(array.data);
    }
    EXPECT_EQ(functions.size(), 1000u) << "each counts and thresholds by itself";
    const std::vector<nf::Image::Array>& own = c.chains[0]->nodes[0].nf->image().arrays();
    EXPECT_EQ(arrays.size(), 2 * static_cast<size_t>(std::count_if(own.begin(), own.end(),
                                                                   [](const auto& array) { return array.bytes > 0; })))
        << "of the two sets of rules";
}

}  // namespace
}  // namespace millrace::chain
