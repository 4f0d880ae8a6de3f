#include "nf/ipsec/gateway.hpp"

namespace millrace::test {
namespace {

std::string sa(const Tunnel& tunnel, bool inbound) {
    const std::string near = tunnel.ipv6 ? "'2001:db8::1'" : "192.0.2.1",
                      far = tunnel.ipv6 ? "'2001:db8::2'" : "198.51.100.1";
    std::string text = "{name: east, direction: " + std::string(inbound ? "in" : "out") +
                       ", spi: 0x1001, local: " + (inbound ? far : near) + ", remote: " + (inbound ? near : far) +
                       ", cipher: " + tunnel.cipher;
    if (tunnel.cipher != "null") text += std::string(", key: ") + kKeyText;
    if (tunnel.cipher == "aes-128-ctr") text += std::string(", nonce: ") + kNonceText;
    if (tunnel.extra.find("auth:") == std::string::npos) text += std::string(", auth-key: ") + kAuthKeyText;
    return text + (tunnel.extra.empty() ? "" : ", " + tunnel.extra) + "}";
}

}  // namespace

std::string near_end(const Tunnel& tunnel) {
    return "sas: [" + sa(tunnel, false) +
           "]\n"
           "policies:\n"
           "  - {src: 10.1.0.0/16, dst: 10.2.0.0/16, action: protect, sa: east}\n"
           "  - {src: '2001:db8:1::/48', dst: '2001:db8:2::/48', action: protect, sa: east}\n"
           "default: bypass\n" +
           tunnel.policy_extra + "\n";
}

std::string far_end(const Tunnel& tunnel) {
    return "sas: [" + sa(tunnel, true) + "]\ndefault: bypass\n" + tunnel.policy_extra + "\n";
}

std::vector<Tunnel> all_tunnels() {
    std::vector<Tunnel> tunnels;
    for (const char* cipher : {"aes-128-ctr", "aes-128-cbc", "null"})
        for (const bool ipv6 : {false, true}) tunnels.push_back({.cipher = cipher, .ipv6 = ipv6});
    return tunnels;
}

Frame clear_frame(size_t payload, bool over_ipv6, Rng* rng, size_t vlans) {
    PacketSpec spec;
    for (size_t i = 0; i < vlans; ++i) spec.vlans.push_back({static_cast<uint16_t>(100 + i)});
    if (over_ipv6) {
        spec.ipv6.emplace();
        spec.ipv6->src = ipv6("2001:db8:1::5");
        spec.ipv6->dst = ipv6("2001:db8:2::6");
    } else {
        spec.ipv4.emplace();
        spec.ipv4->src = ipv4("10.1.0.5");
        spec.ipv4->dst = ipv4("10.2.0.6");
    }
    spec.udp.emplace();
    spec.udp->src = 1000;
    spec.udp->dst = 2000;
    for (size_t i = 0; i < payload; ++i) spec.payload.push_back(static_cast<uint8_t>(rng != nullptr ? (*rng)() : i));
    return build(spec);
}

std::string outcome_name(const NfRunner& runner, const Decision& decision) {
    return decision.outcome < runner.type().outcomes.size() ? runner.type().outcomes[decision.outcome].name : "refused";
}
std::vector<std::string> outcome_names(const NfRunner& runner, const NfResult& result) {
    std::vector<std::string> names;
    for (const Decision& decision : result.decisions) names.push_back(outcome_name(runner, decision));
    return names;
}

}  // namespace millrace::test
