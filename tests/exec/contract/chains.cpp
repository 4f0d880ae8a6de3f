#include "exec/contract/chains.hpp"

#include "exec/fragments/fragment_maker.hpp"
#include "nf/nids/streams/sessions.hpp"
#include "support/tunnel_frames.hpp"

namespace millrace::test {
namespace {

const std::string kTunnel =
    "ipsec: {sas: [{name: a, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-ctr, "
    "key: 7e24067817fae0d743d6ce1f32539163, nonce: \"006cb6db\", auth-key: "
    "1f2e3d4c5b6a79880123456789abcdeffedcba98}], policies: [{dst: 0.0.0.0/0, action: protect, sa: a}], "
    "default: bypass}";

/// Packets of two fragments each, some of whose halves never come, among whole ones.
std::vector<Frame> fragments() {
    std::vector<Frame> frames;
    for (uint32_t k = 0; k < 400; ++k) {
        auto pieces = fragments_of(udp_packet(k % 2 == 1, 1200, k % 100), 800, k);
        if (k % 8 == 0) pieces.pop_back();
        frames.insert(frames.end(), pieces.begin(), pieces.end());
        frames.push_back(udp_packet(false, 100, k));
    }
    return frames;
}

/// What all kinds of tunnels carry.
std::vector<Frame> tunnelled() {
    std::vector<Frame> frames;
    for (unsigned k = 0; k < 420; ++k)
        frames.push_back(in_tunnel(kTunnelKinds[k % std::size(kTunnelKinds)], udp_packet(k % 3 == 0, 64 + k, k), k));
    return frames;
}

/// From those who have IPv6 to those who have IPv4, by 64:ff9b::/96.
std::vector<Frame> to_ipv4() {
    std::vector<Frame> frames;
    for (uint32_t k = 0; k < 400; ++k) {
        Frame frame = udp_packet(true, 64 + k, k % 100);
        const std::array<uint8_t, 16> prefix = ipv6("64:ff9b::192.0.2.9");
        // The checksum stays wrong, by which nobody goes.
        std::copy(prefix.begin(), prefix.end(), frame.begin() + 38);
        frames.push_back(std::move(frame));
    }
    return frames;
}

/// Requests and answers, of connections that end; of half of them the answer is in two segments.
std::vector<Frame> http() {
    const std::string get = "GET /index HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    const std::string text = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhere is an evil-body";
    std::vector<Frame> frames;
    for (uint32_t i = 0; i < 200; ++i) {
        nf::nids::Session session(i, 5);
        session.send(get, {0, get.size()});
        const size_t first = i % 2 == 0 ? text.size() : text.size() - 5;
        session.answer(text, {0, first});
        if (first < text.size()) session.answer(text, {first, text.size() - first});
        session.add(true, static_cast<uint32_t>(6 + get.size()), "", tcp::kRst);
        frames.insert(frames.end(), session.frames.begin(), session.frames.end());
    }
    return frames;
}

}  // namespace

void PrintTo(const Chains& chains, std::ostream* out) { *out << chains.name; }

std::vector<Chains> all_chains() {
    const auto one = [](const std::string& nfs, const std::string& more = "") {
        return "chains: {c: {input: in, output: out, punt: other, " + more + "nfs: [" + nfs + "]}}\n";
    };
    std::vector<Chains> all;
    all.push_back({.name = "Nothing", .text = one("")});
    all.push_back({.name = "Mirror", .text = one("mirror")});
    all.push_back({.name = "Firewall", .text = one("firewall: {file: examples/firewall.rules, default: permit}")});
    all.push_back({.name = "Router",
                   .text = one("router: {routes: [{prefix: 0.0.0.0/0, via: [a, b]}, {prefix: \"::/0\", via: b}], "
                               "next-hops: {a: {mac: \"02:00:00:00:00:0a\"}, b: {mac: \"02:00:00:00:00:0b\", port: "
                               "other}}}")});
    all.push_back({.name = "Ipsec", .text = one(kTunnel)});
    all.push_back({.name = "Conntrack", .text = one("conntrack")});
    all.push_back({.name = "Nat", .text = one("nat: {inside: 10.0.0.0/8, pool: 198.51.100.0/30, ports: 1024-9215}")});
    all.push_back({.name = "Nat64",
                   .text = one("nat64: {pool: 198.51.100.0/30, ports: 1024-9215}"),
                   .frames = to_ipv4,
                   .outcome = "outbound"});
    all.push_back({.name = "Balancer",
                   .text = one("balancer: {services: [{address: 192.0.2.1, back-ends: [{address: 10.0.0.1}, {address: "
                               "10.0.0.2}]}, {address: 192.0.2.2, protocol: udp, way: mac, back-ends: [{mac: "
                               "\"02:00:00:00:00:40\", via: other}]}]}"),
                   .source = "{size: [64, 700], flows: 4096, addresses: {src: 10.9.0.0/16, dst: 192.0.2.0/30}}",
                   .outcome = "balanced"});
    all.push_back(
        {.name = "Tunnel",
         .text = one("tunnel: {local: 192.0.2.1, tunnels: {a: {kind: gre, remote: 198.51.100.1, key: 7, to: "
                     "0.0.0.0/1}, b: {kind: vxlan, remote: 198.51.100.2, vni: 7, to: 128.0.0.0/1, macs: {dst: "
                     "\"02:00:00:00:00:01\", src: \"02:00:00:00:00:02\"}}}}"),
         .outcome = "wrapped"});
    all.push_back({.name = "Crc", .text = one("crc: {mode: set}"), .outcome = "set"});
    all.push_back({.name = "Reassembled",
                   .text = one("firewall: {default: deny, rules: [permit udp from any to any port 53]}",
                               "reassemble: {max-packets: 64, timeout: 1ms}, "),
                   .frames = fragments,
                   .outcome = "permit"});
    all.push_back({.name = "Inner",
                   .text = one("firewall: {default: permit, rules: [deny udp from any to any port 53]}, nids: {rule: "
                               "['alert udp any any -> any any (content:\"never in there\"; sid:1;)']}",
                               "inner: any, "),
                   .frames = tunnelled,
                   .outcome = "deny"});
    all.push_back({.name = "Policer", .text = one("policer: {rate: 10Mpps, per: source/24}")});
    all.push_back({.name = "Reject",
                   .text = one("reject: {with: no-route, from: [192.0.2.1, \"2001:db8::1\"]}"),
                   .outcome = "told"});
    // Records all the time, to nobody.
    all.push_back({.name = "Ipfix",
                   .text = one("ipfix: {collector: \"192.0.2.1:4739\", max-flows: 64, idle-timeout: 1us}"),
                   .alerts = true});
    // Several alerts for each packet, some more than a device has room for, thresholds, and packets that are dropped.
    std::string many;
    for (unsigned sid = 100; sid < 140; ++sid)
        many += ", 'alert udp any any -> any 53 (msg:\"many\"; sid:" + std::to_string(sid) + ";)'";
    all.push_back({.name = "Nids",
                   .text = one("nids: {mode: ips, rule: ['alert ip any any -> any any (msg:\"any\"; sid:1;)', 'alert "
                               "tcp any any -> any any (msg:\"limited\"; content:\"a\"; nocase; pcre:\"/a[b-f]+/i\"; "
                               "threshold: type limit, track by_src, count 1, seconds 1; sid:2;)', 'drop udp any any "
                               "-> any any (msg:\"dropped\"; dsize:>300; sid:3;)'" +
                               many + "]}"),
                   .alerts = true});
    all.push_back(
        {.name = "NidsOfFlows",
         .text = one("nids: {flows: {max-flows: 1k}, rule: ['alert udp any any -> any any (msg:\"sets\"; "
                     "content:\"a\"; nocase; flowbits:set,seen; sid:1;)', 'alert ip any any -> any any "
                     "(msg:\"asks\"; flow:to_server; flowbits:isset,seen; sid:2;)', 'alert tcp any any -> any "
                     "any (msg:\"never\"; flow:established; sid:3;)']}"),
         .alerts = true});
    all.push_back(
        {.name = "NidsOfNumbers",
         .text = one("nids: {flows: {max-flows: 1k, midstream: true}, rule: ['alert tcp any any -> any any "
                     "(msg:\"counts\"; content:\"a\"; nocase; stream_size:client,>,200; sid:1;)', 'alert tcp any any "
                     "-> any any (msg:\"asks\"; flow:to_server; stream_size:either,<,9000; flowint:n,+,1; sid:2;)', "
                     "'alert ip any any -> any any (msg:\"more\"; flowint:n,>,2; sid:3;)']}"),
         .alerts = true});
    all.push_back(
        {.name = "NidsOfStreams",
         .text = one(
             "nids: {flows: {max-flows: 1k, midstream: true, streams: {}}, rule: ['alert tcp any any -> any any "
             "(msg:\"two\"; content:\"a\"; content:\"b\"; nocase; sid:1;)', 'alert ip any any -> any any "
             "(msg:\"all\"; flow:to_server; sid:2;)']}"),
         .alerts = true});
    all.push_back(
        {.name = "NidsOfHttp",
         .text = one("nids: {flows: {max-flows: 2k, streams: {http: usual}}, rule: ['alert http any any -> any "
                     "any (file_data; content:\"evil-body\"; sid:1;)', 'alert http any any -> any any "
                     "(http.host; content:\"evil.example\"; http.uri; content:\"/index\"; sid:2;)']}"),
         .alerts = true,
         .frames = http});
    all.push_back({.name = "Switch",
                   .text = one("switch: {flows: ['priority=9,udp,actions=output:out,output:other', "
                               "'priority=8,icmp,actions=controller', "
                               "'priority=7,ip,actions=dec_ttl,push_vlan:0x8100,set_field:0x1014->"
                               "vlan_vid,output:out', 'priority=1,actions=flood']}")});
    all.push_back({.name = "Gateway",
                   .text = R"(
chains:
  gateway:
    input: in
    output: out
    punt: other
    nfs:
      - firewall: {file: examples/firewall.rules, default: permit}
      - nids: {rules: [examples/nids.rules], mode: ips}
      - router:
          local: [10.0.10.1/32]
          routes: [{prefix: 0.0.0.0/0, via: a}, {prefix: "::/0", via: a}]
          next-hops: {a: {mac: "02:00:00:00:00:0a"}}
        on: {ttl-expired: punt}
      - )" + kTunnel + "\n",
                   .alerts = true});
    // A chain for every port of a server, which lead to one that all share, which leads to a last one.
    std::string classify = "classify:\n", chains = "chains:\n";
    for (unsigned i = 0; i < 40; ++i) {
        const std::string name = "c" + std::to_string(i), port = std::to_string(1000 + i);
        classify += "  - {match: {port: in, dst-port: " + port + "}, chain: " + name + "}\n";
        chains += "  " + name + ": {output: out, nfs: [{firewall: {default: permit}, on: {permit: chain shared}}]}\n";
    }
    chains +=
        "  shared: {output: out, nfs: [{mirror: , on: {forward: chain last}}]}\n"
        "  last: {output: out, nfs: [{firewall: {default: permit, rules: [deny udp from any to any port 1003]}}]}"
        "\n";
    const std::string source = "{size: [64, 700], flows: 4096, ports: {dst: 1000-1043}}";
    all.push_back({.name = "Classified", .text = classify + chains, .source = source});
    // So few that a device finds their packets' chains by itself; some packets are for none.
    all.push_back({.name = "ClassifiedOnTheDevice",
                   .text = R"(classify:
  - {match: {port: in, dst-port: 1000-1013}, chain: a}
  - {match: {port: in, dst-port: 1014-1030}, chain: b}
  - {match: {port: in, dst-port: 1031-1040}, chain: c}
chains:
  a: {output: out, nfs: [{firewall: {default: permit, rules: [deny udp from any to any port 1003]}}, mirror]}
  b: {output: out, nfs: [mirror]}
  c: {output: out, nfs: []}
)",
                   .source = source});
    return all;
}

}  // namespace millrace::test
