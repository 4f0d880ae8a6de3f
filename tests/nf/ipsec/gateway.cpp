#include "nf/ipsec/gateway.hpp"

namespace millrace::test {
namespace {

std::string sa(const Tunnel& tunnel, bool inbound) {
    const std::string near = tunnel.ipv6 ? "'2001:db8::1'" : "192.0.2.1",
                      far = tunnel.ipv6 ? "'2001:db8::2'" : "198.51.100.1";
    std::string text = "{name: east, direction: " + std::string(inbound ? "in" : "out") +
                       ", spi: 0x1001, local: " + (inbound ? far : near) + ", remote: " + (inbound ? near : far) +
                       ", cipher: " + tunnel.cipher;
    if (tunnel.cipher != "null") text += ", key: " + std::string(kKeyText, 2 * tunnel.key_bytes());
    if (tunnel.is("ctr") || tunnel.is("gcm")) text += std::string(", nonce: ") + kNonceText;
    if (tunnel.is("gcm")) text += ", icv: " + std::to_string(tunnel.gcm_icv);
    else text += ", auth: " + tunnel.auth;
    if (!tunnel.is("gcm") && tunnel.auth != "none")
        text += ", auth-key: " + std::string(kAuthKeyText, tunnel.auth == "hmac-sha1-96" ? 40 : 64);
    if (tunnel.esn) text += ", esn: true";
    if (tunnel.udp) text += ", encapsulation: udp";
    if (tunnel.transport) text += ", mode: transport";
    return text + (tunnel.extra.empty() ? "" : ", " + tunnel.extra) + "}";
}

PacketSpec udp_spec(size_t payload, Rng* rng, size_t vlans) {
    PacketSpec spec;
    for (size_t i = 0; i < vlans; ++i) spec.vlans.push_back({static_cast<uint16_t>(100 + i)});
    spec.udp.emplace();
    spec.udp->src = 1000;
    spec.udp->dst = 2000;
    for (size_t i = 0; i < payload; ++i) spec.payload.push_back(static_cast<uint8_t>(rng != nullptr ? (*rng)() : i));
    return spec;
}

Frame framed(PacketSpec spec, bool over_ipv6, const char* src4, const char* dst4, const char* src6, const char* dst6) {
    if (over_ipv6) {
        spec.ipv6.emplace();
        spec.ipv6->src = ipv6(src6);
        spec.ipv6->dst = ipv6(dst6);
    } else {
        spec.ipv4.emplace();
        spec.ipv4->src = ipv4(src4);
        spec.ipv4->dst = ipv4(dst4);
    }
    return build(spec);
}

}  // namespace

size_t Tunnel::icv_bytes() const {
    if (is("gcm")) return gcm_icv;
    return auth == "none" ? 0 : auth == "hmac-sha1-96" ? 12 : 16;
}

std::string Tunnel::text() const {
    return cipher + " " + (is("gcm") ? std::to_string(gcm_icv) : auth) + (esn ? " esn" : "") + (udp ? " in UDP" : "") +
           (transport ? " transport" : "") + (ipv6 ? " over IPv6" : " over IPv4");
}

std::string near_end(const Tunnel& tunnel) {
    if (tunnel.transport)
        return "sas: [" + sa(tunnel, false) + "]\npolicies: [" +
               (tunnel.ipv6 ? "{src: '2001:db8::1', dst: '2001:db8::2', action: protect, sa: east}"
                            : "{src: 192.0.2.1, dst: 198.51.100.1, action: protect, sa: east}") +
               "]\ndefault: bypass\n" + tunnel.policy_extra + "\n";
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
    for (const bool ipv6 : {false, true}) {
        for (const bool esn : {false, true}) {
            for (const char* cipher : {"aes-128-ctr", "aes-256-ctr", "aes-128-cbc", "aes-256-cbc", "null"})
                for (const char* auth : {"hmac-sha1-96", "hmac-sha256-128"})
                    tunnels.push_back({.cipher = cipher, .ipv6 = ipv6, .auth = auth, .esn = esn});
            for (const char* cipher : {"aes-128-gcm", "aes-256-gcm"})
                for (const size_t icv : {16, 12, 8})
                    tunnels.push_back({.cipher = cipher, .ipv6 = ipv6, .esn = esn, .gcm_icv = icv});
        }
    }
    for (const char* cipher : {"aes-128-ctr", "aes-128-gcm", "aes-256-cbc"})
        for (const bool ipv6 : {false, true})
            tunnels.push_back({.cipher = cipher, .ipv6 = ipv6, .auth = "hmac-sha256-128", .udp = true});
    return tunnels;
}

Frame clear_frame(size_t payload, bool over_ipv6, Rng* rng, size_t vlans) {
    return framed(udp_spec(payload, rng, vlans), over_ipv6, "10.1.0.5", "10.2.0.6", "2001:db8:1::5", "2001:db8:2::6");
}

Frame transport_frame(size_t payload, bool over_ipv6, Rng* rng, size_t vlans) {
    return framed(udp_spec(payload, rng, vlans), over_ipv6, "192.0.2.1", "198.51.100.1", "2001:db8::1", "2001:db8::2");
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
