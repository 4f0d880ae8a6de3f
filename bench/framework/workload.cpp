#include "workload.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

#include "millrace/base/file.hpp"

namespace millrace::bench {
namespace {

/// One pattern in so many drops packets that hold no other; those let them pass. No alerts: the file they go to is not
/// what is measured.
constexpr size_t kDropEvery = 16;
constexpr uint32_t kBuffers = 1024;
constexpr uint32_t kFlows = 4096;

/// Lines of "nocase-flag hex-bytes".
std::vector<std::string> read_patterns(const std::string& file) {
    std::vector<std::string> patterns;
    for_each_line(read_file(file), [&](std::string_view line, uint32_t) {
        std::string bytes;
        for (size_t i = 2; i + 1 < line.size(); i += 2)
            bytes.push_back(static_cast<char>(std::stoi(std::string(line.substr(i, 2)), nullptr, 16)));
        // The NIDS cuts longer ones to find them, and then looks again; both sides shall do the same.
        if (!bytes.empty()) patterns.push_back(bytes.substr(0, 24));
    });
    return patterns;
}

std::vector<std::string> generate_words(size_t count, std::mt19937& random) {
    std::vector<std::string> words;
    for (size_t i = 0; i < count; ++i) {
        std::string word;
        for (size_t n = 5 + random() % 12; n > 0; --n) word.push_back(static_cast<char>('a' + random() % 26));
        words.push_back(std::move(word));
    }
    return words;
}

/// Lines of words in the manner of HTTP, one pattern in every few hundred words.
void generate_text(const std::string& file, const std::vector<std::string>& patterns, std::mt19937& random) {
    const std::vector<std::string> words = generate_words(500, random);
    std::ofstream out(file, std::ios::binary);
    for (size_t bytes = 0; bytes < (1u << 20);) {
        const bool planted = random() % 300 == 0;
        const std::string& word = planted ? patterns[random() % patterns.size()] : words[random() % words.size()];
        out << word << (random() % 9 == 0 ? ":\r\n" : " ");
        bytes += word.size() + 1;
    }
    if (!out.flush()) throw std::runtime_error(file + ": can't be written");
}

std::string content_of(const std::string& bytes) {
    std::string text = "|";
    for (const char c : bytes) text += fmt::format("{:02x} ", static_cast<uint8_t>(c));
    text.back() = '|';
    return text;
}

void write_rules(const Workload& workload, const std::string& file) {
    std::ofstream out(file);
    for (size_t i = 0; i < workload.patterns.size(); ++i)
        out << fmt::format("{} ip any any -> any any (msg:\"p{}\"; content:\"{}\"; nocase; {}sid:{};)\n",
                           workload.pattern_drops[i] ? "drop" : "pass", i, content_of(workload.patterns[i]), workload.pattern_drops[i] ? "noalert; " : "", i + 1);
    if (!out.flush()) throw std::runtime_error(file + ": can't be written");
}

std::string mac_text_of(const std::array<uint8_t, 6>& m) {
    return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", m[0], m[1], m[2], m[3], m[4], m[5]);
}
template <size_t N>
std::string hex(const std::array<uint8_t, N>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}
std::string dotted(const std::array<uint8_t, 4>& a) { return fmt::format("{}.{}.{}.{}", a[0], a[1], a[2], a[3]); }

}  // namespace

Workload make_workload(const std::string& examples, const std::string& data, const std::string& scratch) {
    Workload w;
    w.folder = examples;
    w.scratch = scratch;
    std::mt19937 random(7);
    const std::string real = data + "/chain-bench/";
    if (std::filesystem::exists(real + "snort_rare.txt") && std::filesystem::exists(real + "http.bin.xz")) {
        w.patterns = read_patterns(real + "snort_rare.txt");
        w.pattern_name = "Snort community fast patterns without the most common";
        w.text_file = real + "http.bin.xz";
        w.text_name = "HTTP-like payload";
    } else {
        w.patterns = generate_words(3000, random);
        w.pattern_name = "generated";
        w.text_file = scratch + "/payload.bin";
        w.text_name = "generated text";
        generate_text(w.text_file, w.patterns, random);
    }
    for (size_t i = 0; i < w.patterns.size(); ++i) w.pattern_drops.push_back(i % kDropEvery == 0);
    write_rules(w, scratch + "/nids.rules");
    w.hops = {{"staff", {2, 0, 0, 0, 0x10, 0x10}, {2, 0, 0, 0, 0, 1}}, {"guests", {2, 0, 0, 0, 0x10, 0x20}, {2, 0, 0, 0, 0, 3}},
              {"servers", {2, 0, 0, 0, 0x20, 0x10}, {2, 0, 0, 0, 0, 2}}};
    static const char* const kEdges[] = {"edge-1", "edge-2", "edge-3", "edge-4", "edge-5", "edge-6", "edge-7", "edge-8"};
    for (uint8_t i = 0; i < 8; ++i)
        w.hops.push_back({kEdges[i], {2, 0, 0, 0, 0xe0, static_cast<uint8_t>(i + 1)}, {2, 0, 0, 0, 0, 2}});
    w.default_hop = "edge-1";
    for (size_t i = 0; i < w.key.size(); ++i) w.key[i] = static_cast<uint8_t>(random());
    for (size_t i = 0; i < w.auth_key.size(); ++i) w.auth_key[i] = static_cast<uint8_t>(random());
    for (size_t i = 0; i < w.nonce.size(); ++i) w.nonce[i] = static_cast<uint8_t>(random());
    w.local = {192, 0, 2, 1};
    w.remote = {198, 51, 100, 1};
    return w;
}

std::string source_options(const Workload& w, uint32_t bytes) {
    // 64.0.0.0/2 holds loopback addresses, too, so that the router has something to refuse.
    return fmt::format("{{size: {}, flows: {}, protocol: tcp, addresses: {{src: 198.18.0.0/15, dst: 64.0.0.0/2}}, "
                       "ports: {{src: 1024-65535, dst: 80-90}}, payload: {{file: \"{}\"}}}}",
                       bytes, kFlows, w.text_file);
}

io::TrafficFrames traffic(const Workload& w, uint32_t bytes) {
    const Config options = Config::parse(source_options(w, bytes), "benchmark");
    return io::make_frames(io::TrafficSpec::read(options), 0, 1, false);
}

std::string chain_yaml(const Workload& w, uint32_t bytes, bool empty, size_t keep) {
    const std::string source = source_options(w, bytes);
    std::string text = fmt::format("version: 1\ndevice: cpu\noutput: \"{}\"\nports:\n"
                                   "  in: {{source: {}, buffers: {}, max-frame: 1600}}\n  out: {{sink: {{keep: {}}}}}\n"
                                   "chains:\n  chain:\n    input: in\n    output: out\n    nfs:",
                                   w.scratch, source, kBuffers, keep);
    if (empty) return text + " []\n";
    text += fmt::format("\n      - firewall: {{file: \"{}\", default: permit}}\n", w.firewall_file());
    text += fmt::format("      - nids: {{rules: [\"{}/nids.rules\"], mode: ips}}\n", w.scratch);
    text += fmt::format("      - router:\n          routes: [\"{}\", {{prefix: 0.0.0.0/0, via: {}}}]\n          next-hops:\n",
                        w.route_file(), w.default_hop);
    for (const Hop& hop : w.hops)
        text += fmt::format("            {}: {{mac: \"{}\", src-mac: \"{}\"}}\n", hop.name, mac_text_of(hop.mac), mac_text_of(hop.src_mac));
    text += fmt::format("      - ipsec:\n          mtu: 9000\n          sas:\n"
                        "            - {{name: t, direction: out, spi: {}, local: {}, remote: {}, cipher: aes-128-ctr, "
                        "key: \"{}\", nonce: \"{}\", auth-key: \"{}\"}}\n"
                        "          policies:\n            - {{src: 0.0.0.0/0, dst: 0.0.0.0/0, action: protect, sa: t}}\n",
                        w.spi, dotted(w.local), dotted(w.remote), hex(w.key), hex(w.nonce), hex(w.auth_key));
    return text;
}

}  // namespace millrace::bench
