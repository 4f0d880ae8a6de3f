#include "lab/workload.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "lab/inputs.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::lab {
namespace {

namespace fs = std::filesystem;

/// One pattern in so many drops packets that hold no other; those let them pass. No alerts: the file they go to is not
/// what is measured.
constexpr size_t kDropEvery = 16;
/// The NIDS cuts longer ones to find them, and then looks again; others shall search for the same.
constexpr size_t kLongestPattern = 24;
constexpr size_t kMadePatterns = 3000, kMadeRoutes = 900'000;

std::string content_of(const std::string& bytes) {
    std::string text = "|";
    for (const char c : bytes) text += fmt::format("{:02x} ", static_cast<uint8_t>(c));
    text.back() = '|';
    return text;
}

void write_nids_rules(const Workload& w) {
    const std::string file = w.scratch + "/nids.rules";
    std::ofstream out(file);
    for (size_t i = 0; i < w.patterns.size(); ++i)
        out << fmt::format("{} ip any any -> any any (msg:\"p{}\"; content:\"{}\"; nocase; {}sid:{};)\n",
                           w.pattern_drops[i] ? "drop" : "pass", i, content_of(w.patterns[i]),
                           w.pattern_drops[i] ? "noalert; " : "", i + 1);
    if (!out.flush()) throw std::runtime_error(file + ": can't be written");
}

std::string mac_text(const std::array<uint8_t, 6>& m) {
    return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", m[0], m[1], m[2], m[3], m[4], m[5]);
}
template <size_t N>
std::string hex(const std::array<uint8_t, N>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}
std::string dotted(const std::array<uint8_t, 4>& a) { return fmt::format("{}.{}.{}.{}", a[0], a[1], a[2], a[3]); }

void choose_patterns(Workload& w, const WorkloadOptions& options, std::mt19937& random) {
    if (!options.nids_rules.empty()) {
        w.nids_rules = options.nids_rules;
        w.pattern_name = fmt::format("rules of {}", fmt::join(options.nids_rules, ", "));
        return;
    }
    const std::string published = options.data + "/chain-bench/snort_rare.txt";
    if (!options.data.empty() && fs::exists(published)) {
        w.patterns = read_patterns(published, kLongestPattern);
        w.pattern_name = "Snort community fast patterns without the most common";
    } else {
        w.patterns = make_words(kMadePatterns, random);
        w.pattern_name = "made up";
    }
    if (options.patterns != 0 && options.patterns < w.patterns.size()) {
        // Evenly out of all, as neighbours are of a kind.
        std::vector<std::string> some;
        for (size_t i = 0; i < options.patterns; ++i)
            some.push_back(w.patterns[i * w.patterns.size() / options.patterns]);
        w.patterns = std::move(some);
    }
    w.pattern_name = fmt::format("{} {}", w.patterns.size(), w.pattern_name);
    for (size_t i = 0; i < w.patterns.size(); ++i) w.pattern_drops.push_back(i % kDropEvery == 0);
    write_nids_rules(w);
    w.nids_rules = {w.scratch + "/nids.rules"};
}

void choose_payload(Workload& w, const WorkloadOptions& options, std::mt19937& random) {
    if (options.payload == "random") {
        w.payload = w.payload_name = "random";
        return;
    }
    std::string file = options.data + "/chain-bench/" + (options.payload == "capture" ? "pcap.bin.xz" : "http.bin.xz");
    w.payload_name = options.payload == "capture" ? "payload of captures" : "HTTP-like payload";
    if (options.data.empty() || !fs::exists(file)) {
        file = w.scratch + "/payload.bin";
        w.payload_name = "made-up text";
        make_text(file, w.patterns, random);
    }
    w.payload = fmt::format("{{file: \"{}\"}}", file);
}

void choose_rules(Workload& w, const WorkloadOptions& options, std::mt19937& random) {
    const std::string published = options.data + "/classbench/cutsplit/" +
                                  (options.many_rules ? "acl1_10k.xz" : "acl1_1k");
    if (!options.examples.empty()) {
        w.rules_file = options.examples + "/firewall.rules";
        w.rules_name = "examples/firewall.rules";
    } else if (!options.data.empty() && fs::exists(published)) {
        w.rules_file = published;
        w.classbench = true;
        w.rules_name = "ClassBench " + fs::path(published).stem().string();
    } else {
        const size_t count = options.many_rules ? 10'000 : 1000;
        w.rules_file = w.scratch + "/firewall.rules";
        w.rules_name = fmt::format("{} made up", count);
        make_rules(w.rules_file, count, random);
    }
}

void choose_routes(Workload& w, const WorkloadOptions& options, std::mt19937& random) {
    const std::string published = options.data + "/routes/full-table-2025_v4v6_prefixes.txt.xz";
    if (!options.examples.empty()) {
        w.route_file = options.examples + "/routes.txt.xz";
        w.route_name = "examples/routes.txt.xz";
    } else if (!options.data.empty() && fs::exists(published)) {
        w.route_file = published;
        w.route_name = "the full table of 2025, 901,899 IPv4 and 160,147 IPv6 prefixes";
    } else {
        w.route_file = w.scratch + "/routes.txt";
        w.route_name = fmt::format("{} made up", kMadeRoutes);
        make_routes(w.route_file, kMadeRoutes, random);
    }
}

std::string firewall_yaml(const Workload& w) {
    return fmt::format("firewall: {{{}: \"{}\", default: permit}}\n", w.classbench ? "classbench" : "file",
                       w.rules_file);
}

std::string router_yaml(const Workload& w) {
    std::string text = fmt::format(
        "router:\n          routes: [\"{}\", {{prefix: 0.0.0.0/0, via: {}}}]\n          next-hops:\n", w.route_file,
        w.default_hop);
    for (const Hop& hop : w.hops)
        text += fmt::format("            {}: {{mac: \"{}\", src-mac: \"{}\"}}\n", hop.name, mac_text(hop.mac),
                            mac_text(hop.src_mac));
    return text + "        on: {not-ip: drop, ttl-expired: drop}\n";
}

/// The cipher of a tunnel, and its keys. Without a nonce each has a key of its own.
std::string keys_yaml(const Workload& w, const std::string& nonce, uint32_t tunnel) {
    const bool is_long = w.cipher.find("256") != std::string::npos, gcm = w.cipher.ends_with("gcm");
    auto key = w.long_key;
    if (!is_long) std::copy(w.key.begin(), w.key.end(), key.begin());
    std::string text = fmt::format("cipher: {}", w.cipher);
    if (w.cipher.ends_with("cbc")) store_be32(key.data(), load_be32(key.data()) ^ tunnel);
    else text += fmt::format(", nonce: \"{}\"", nonce);
    text += fmt::format(", key: \"{}\"", hex(key).substr(0, is_long ? 64 : 32));
    if (gcm) return text + ", esn: true";
    return text + (is_long ? ", auth: hmac-sha256-128, auth-key: \"" + hex(w.long_auth_key) + "\""
                           : ", auth-key: \"" + hex(w.auth_key) + "\"");
}

/// Destinations are shared out evenly among the tunnels; what else there is takes the first. Each chain has tunnels of
/// its own.
std::string ipsec_yaml(const Workload& w, uint32_t chain) {
    std::string sas, policies;
    const auto bits = static_cast<unsigned>(std::countr_zero(w.tunnels));
    for (uint32_t i = 0; i < w.tunnels; ++i) {
        auto nonce = w.nonce;
        store_be32(nonce.data(), load_be32(nonce.data()) ^ (chain << 16 | i));
        sas += fmt::format("            - {{name: t{}, direction: out, spi: {}, local: {}, remote: {}, {}}}\n", i,
                           w.spi + chain * w.tunnels + i, dotted(w.local), dotted(w.remote),
                           keys_yaml(w, hex(nonce), chain << 16 | i));
        auto from = w.dst_from;
        store_be32(from.data(), load_be32(from.data()) | i << (32 - w.dst_bits - bits));
        if (i > 0)
            policies += fmt::format("            - {{src: 0.0.0.0/0, dst: {}/{}, action: protect, sa: t{}}}\n",
                                    dotted(from), w.dst_bits + bits, i);
    }
    return fmt::format(
        "ipsec:\n          mtu: 9000\n{}          sas:\n{}          policies:\n{}            - "
        "{{src: 0.0.0.0/0, dst: "
        "0.0.0.0/0, action: protect, sa: t0}}\n"
        "          default: bypass\n",
        w.tunnels > 4096 ? fmt::format("          sa-slots: {}\n", w.tunnels) : "", sas, policies);
}

std::string nf_yaml(const Workload& w, const std::string& kind, uint32_t chain) {
    if (kind == "firewall") return firewall_yaml(w);
    if (kind == "nids")
        return fmt::format("nids: {{rules: [\"{}\"], mode: ips{}}}\n", fmt::join(w.nids_rules, "\", \""),
                           w.nids_flows == "none"      ? ", flows: none"
                           : w.nids_flows == "flows"   ? ", flows: {streams: none}"
                           : w.nids_flows == "streams" ? ""
                                                       : ", flows: {streams: {http: usual}}");
    if (kind == "router") return router_yaml(w);
    if (kind == "ipsec") return ipsec_yaml(w, chain);
    if (kind == "mirror") return "mirror\n";
    if (kind == "crc") return "crc: {mode: set}\n";
    throw std::invalid_argument("there are no built-in tables for '" + kind +
                                "'; chains are made of firewall, nids, router, ipsec, mirror and crc");
}

}  // namespace

Workload make_workload(const WorkloadOptions& options) {
    if (!std::has_single_bit(options.tunnels) || options.tunnels > kMaxTunnels)
        throw std::invalid_argument(
            fmt::format("{} tunnels: destinations are shared out among a power of two of them, up to {}",
                        options.tunnels, kMaxTunnels));
    Workload w;
    w.scratch = options.scratch;
    w.flows = options.flows;
    w.popularity = options.popularity;
    w.nids_flows = options.nids_flows;
    std::mt19937 random(7);
    choose_patterns(w, options, random);
    choose_payload(w, options, random);
    choose_rules(w, options, random);
    choose_routes(w, options, random);
    w.hops = {{"staff", {2, 0, 0, 0, 0x10, 0x10}, {2, 0, 0, 0, 0, 1}},
              {"guests", {2, 0, 0, 0, 0x10, 0x20}, {2, 0, 0, 0, 0, 3}},
              {"servers", {2, 0, 0, 0, 0x20, 0x10}, {2, 0, 0, 0, 0, 2}}};
    for (uint8_t i = 0; i < 8; ++i)
        w.hops.push_back(
            {fmt::format("edge-{}", i + 1), {2, 0, 0, 0, 0xe0, static_cast<uint8_t>(i + 1)}, {2, 0, 0, 0, 0, 2}});
    w.default_hop = "edge-1";
    for (uint8_t& byte : w.key) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : w.auth_key) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : w.nonce) byte = static_cast<uint8_t>(random());
    w.cipher = options.cipher;
    for (uint8_t& byte : w.long_key) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : w.long_auth_key) byte = static_cast<uint8_t>(random());
    w.local = {192, 0, 2, 1};
    w.remote = {198, 51, 100, 1};
    // 64.0.0.0/2 holds loopback addresses, too, so that the router has something to refuse.
    w.dst_from = {64, 0, 0, 0};
    w.dst_bits = 2;
    w.tunnels = options.tunnels;
    return w;
}

std::string source_options(const Workload& w, const Traffic& traffic) {
    std::string text = "{";
    if (!traffic.replay.empty()) {
        text += fmt::format("replay: \"{}\"", traffic.replay);
    } else {
        text += fmt::format(
            "size: {}, flows: {}, popularity: {}, protocol: tcp, addresses: {{src: 198.18.0.0/15, dst: {}}}, ports: "
            "{{src: 1024-65535, "
            "dst: 80-90}}, "
            "payload: {}",
            traffic.size, w.flows, w.popularity, fmt::format("{}/{}", dotted(w.dst_from), w.dst_bits), w.payload);
    }
    if (traffic.rate > 0) text += fmt::format(", rate: {:.0f}", traffic.rate);
    return text + "}";
}

io::TrafficFrames frames_of(const Workload& w, const Traffic& traffic, unsigned queue, unsigned queues) {
    Traffic plain = traffic;
    plain.rate = 0;
    const Config config = Config::parse(source_options(w, plain), "benchmark");
    return io::make_frames(io::TrafficSpec::read(config), queue, queues, false);
}

std::string chain_yaml(const Workload& w, const ChainOptions& options, const std::string& ports) {
    std::string text = fmt::format("version: 1\ndevice: {}\noutput: \"{}\"\nports:\n{}chains:\n", options.device,
                                   w.scratch, ports);
    constexpr uint32_t kFirstPort = 1024, kPorts = 65536 - kFirstPort;  // as source_options has them
    std::string lines = "classify:\n";
    for (unsigned i = 0; i < options.chains; ++i) {
        const std::string name = options.chains == 1 ? "chain" : fmt::format("chain-{}", i);
        std::string nfs = options.kinds.empty() ? " []\n" : "\n";
        for (const std::string& kind : options.kinds) nfs += "      - " + nf_yaml(w, kind, i);
        text += fmt::format("  {}:\n{}    output: out\n    max-batch: {}\n    max-delay: {}\n    nfs:{}", name,
                            options.chains == 1 ? "    input: in\n" : "", options.max_batch, options.max_delay, nfs);
        lines += fmt::format("  - {{match: {{port: in, src-port: {}-{}}}, chain: {}}}\n",
                             i == 0 ? 0 : kFirstPort + kPorts * i / options.chains,
                             kFirstPort + kPorts * (i + 1) / options.chains - 1, name);
    }
    return options.chains == 1 ? text : text + lines;
}

}  // namespace millrace::lab
