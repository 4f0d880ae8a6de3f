// What the options of `tunnel` may not be, and what is said then.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

std::string mistake(const std::string& options) {
    try {
        NfRunner("tunnel", options);
    } catch (const ConfigError& error) {
        return error.diagnostics().front().render();
    }
    return "";
}
/// Of one tunnel, beside a local address of each family.
std::string mistake_of(const std::string& tunnel) {
    return mistake("{local: [192.0.2.1, 2001:db8::1], tunnels: {a: {" + tunnel + "}}}");
}

struct Refused {
    const char* tunnel;
    const char* says;
};
const Refused kRefusedTunnels[] = {
    {"remote: 198.51.100.1, to: 10.0.0.0/8", "kind"},
    {"kind: l2tp, remote: 198.51.100.1, to: 10.0.0.0/8", "vxlan"},
    {"kind: gre, to: 10.0.0.0/8", "remote"},
    {"kind: gre, remote: 198.51.100.0/24, to: 10.0.0.0/8", "not a single address"},
    {"kind: gre, remote: 239.1.1.1, to: 10.0.0.0/8", "address of a group"},
    {"kind: gre, remote: \"ff02::1\", to: 10.0.0.0/8", "address of a group"},
    {"kind: gre, remote: 192.0.2.1, to: 10.0.0.0/8", "both ends"},
    {"kind: gre, remote: \"2001:db8::2\", local: 192.0.2.1, to: 10.0.0.0/8", "of one family"},
    {"kind: gre, remote: 198.51.100.1", "nothing goes into"},
    {"kind: gre, remote: 198.51.100.1, to: 10.0.0.0/8, port: port1", "leave one out"},
    {"kind: gre, remote: 198.51.100.1, port: port9", "port0"},
    {"kind: gre, remote: 198.51.100.1, to: 10.0.0.0/8, key: 4294967296", "4294967295"},
    {"kind: gre, remote: 198.51.100.1, to: 10.0.0.0/8, vni: 1", "goes with vxlan and geneve"},
    {"kind: ipip, remote: 198.51.100.1, to: 10.0.0.0/8, key: 1", "goes with gre"},
    {"kind: ipip, remote: 198.51.100.1, port: port1", "no frames"},
    {"kind: gtp-u, remote: 198.51.100.1, teid-in: 1, teid-out: 1, port: port1", "no frames"},
    {"kind: gtp-u, remote: 198.51.100.1, teid-in: 1, to: []", "teid-out"},
    {"kind: gtp-u, remote: 198.51.100.1, teid-in: 0, teid-out: 1, to: []", "1"},
    {"kind: vxlan, remote: 198.51.100.1, to: 10.0.0.0/8", "vni"},
    {"kind: vxlan, remote: 198.51.100.1, vni: 16777216, to: 10.0.0.0/8", "16777215"},
    {"kind: vxlan, remote: 198.51.100.1, vni: 1, to: 10.0.0.0/8", "macs"},
    {"kind: vxlan, remote: 198.51.100.1, vni: 1, port: port1, macs: {dst: \"02:00:00:00:00:01\"}", "leave it out"},
    {"kind: gre, remote: 198.51.100.1, to: 10.0.0.0/8, macs: {dst: \"02:00:00:00:00:01\"}", "leave it out"},
    {"kind: geneve, remote: 198.51.100.1, vni: 1, to: [], macs: {dst: \"02:00:00:00:00:01\"}", "src"},
    {"kind: gre, remote: 198.51.100.1, to: [10.0.0.0/8, 10.0.0.0/8]", "go into 'a' already"},
    {"kind: gre, remote: 198.51.100.1, to: 10.0.0.1/8", "10.0.0.1/8"},
    {"kind: gre, remote: 198.51.100.1, to: 10.0.0.0/8, ttl: 0", "1"},
    {"kind: gre, remote: 198.51.100.1, to: 10.0.0.0/8, kye: 1", "key"},
};

TEST(TunnelOptions, RefuseWhatNoTunnelCanBe) {
    for (const Refused& one : kRefusedTunnels) {
        const std::string said = mistake_of(one.tunnel);
        EXPECT_NE(said.find(one.says), std::string::npos) << one.tunnel << "\n" << said;
    }
}

TEST(TunnelOptions, RefuseWhatTunnelsCannotBeTogether) {
    const auto two = [](const std::string& a, const std::string& b) {
        return mistake("{local: 192.0.2.1, tunnels: {a: {" + a + "}, b: {" + b + "}}}");
    };
    const std::string gre = "kind: gre, remote: 198.51.100.1, ";
    EXPECT_NE(two(gre + "to: 10.0.0.0/8", gre + "to: 11.0.0.0/8").find("'a' has the same kind"), std::string::npos);
    EXPECT_EQ(two(gre + "to: 10.0.0.0/8", gre + "key: 0, to: 11.0.0.0/8"), "");
    EXPECT_NE(two(gre + "to: 10.0.0.0/8", gre + "key: 1, to: 10.0.0.0/8").find("into 'a' already"), std::string::npos);
    EXPECT_NE(two(gre + "port: port1", gre + "key: 1, port: port1").find("of this port already"), std::string::npos);
    EXPECT_NE(mistake("{tunnels: {a: {" + gre + "to: []}}}").find("no local address of IPv4"), std::string::npos);
    EXPECT_NE(mistake("{local: [192.0.2.1, 192.0.2.2], tunnels: {a: {" + gre + "to: []}}}").find("two local"),
              std::string::npos);
    EXPECT_NE(mistake("{local: 192.0.2.1, tunnels: {}}").find("no tunnel"), std::string::npos);
    EXPECT_NE(mistake("{local: 192.0.2.1, tunnels: [a]}").find("not a map"), std::string::npos);
    EXPECT_NE(mistake("{local: 192.0.2.1, mtu: 67, tunnels: {a: {" + gre + "to: []}}}").find("68"), std::string::npos);
}

}  // namespace
}  // namespace millrace::test
