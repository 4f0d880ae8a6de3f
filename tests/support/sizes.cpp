#include "support/sizes.hpp"

#include <fmt/format.h>

#include <map>

#include "support/data.hpp"

namespace millrace::test {
namespace {

/// What entry `i` of a table that is made up is about: a /24 of 100.0.0.0/7, which no golden packet comes from or goes
/// to.
uint32_t network(size_t i) { return ipv4("100.0.0.0") + static_cast<uint32_t>(i << 8); }

std::string network_text(size_t i) {
    const uint32_t at = network(i);
    return std::to_string(at >> 24) + "." + std::to_string(at >> 16 & 255) + "." + std::to_string(at >> 8 & 255) +
           ".0/24";
}

/// Texts of entries 0 to n - 1 as a YAML list.
template <class Text>
std::string list_of(size_t n, const Text& text) {
    std::string list = "[";
    for (size_t i = 0; i < n; ++i) list += (i > 0 ? ", " : "") + text(i);
    return list + "]";
}

/// The tables, and packets for their entries: `aimed(i)` is for entry `i`.
template <class AimedAt>
SizedTables tables_of(size_t n, std::string nfs, const AimedAt& aimed) {
    SizedTables tables;
    tables.nfs = std::move(nfs);
    if (n == 0) return tables;
    tables.first = {aimed(0)};
    tables.middle = {aimed(n / 2)};
    tables.last = {aimed(n - 1)};
    Rng rng(n);
    for (int i = 0; i < 200; ++i) tables.others.push_back(aimed(rng() % n).frame);
    return tables;
}

SizedTables firewall(size_t n) {
    const auto rule = [](size_t i) {
        return (i % 2 == 0 ? "deny udp from any to " : "permit udp from any to ") + network_text(i) + " port 7";
    };
    return tables_of(n, "[firewall: {default: permit, rules: " + list_of(n, rule) + "}]", [](size_t i) {
        return Aimed{frame_to(network(i) + 1), i % 2 == 0 ? "deny" : "permit", static_cast<uint32_t>(i)};
    });
}

SizedTables nids(size_t n) {
    const auto word = [](size_t i) { return "entry " + std::to_string(i) + ";"; };
    const auto rule = [](size_t i) {
        return (i % 2 == 0 ? "'drop" : "'alert") +
               std::string(R"( udp any any -> any any (msg:"an entry"; content:"entry )") + std::to_string(i) +
               R"(|3b|"; sid:)" + std::to_string(i + 1) + ";)'";
    };
    return tables_of(n, "[nids: {mode: ips, rule: " + list_of(n, rule) + "}]", [&](size_t i) {
        return Aimed{frame_to(network(i), word(i)), i % 2 == 0 ? "block" : "alert", static_cast<uint32_t>(i)};
    });
}

SizedTables router(size_t n) {
    // The next hop tells the entry.
    const auto hop = [n](size_t i) { return i == 0 ? 1u : i == n - 1 ? 3u : i == n / 2 ? 2u : 0u; };
    const auto route = [&](size_t i) {
        return "{prefix: " + network_text(i) + ", via: h" + std::to_string(hop(i)) + "}";
    };
    return tables_of(n,
                     "[router: {next-hops: {h0: {mac: \"02:00:00:00:00:0a\"}, h1: {port: third}, h2: {port: out}, h3: "
                     "{}}, routes: " +
                         list_of(n, route) + "}]",
                     [&](size_t i) { return Aimed{frame_to(network(i) + 1), "forward", hop(i)}; });
}

SizedTables ipsec(size_t n) {
    const auto sa = [](size_t i) {
        return "{name: t" + std::to_string(i) + ", direction: out, spi: " + std::to_string(0x500000 + i) +
               ", local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f325" +
               std::to_string(10000 + i) +
               R"(, nonce: "006cb6db", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98})";
    };
    const auto policy = [](size_t i) {
        return "{dst: " + network_text(i) + ", action: protect, sa: t" + std::to_string(i) + "}";
    };
    return tables_of(n,
                     "[ipsec: {sa-slots: 10000, default: bypass, sas: " + list_of(n, sa) +
                         ", policies: " + list_of(n, policy) + "}]",
                     [](size_t i) { return Aimed{frame_to(network(i) + 1), "protected", static_cast<uint32_t>(i)}; });
}

SizedTables openflow_switch(size_t n) {
    const auto flow = [](size_t i) {
        return "\"udp,nw_dst=" + network_text(i) + (i % 2 == 0 ? ",actions=output:2\"" : ",actions=dec_ttl,output:3\"");
    };
    return tables_of(n, "[switch: {flows: " + list_of(n, flow) + "}]",
                     [](size_t i) { return Aimed{frame_to(network(i) + 1), "forward", static_cast<uint32_t>(i)}; });
}

SizedTables balancer(size_t n) {
    const auto service = [](size_t i) {
        std::string address = network_text(i);
        address.replace(address.size() - 4, 4, "1");
        return "{address: " + address + ", slots: 3, back-ends: [{name: b" + std::to_string(i) + ", address: 172." +
               std::to_string(16 + (i >> 16)) + "." + std::to_string(i >> 8 & 255) + "." + std::to_string(i & 255) +
               "}]}";
    };
    return tables_of(n, "[balancer: {services: " + list_of(n, service) + "}]",
                     [](size_t i) { return Aimed{frame_to(network(i) + 1), "balanced", static_cast<uint32_t>(i)}; });
}

SizedTables mirror() { return {.nfs = "[mirror]"}; }
SizedTables reject() { return {.nfs = "[reject: {with: time-exceeded, from: [192.0.2.1, '2001:db8::1']}]"}; }

/// From one address to another, as `frame_to` is otherwise; flow `i`'s first packet, or an answer to it.
Frame frame_of_flow(size_t i, bool answer = false) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = ipv4("100.0.0.0") + static_cast<uint32_t>(i);
    spec.ipv4->dst = ipv4("192.0.2.7");
    spec.udp = {.src = 1000, .dst = 7, .length = {}, .checksum = {}};
    if (answer) {
        std::swap(spec.ipv4->src, spec.ipv4->dst);
        std::swap(spec.udp->src, spec.udp->dst);
    }
    return build(spec);
}

/// More flows than a table of `kRoom` has room for.
constexpr size_t kRoom = 16384, kMoreThanRoom = 50000;

/// A table that packets have filled with `n` flows, of which nobody makes room for another one. `meets` is the outcome
/// of what comes again of a flow that is there.
SizedTables filled(size_t n, std::string nfs, const char* meets, bool by_answer = false) {
    SizedTables tables;
    tables.nfs = std::move(nfs);
    if (n == 0) return tables;
    for (size_t i = 0; i < n; ++i) tables.filling.push_back(frame_of_flow(i));
    const bool full = n > kRoom;
    const auto again = [&](size_t i) { return Aimed{frame_of_flow(i, by_answer), meets, {}}; };
    tables.first = {again(0)};
    tables.middle = {again(full ? kRoom / 8 : n / 2)};
    if (!full) tables.last = {again(n - 1)};
    // A bucket here and there may have a place left.
    for (size_t i = 0; full && i < 8; ++i) tables.last.push_back({frame_of_flow(n + i), "full", {}});
    return tables;
}
std::string room_for(size_t n) {
    return std::to_string(n > kRoom ? kRoom : std::max<size_t>(4 * n, 64)) + ", when-full: refuse";
}

SizedTables policer() { return {.nfs = "[policer: {rate: 1Mpps, burst: 5, per: source}]"}; }
SizedTables filled_policer(size_t n) {
    return filled(n, "[policer: {rate: 1pps, burst: 1, per: source, max-buckets: " + room_for(n) + "}]", "over");
}
SizedTables conntrack() { return {.nfs = "[conntrack: {max-flows: 2k}]"}; }
SizedTables filled_conntrack(size_t n) {
    return filled(n, "[conntrack: {max-flows: " + room_for(n) + "}]", "established", true);
}
SizedTables ipfix() { return {.nfs = "[ipfix: {collector: 192.0.2.1, max-flows: 2k}]"}; }
SizedTables filled_ipfix(size_t n) {
    return filled(n, "[ipfix: {collector: 192.0.2.1, max-flows: " + room_for(n) + "}]", "counted");
}
SizedTables nat(size_t n) {
    const auto forward = [](size_t i) {
        return "{protocol: udp, address: 198.51." + std::to_string(i >> 8 & 255) + "." + std::to_string(i & 255) +
               ", port: 7, to: 192.168." + std::to_string(i >> 8 & 255) + "." + std::to_string(i & 255) + "}";
    };
    return tables_of(
        n,
        "[nat: {inside: 192.168.0.0/16, pool: 203.0.113.1, ports: 1024-2047, forwards: " + list_of(n, forward) + "}]",
        [](size_t i) {
            return Aimed{frame_to(ipv4("198.51.0.0") + static_cast<uint32_t>(i)), "inbound", static_cast<uint32_t>(i)};
        });
}
SizedTables nat64(size_t n) {
    const auto forward = [](size_t i) {
        return fmt::format("{{protocol: udp, address: 198.51.{}.{}, port: 7, to: \"2001:db8::{:x}\"}}", i >> 8 & 255,
                           i & 255, i);
    };
    return tables_of(
        n, "[nat64: {pool: 203.0.113.1, ports: 1024-2047, forwards: " + list_of(n, forward) + "}]", [](size_t i) {
            return Aimed{frame_to(ipv4("198.51.0.0") + static_cast<uint32_t>(i)), "inbound", static_cast<uint32_t>(i)};
        });
}
SizedTables tunnel(size_t n) {
    static constexpr const char* kKinds[] = {
        "gre, key: {0}", "gtp-u, teid-in: {0}, teid-out: {0}",
        R"(vxlan, vni: {0}, macs: {{dst: "02:00:00:00:00:01", src: "02:00:00:00:00:02"}})"};
    const auto one = [](size_t i) {
        return fmt::format("t{}: {{kind: {}, remote: 198.51.{}.{}, to: {}}}", i,
                           fmt::format(fmt::runtime(kKinds[i % 3]), i + 1), i >> 8 & 255, i & 255, network_text(i));
    };
    std::string list = list_of(n, one);
    list.front() = '{';
    list.back() = '}';
    return tables_of(n, "[tunnel: {local: 192.0.2.1, tunnels: " + list + "}]",
                     [](size_t i) { return Aimed{frame_to(network(i) + 1), "wrapped", static_cast<uint32_t>(i)}; });
}
SizedTables crc() { return {.nfs = "[crc: {mode: set}]"}; }

using Make = SizedTables (*)(size_t);
const std::map<std::string, Make> kMade = {{"firewall", firewall},
                                           {"nids", nids},
                                           {"router", router},
                                           {"ipsec", ipsec},
                                           {"switch", openflow_switch},
                                           {"balancer", balancer},
                                           {"tunnel", tunnel},
                                           {"nat", nat},
                                           {"nat64", nat64},
                                           {"policer", filled_policer},
                                           {"conntrack", filled_conntrack},
                                           {"ipfix", filled_ipfix}};

std::vector<SizedNf> all_sizes() {
    std::vector<SizedNf> all{{"mirror", "usual", "", mirror},       {"crc", "usual", "", crc},
                             {"reject", "usual", "", reject},       {"policer", "usual", "", policer},
                             {"conntrack", "usual", "", conntrack}, {"ipfix", "usual", "", ipfix}};
    const auto add = [&](const std::string& nf, SizedTables (*make)(size_t), size_t usual, SizedNf largest) {
        for (const auto& [size, n] : {std::pair{"0", size_t{0}}, {"1", 1}, {"usual", usual}, {"1000", 1000}})
            if (why_not_sized(nf, size).empty()) all.push_back({nf, size, "", [make, n] { return make(n); }});
        largest.nf = nf;
        largest.size = "largest";
        all.push_back(std::move(largest));
    };
    const auto published = [](const std::string& data, SizedTables (*make)(const std::string&)) {
        return SizedNf{"", "", data, [data, make] { return make(data_path(data)); }};
    };
    add("firewall", firewall, 50, published("classbench/large/acl1_100k.xz", published_firewall));
    add("nids", nids, 50, published("ids-rules/et-open-2025", published_nids));
    add("router", router, 20, published("routes/full-table-2025_v4v6_prefixes.txt.xz", published_router));
    // Nobody has published tunnels. Ten thousand are what a large gateway has.
    add("ipsec", ipsec, 16, {"", "", "", [] { return ipsec(10000); }});
    add("switch", openflow_switch, 50, published("openflow/of1_10000.flows.xz", published_switch));
    // Nobody has published services. Ten thousand are what a large site has.
    add("balancer", balancer, 20, {"", "", "", [] { return balancer(10000); }});
    add("tunnel", tunnel, 20, {"", "", "", [] { return tunnel(10000); }});
    // Packets fill these.
    for (const auto& [nf, make] : std::map<std::string, Make>{
             {"policer", filled_policer}, {"conntrack", filled_conntrack}, {"ipfix", filled_ipfix}})
        for (const auto& [size, n] : {std::pair{"0", size_t{0}}, {"1", 1}, {"1000", 1000}, {"largest", kMoreThanRoom}})
            all.push_back({nf, size, "", [make = make, n = n] { return make(n); }});
    // As many port forwards.
    add("nat", nat, 20, {"", "", "", [] { return nat(10000); }});
    add("nat64", nat64, 20, {"", "", "", [] { return nat64(10000); }});
    return all;
}

}  // namespace

Frame frame_to(uint32_t address, std::string_view payload) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = ipv4("192.0.2.7");
    spec.ipv4->dst = address;
    spec.udp = {.src = 1000, .dst = 7, .length = {}, .checksum = {}};
    spec.payload = bytes_of(payload);
    return build(spec);
}

SizedTables made_up(const std::string& nf, size_t entries) { return kMade.at(nf)(entries); }

const std::vector<SizedNf>& sized_nfs() {
    static const std::vector<SizedNf> all = all_sizes();
    return all;
}

std::string why_not_sized(const std::string& nf, const std::string& size) {
    if ((nf == "mirror" || nf == "reject") && size != "usual") return "it has no tables";
    if (nf == "tunnel" && size == "0") return "it has one tunnel at least";
    if (nf == "crc" && size != "usual") return "its tables have one size";
    return "";
}

}  // namespace millrace::test
