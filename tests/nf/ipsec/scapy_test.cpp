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
/// Whether it says that there is no scapy, or no Python. To ask beforehand would take another second.
bool is_missing(int status) { return status == 77 || status == 127; }
#define MILLRACE_NEEDS_SCAPY(status) \
    if (is_missing(status)) GTEST_SKIP() << "needs scapy: apt install python3-scapy"

std::string scratch(const std::string& name) { return testing::TempDir() + name + std::to_string(getpid()); }
std::string hex(const Frame& frame) {
    std::string text;
    char two[3];
    for (const uint8_t byte : frame)
        text.append(two, static_cast<size_t>(std::snprintf(two, sizeof two, "%02x", byte)));
    return text;
}

/// As scapy_esp.py has them.
std::string kind_of(const Tunnel& tunnel) {
    return tunnel.cipher + " " + (tunnel.is("gcm") ? std::to_string(tunnel.gcm_icv) : tunnel.auth) + " " +
           (tunnel.esn         ? "esn"
            : tunnel.udp       ? "udp"
            : tunnel.transport ? "transport"
                               : "tunnel") +
           (tunnel.ipv6 ? " 6" : " 4");
}
Tunnel of_kind(const std::string& cipher, const std::string& auth, const std::string& form,
               const std::string& version) {
    Tunnel tunnel{.cipher = cipher, .ipv6 = version == "6"};
    if (tunnel.is("gcm")) tunnel.gcm_icv = std::stoul(auth);
    else tunnel.auth = auth;
    tunnel.esn = form == "esn";
    tunnel.udp = form == "udp";
    tunnel.transport = form == "transport";
    return tunnel;
}

TEST(IpsecScapy, OpensAndVerifiesWhatTheGatewaySealed) {
    const std::string path = scratch("sealed");
    std::ofstream out(path);
    Rng rng(6);
    size_t count = 0;
    std::vector<Tunnel> tunnels = all_tunnels();
    for (const char* cipher : {"aes-128-ctr", "aes-256-gcm", "aes-256-cbc"})
        for (const bool ipv6 : {false, true})
            tunnels.push_back({.cipher = cipher, .ipv6 = ipv6, .auth = "hmac-sha256-128", .transport = true});
    for (Tunnel tunnel : tunnels) {
        if (tunnel.gcm_icv != 16 || (tunnel.esn && !tunnel.is("gcm"))) continue;  // scapy knows no such
        tunnel.policy_extra = "mtu: 0";
        for (const Half& half : {Half{8}, Half{0}}) {
            NfRunner near("ipsec", near_end(tunnel));
            std::vector<Frame> frames;
            for (const size_t payload : {0, 1, 2, 3, 4, 13, 14, 15, 16, 17, 33, 63, 65, 511, 1024, 1400, 1500})
                for (const bool ipv6 : {false, true}) {
                    if (!tunnel.transport) frames.push_back(clear_frame(payload, ipv6, &rng));
                    else if (ipv6 == tunnel.ipv6) frames.push_back(transport_frame(payload, ipv6, &rng));
                }
            const NfResult sent = near.run(frames, half);
            for (size_t i = 0; i < frames.size(); ++i, ++count)
                out << kind_of(tunnel) << ' ' << hex(frames[i]) << ' ' << hex(sent.frames[i]) << '\n';
        }
    }
    out.close();
    const int status = scapy("open " + path + " > " + path + ".said");
    MILLRACE_NEEDS_SCAPY(status);
    EXPECT_EQ(status, 0);
    size_t checked = 0;
    std::ifstream(path + ".said") >> checked;
    EXPECT_EQ(checked, count);
    unlink(path.c_str());
    unlink((path + ".said").c_str());
}

TEST(IpsecScapy, SealsWhatTheGatewayAccepts) {
    const std::string path = scratch("scapy");
    const int status = scapy("seal " + path);
    MILLRACE_NEEDS_SCAPY(status);
    ASSERT_EQ(status, 0);
    std::map<std::string, std::tuple<Tunnel, std::vector<Frame>, std::vector<Frame>>> tunnels;
    std::ifstream in(path);
    std::string cipher, auth, form, version, clear, sealed;
    while (in >> cipher >> auth >> form >> version >> clear >> sealed) {
        const Tunnel tunnel = of_kind(cipher, auth, form, version);
        auto& [known, clears, esps] = tunnels[kind_of(tunnel)];
        known = tunnel;
        clears.push_back(*parse_hex(clear));
        esps.push_back(*parse_hex(sealed));
    }
    EXPECT_EQ(tunnels.size(), 12u * 6 + 2 * 2);
    for (const auto& [kind, frames] : tunnels) {
        const auto& [tunnel, clears, esps] = frames;
        EXPECT_EQ(clears.size(), tunnel.transport ? 14u : 28u);
        for (const Half& half : halves(*nf::find_type("ipsec"))) {
            SCOPED_TRACE(tunnel.text() + ", " + half.text());
            NfRunner far("ipsec", far_end(tunnel));
            const NfResult received = far.run(esps, half);
            EXPECT_EQ(outcome_names(far, received), std::vector<std::string>(clears.size(), "unprotected"));
            EXPECT_EQ(received.frames, clears);
        }
    }
    unlink(path.c_str());
}

}  // namespace
}  // namespace millrace::test
