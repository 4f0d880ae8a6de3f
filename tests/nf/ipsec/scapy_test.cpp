// Both ways with scapy: it opens what the gateway sealed, and the gateway opens what it sealed.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "nf/ipsec/gateway.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

/// Runs scapy_esp.py; its exit status.
int scapy(const std::string& arguments) {
    const std::string command = "/usr/bin/python3 -W ignore " + test::source_path("tests/nf/ipsec/scapy_esp.py") + " " +
                                arguments;
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
std::string scratch(const std::string& name) { return testing::TempDir() + name + std::to_string(getpid()); }
std::string hex(const Frame& frame) {
    std::string text;
    char two[3];
    for (const uint8_t byte : frame)
        text.append(two, static_cast<size_t>(std::snprintf(two, sizeof two, "%02x", byte)));
    return text;
}

TEST(IpsecScapy, OpensAndVerifiesWhatTheGatewaySealed) {
    if (scapy("") != 0) GTEST_SKIP() << "needs scapy: apt install python3-scapy";
    const std::string path = scratch("sealed");
    std::ofstream out(path);
    Rng rng(6);
    size_t count = 0;
    for (Tunnel tunnel : all_tunnels()) {
        tunnel.policy_extra = "mtu: 0";
        for (const Engine& engine : {Engine{8}, Engine{0}}) {
            NfRunner near("ipsec", near_end(tunnel));
            std::vector<Frame> frames;
            for (const size_t payload : {0,  1,  2,  3,  4,  5,   12,  13,   14,   15,   16,   17,   31,
                                         32, 33, 63, 64, 65, 127, 511, 1023, 1024, 1025, 1400, 1472, 1500})
                for (const bool ipv6 : {false, true}) frames.push_back(clear_frame(payload, ipv6, &rng));
            const NfResult sent = near.run(frames, engine);
            for (size_t i = 0; i < frames.size(); ++i, ++count)
                out << tunnel.cipher << ' ' << (tunnel.ipv6 ? 6 : 4) << ' ' << hex(frames[i]) << ' '
                    << hex(sent.frames[i]) << '\n';
        }
    }
    out.close();
    EXPECT_EQ(scapy("open " + path + " > " + path + ".said"), 0);
    size_t checked = 0;
    std::ifstream(path + ".said") >> checked;
    EXPECT_EQ(checked, count);
    unlink(path.c_str());
    unlink((path + ".said").c_str());
}

TEST(IpsecScapy, SealsWhatTheGatewayAccepts) {
    if (scapy("") != 0) GTEST_SKIP() << "needs scapy: apt install python3-scapy";
    const std::string path = scratch("scapy");
    ASSERT_EQ(scapy("seal " + path), 0);
    std::map<std::pair<std::string, bool>, std::pair<std::vector<Frame>, std::vector<Frame>>> tunnels;
    std::ifstream in(path);
    std::string cipher, clear, sealed;
    int version = 0;
    while (in >> cipher >> version >> clear >> sealed) {
        auto& [clears, esps] = tunnels[{cipher, version == 6}];
        clears.push_back(*parse_hex(clear));
        esps.push_back(*parse_hex(sealed));
    }
    EXPECT_EQ(tunnels.size(), 6u);
    for (const auto& [key, frames] : tunnels) {
        const Tunnel tunnel{.cipher = key.first, .ipv6 = key.second, .extra = {}, .policy_extra = {}};
        EXPECT_EQ(frames.first.size(), 96u);
        for (const Engine& engine : engines(*nf::find_type("ipsec"))) {
            SCOPED_TRACE(tunnel.text() + ", " + engine.text());
            NfRunner far("ipsec", far_end(tunnel));
            const NfResult received = far.run(frames.second, engine);
            EXPECT_EQ(outcome_names(far, received), std::vector<std::string>(frames.first.size(), "unprotected"));
            EXPECT_EQ(received.frames, frames.first);
        }
    }
    unlink(path.c_str());
}

}  // namespace
}  // namespace millrace::test
