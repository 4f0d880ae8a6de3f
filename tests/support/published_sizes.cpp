// Tables from the data folder, with packets for entries that are found there, or put there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "millrace/base/files/file.hpp"
#include "millrace/base/text/prefix.hpp"
#include "support/sizes.hpp"

namespace millrace::test {
namespace {

/// Files of this process that are gone when it ends.
class Folder {
public:
    Folder() : path_(testing::TempDir() + "millrace-sizes-" + std::to_string(getpid())) {
        std::filesystem::create_directories(path_);
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string write(const std::string& name, const std::string& text) const {
        const std::string file = path_ + "/" + name;
        std::ofstream(file) << text;
        return file;
    }

private:
    std::string path_;
};

std::string write_file(const std::string& name, const std::string& text) {
    static const Folder folder;
    return folder.write(name, text);
}

std::vector<std::string> lines_of(const std::string& file) {
    std::vector<std::string> lines;
    for_each_line(read_file(file), [&](std::string_view line, uint32_t) { lines.emplace_back(line); });
    std::erase_if(lines, [](const std::string& line) { return line.empty() || line[0] == '#' || line[0] == ';'; });
    return lines;
}

/// The first header that a rule of ClassBench stands for.
Frame frame_of_rule(const std::string& line) {
    char src[64], dst[64];
    unsigned source_port = 0, port = 0, high = 0, protocol = 0, mask = 0;
    if (std::sscanf(line.c_str(), "@%63s %63s %u : %u %u : %u 0x%x/0x%x", src, dst, &source_port, &high, &port, &high,
                    &protocol, &mask) != 8)
        throw std::runtime_error("no rule of ClassBench: " + line);
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = parse_prefix(src, true).value().ipv4();
    spec.ipv4->dst = parse_prefix(dst, true).value().ipv4();
    const auto from = static_cast<uint16_t>(source_port), to = static_cast<uint16_t>(port);
    if (protocol == 6) spec.tcp.emplace().src = from, spec.tcp->dst = to;
    else if (protocol == 17 || mask == 0) spec.udp.emplace().src = from, spec.udp->dst = to;
    else spec.ipv4->protocol = static_cast<uint8_t>(protocol);
    return build(spec);
}

/// A packet to an address in a prefix, with the rest of the address at random.
Frame frame_to(const Prefix& prefix, Rng& rng) {
    std::array<uint8_t, 16> address = prefix.bytes;
    for (unsigned bit = prefix.length; bit < prefix.address_bits(); ++bit)
        if (rng() % 2 != 0) address[bit / 8] |= static_cast<uint8_t>(0x80 >> bit % 8);
    PacketSpec spec;
    spec.udp.emplace();
    if (prefix.ipv6) {
        spec.ipv6.emplace().dst = address;
    } else {
        spec.ipv4.emplace().src = ipv4("192.0.2.7");
        spec.ipv4->dst = Prefix{.bytes = address, .length = 32, .ipv6 = false}.ipv4();
    }
    return build(spec);
}

/// Aims at so many entries around a place, as some are hidden by others.
constexpr size_t kAround = 64;

}  // namespace

SizedTables published_firewall(const std::string& file) {
    const std::vector<std::string> rules = lines_of(file);
    const auto around = [&](size_t place) {
        std::vector<Aimed> aimed;
        const size_t begin = std::min(place, rules.size() - std::min(kAround, rules.size()));
        for (size_t i = begin; i < std::min(begin + kAround, rules.size()); ++i)
            aimed.push_back({frame_of_rule(rules[i]), i % 2 == 0 ? "permit" : "deny", static_cast<uint32_t>(i)});
        return aimed;
    };
    SizedTables tables;
    tables.nfs = "[firewall: {classbench: \"" + file + "\", action: alternate, default: permit}]";
    tables.first = around(0);
    tables.middle = around(rules.size() / 2);
    tables.last = around(rules.size());
    for (size_t i = 0; i < rules.size(); i += rules.size() / 200 + 1) tables.others.push_back(frame_of_rule(rules[i]));
    return tables;
}

SizedTables published_nids(const std::string& folder) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (const std::string name = entry.path().filename(); name.find(".rules") != std::string::npos)
            files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    SizedTables tables;
    const auto put = [&](size_t at, const std::string& word, std::vector<Aimed>& aimed) {
        const std::string rule = "drop udp any any -> any 7 (msg:\"ours\"; content:\"millrace " + word +
                                 "\"; sid:" + std::to_string(1'000'000'000 + at) + ";)\n";
        files.insert(files.begin() + static_cast<std::ptrdiff_t>(at), write_file(word + ".rules", rule));
        aimed = {{frame_to(ipv4("198.51.100.1"), "millrace " + word), "block", {}}};
    };
    put(files.size(), "last", tables.last);
    put(files.size() / 2, "middle", tables.middle);
    put(0, "first", tables.first);
    std::string list;
    for (const std::string& file : files) list += (list.empty() ? "\"" : ", \"") + file + "\"";
    tables.nfs = "[nids: {mode: ips, on-error: skip, rules: [" + list + "], classification: \"" + folder +
                 "/classification.config\"}]";
    return tables;
}

SizedTables published_router(const std::string& file) {
    const std::vector<std::string> lines = lines_of(file);
    SizedTables tables;
    std::string routes = "{file: \"" + file + "\", via: other}";
    Rng rng(1);
    const auto is_within = [](const Prefix& inner, const Prefix& outer) {
        const auto bit = [](const Prefix& prefix, unsigned at) { return prefix.bytes[at / 8] >> (7 - at % 8) & 1; };
        unsigned same = 0;
        while (same < outer.length && bit(inner, same) == bit(outer, same)) ++same;
        return inner.ipv6 == outer.ipv6 && inner.length > outer.length && same == outer.length;
    };
    const auto lead = [&](size_t at, const std::string& hop, uint32_t number, std::vector<Aimed>& aimed) {
        // Longer prefixes, which follow it, may leave nothing to one: the next one that has no such is taken.
        while (at + 1 < lines.size() && is_within(parse_prefix(lines[at + 1]).value(), parse_prefix(lines[at]).value()))
            ++at;
        routes += ", {prefix: \"" + lines[at] + "\", via: " + hop + "}";
        const Prefix prefix = parse_prefix(lines[at]).value();
        for (size_t i = 0; i < kAround; ++i) aimed.push_back({frame_to(prefix, rng), "forward", number});
    };
    lead(0, "first", 1, tables.first);
    lead(lines.size() / 2, "middle", 2, tables.middle);
    lead(lines.size() - 1, "last", 3, tables.last);
    tables.nfs = "[router: {next-hops: {other: {}, first: {port: third}, middle: {port: out}, last: {}}, routes: [" +
                 routes + "]}]";
    for (size_t i = 0; i < lines.size(); i += lines.size() / 200 + 1)
        tables.others.push_back(frame_to(parse_prefix(lines[i]).value(), rng));
    return tables;
}

SizedTables published_switch(const std::string& file) {
    // The tool that made them writes no protocol, which OpenFlow asks for, no actions, and ports that nobody has.
    std::vector<std::string> flows;
    for (std::string line : lines_of(file)) {
        std::erase(line, ' ');
        const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
        if (line.empty() || has("in_port")) continue;
        const size_t number = flows.size();
        if (has("nw_") && !has("eth_type")) line += ",ip";
        if (has("tp_") && !has("nw_proto")) line += ",nw_proto=17";
        flows.push_back("priority=" + std::to_string(number % 3 + 1) + "," + line +
                        (number % 2 == 0 ? ",actions=output:2" : ",actions=drop"));
    }
    SizedTables tables;
    const auto put = [&](size_t at, const char* address, std::vector<Aimed>& aimed) {
        flows.insert(flows.begin() + static_cast<std::ptrdiff_t>(at),
                     std::string("priority=9,udp,nw_dst=") + address + ",actions=output:3");
        aimed = {{frame_to(ipv4(address)), "forward", static_cast<uint32_t>(at)}};
    };
    put(0, "198.51.100.1", tables.first);
    put(flows.size() / 2, "198.51.100.2", tables.middle);
    put(flows.size(), "198.51.100.3", tables.last);
    std::string text;
    for (const std::string& flow : flows) text += flow + "\n";
    tables.nfs = "[switch: {file: \"" + write_file("flows", text) + "\"}]";
    return tables;
}

}  // namespace millrace::test
