// `linux:` of a port: what it stands for, and where mistakes in it are told.
#include "millrace/chain/linux_ports.hpp"

#include <gtest/gtest.h>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {
namespace {

const std::string kChain = "chains:\n  r: {input: [lan, wan], nfs: [{router: {kernel: true}, on: {no-route: punt}}]}\n";

Configuration linux_chain(const std::string& text) { return parse_configuration("version: 1\n" + text, "c.yaml"); }

std::string linux_mistake(const std::string& text) {
    try {
        linux_chain(text);
    } catch (const ConfigError& e) {
        return e.what();
    }
    return "";
}

TEST(LinuxPorts, HaveATapAChainFromItAndWhatIsPunted) {
    const Configuration made = linux_chain(
        "ports:\n  lan: {af_packet: eth0, linux: lan0}\n  quiet: {null: {}}\n"
        "  wan: {dpdk: net_null0, linux: {tap: wan0, mtu: 1400}}\n" +
        kChain);
    EXPECT_EQ(made.port_names, (std::vector<std::string>{"lan", "quiet", "wan", "lan0", "wan0"}));
    const auto ports = made.ports->entries();
    ASSERT_EQ(ports.size(), 5u);
    EXPECT_EQ(ports[3].second.written(), "tap: lan0");
    EXPECT_EQ(ports[4].second.at("mtu").text(), "1400");
    ASSERT_EQ(made.chains.size(), 3u);
    const Program& router = *made.chains[0];
    EXPECT_EQ(router.punt_port_of(0), 3);
    EXPECT_EQ(router.punt_port_of(1), kNoPort);
    EXPECT_EQ(router.punt_port_of(2), 4);
    EXPECT_EQ(router.punt_port_of(3), kNoPort) << "what came from Linux does not go back";
    EXPECT_EQ(router.punt_port_of(kNoPort), kNoPort);
    for (const auto& [name, input, output] : {std::tuple{"to-lan", 3, 0}, {"to-wan", 4, 2}}) {
        const Program* const chain = made.find_chain(name);
        ASSERT_NE(chain, nullptr) << name;
        EXPECT_EQ(chain->inputs, std::vector<uint16_t>{static_cast<uint16_t>(input)});
        EXPECT_EQ(chain->output, output);
        EXPECT_TRUE(chain->nodes.empty());
    }
    EXPECT_TRUE(made.warnings.empty()) << made.warnings[0].render();
}

TEST(LinuxPorts, LetAChainsOwnPuntPortTakeAll) {
    const Configuration made = linux_chain(
        "ports:\n  lan: {ring: a, linux: lan0}\n  wan: {ring: a, linux: wan0}\n  log: {null: {}}\n"
        "chains:\n  r: {input: [lan, wan], punt: log, nfs: [{router: {kernel: true}}]}\n");
    for (const uint16_t port : {0, 1, 2}) EXPECT_EQ(made.chains[0]->punt_port_of(port), 2);
}

TEST(LinuxPorts, DoNotHideThatOthersPuntsAreLost) {
    const std::string ports = "ports:\n  lan: {ring: a, linux: lan0}\n  wan: {ring: a}\n";
    const std::string chains = "chains:\n  r: {input: [lan, wan], nfs: [{router: {kernel: true}}]}\n";
    const Configuration made = linux_chain(ports + chains);
    ASSERT_EQ(made.warnings.size(), 1u);
    EXPECT_NE(made.warnings[0].message.find("no punt port"), std::string::npos);
    EXPECT_NE(made.warnings[0].hint.find("linux: NAME"), std::string::npos);
}

TEST(LinuxPorts, AreAThousand) {
    std::string ports = "ports:\n", inputs;
    for (int i = 0; i < 1000; ++i) {
        const std::string number = std::to_string(i);
        ports += "  p" + number + ": {af_packet: eth" + number + ", linux: t" + number + "}\n";
        inputs += (i == 0 ? "" : ", ") + std::string("p") + number;
    }
    const Configuration made = linux_chain(ports + "chains:\n  r: {input: [" + inputs +
                                           "], nfs: [{router: {kernel: true}}]}\n");
    EXPECT_EQ(made.port_names.size(), 2000u);
    EXPECT_EQ(made.chains.size(), 1001u);
    for (uint16_t i = 0; i < 1000; ++i) EXPECT_EQ(made.chains[0]->punt_port_of(i), 1000 + i);
    EXPECT_EQ(made.find_chain("to-p999")->output, 999);
}

TEST(LinuxPorts, TellMistakesWhereTheyAre) {
    const auto expect = [](const std::string& ports, const std::string& place, const std::string& message,
                           const std::string& chains = kChain) {
        const std::string all = linux_mistake("ports:\n  lan: " + ports + "\n  wan: {null: {}}\n" + chains);
        EXPECT_NE(all.find(place + " "), std::string::npos) << ports << "\n" << all;
        EXPECT_NE(all.find(message), std::string::npos) << ports << "\n" << all;
    };
    expect("{af_packet: eth0, linux: {mtu: 1400}}", "c.yaml:3:33:", "'tap' is missing");
    expect("{af_packet: eth0, linux: [lan0]}", "c.yaml:3:33:", "a single value is wanted");
    expect("{af_packet: eth0, linux: ''}", "c.yaml:3:33:", "a port needs a name");
    expect("{af_packet: eth0, linux: wan}", "", "'wan' is given twice");
    expect("{tap: lan0, linux: lan1}", "c.yaml:3:27:", "is an interface of Linux' already");
    expect("{af_packet: eth0, linux: lan0}", "c.yaml:7:3:", "is the one that 'linux:' of port 'lan' adds",
           kChain + "  to-lan: {input: wan}\n");
    expect("{null: {}}", "c.yaml:6:50:", "no interface of Linux' stands for a port");
    expect("{af_packet: eth0, linux: lan0}", "c.yaml:6:50:", "'kernel: false' is not known",
           "chains:\n  r: {input: [lan, wan], nfs: [{router: {kernel: false}}]}\n");
}

}  // namespace
}  // namespace millrace::chain
