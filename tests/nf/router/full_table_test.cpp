// Real routing tables: load time, and answers against a plain reference and DPDK.
#include <gtest/gtest.h>

#include <ctime>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/router/routes.hpp"
#include "millrace/nf/router/fib.hpp"
#include "nf/router/reference.hpp"
#include "support/data.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

using nf::router::Routes;

constexpr const char* kFullTable = "routes/full-table-2025_v4v6_prefixes.txt.xz";
constexpr const char* kHops =
    "next-hops: {a: {port: port1, mac: '02:00:00:00:00:0a'}, b: {port: port2, mac: '02:00:00:00:00:0b'}, c: {}, d: {}, "
    "e: {}, f: {}, g: {}}";

Config options_for(const std::string& name) {
    return Config::parse(std::string("{") + kHops + ", routes: " + data_path(name) + "}");
}

/// The same table by other code: lines, words, prefixes, and the next hop's number from the router's
/// own target (which next hop a hash chooses is the router's to say).
struct Loaded {
    std::vector<Prefix> prefixes;
    ReferenceTable reference;
};

std::vector<Prefix> prefixes_of(const std::string& name) {
    std::vector<Prefix> prefixes;
    const std::string text = read_file(data_path(name));
    for_each_line(text, [&](std::string_view line, uint32_t) {
        if (line.empty() || line[0] == ';') return;
        if (const auto prefix = parse_prefix(line.substr(0, line.find_first_of(" \t")))) prefixes.push_back(*prefix);
    });
    return prefixes;
}

Loaded reference_of(const std::string& name, const Routes& routes) {
    Loaded loaded{prefixes_of(name), {}};
    for (const Prefix& prefix : loaded.prefixes) {
        const auto& b = prefix.bytes;
        const auto value = prefix.ipv6 ? routes.ipv6.rib().find(b, prefix.length)
                                       : routes.ipv4.rib().find({b[0], b[1], b[2], b[3]}, prefix.length);
        loaded.reference.insert(prefix, value.value_or(0));
    }
    return loaded;
}

/// Addresses where mistakes show: first and last of a prefix, the neighbours on both sides, and any.
std::array<uint8_t, 16> telling_address(const std::vector<Prefix>& prefixes, bool ipv6, Rng& rng) {
    const Prefix* prefix = &prefixes[rng() % prefixes.size()];
    while (prefix->ipv6 != ipv6) prefix = &prefixes[rng() % prefixes.size()];
    auto address = prefix->bytes;
    const unsigned bytes = ipv6 ? 16 : 4;
    const auto kind = rng() % 6;
    if (kind == 5) {
        for (unsigned i = ipv6 ? 2 : 0; i < bytes; ++i) address[i] = static_cast<uint8_t>(rng());
        return address;
    }
    // Behind the length: all zeros, all ones, or anything.
    if (kind >= 1)
        for (unsigned bit = prefix->length; bit < 8 * bytes; ++bit)
            if (kind == 1 || kind == 3 || rng() % 2)
                address[bit / 8] = static_cast<uint8_t>(address[bit / 8] | 0x80 >> bit % 8);
    if (kind >= 3) {
        const int step = kind == 3 ? 1 : -1;  // the address just behind, or just before
        for (unsigned i = bytes; i-- > 0;) {
            address[i] = static_cast<uint8_t>(address[i] + step);
            if (address[i] != (step == 1 ? 0 : 0xff)) break;
        }
    }
    return address;
}

/// Processor time, which does not depend on what else the machine does.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(FullTable, LoadsWithinSeconds) {
    MILLRACE_NEEDS_DATA(kFullTable);
    const double start = processor_seconds();
    NfRunner runner("router", options_for(kFullTable));
    const double seconds = processor_seconds() - start;
    RecordProperty("seconds", std::to_string(seconds));
    std::printf("loaded in %.2f s: %s\n", seconds, runner.nf().summary().c_str());
    EXPECT_TRUE(runner.nf().summary().starts_with("901899 IPv4 and 160147 IPv6 routes"));
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
    EXPECT_LT(seconds, 2);
#endif
}

TEST(FullTable, AnswersAMillionAddressesAsReferenceAndDpdkDo) {
    for (const char* name :
         {kFullTable, "routes/ipasn6_20151101.dat.xz", "routes/preprocessed-ipv4.rib.20170109.1600.txt.xz",
          "routes/preprocessed-ipv6.rib.20170109.1600.txt.xz"}) {
        SCOPED_TRACE(name);
        MILLRACE_NEEDS_DATA(name);
        const Routes routes = nf::router::read_options(options_for(name), kTestPorts);
        const Loaded loaded = reference_of(name, routes);
        EXPECT_EQ(loaded.prefixes.size(), routes.ipv4.rib().size() + routes.ipv6.rib().size());
        const nf::router::Fibs fibs(routes.ipv4, routes.ipv6);
        Rng rng(4);
        const size_t count = name == kFullTable ? 500000 : 50000;
        for (const bool ipv6 : {false, true}) {
            if ((ipv6 ? routes.ipv6.rib().size() : routes.ipv4.rib().size()) == 0) continue;
            std::vector<uint32_t> v4(count);
            std::vector<std::array<uint8_t, 16>> addresses(count);
            for (size_t i = 0; i < count; ++i) {
                addresses[i] = telling_address(loaded.prefixes, ipv6, rng);
                v4[i] = load_be32(addresses[i].data());
            }
            std::vector<uint64_t> targets(count);
            ipv6 ? fibs.lookup_ipv6(addresses, targets.data()) : fibs.lookup_ipv4(v4, targets.data());
            for (size_t i = 0; i < count; ++i) {
                const auto& a = addresses[i];
                const uint32_t own = ipv6 ? routes.ipv6.lookup(a) : routes.ipv4.lookup({a[0], a[1], a[2], a[3]});
                ASSERT_EQ(own, targets[i]) << "DPDK";
                if (i % 4 == 0) {
                    ASSERT_EQ(own, loaded.reference.lookup(a.data(), ipv6, 0)) << "reference";
                }
            }
        }
    }
}

TEST(FullTable, RoutesRandomTrafficTheSameOnEveryEngine) {
    MILLRACE_NEEDS_DATA(kFullTable);
    Rng rng(5);
    const std::vector<Prefix> prefixes = prefixes_of(kFullTable);
    RandomOptions options;
    options.ipv6 = 0.5;
    options.max_payload = 40;
    options.adjust = [&](PacketSpec& spec, Rng& random) {
        if (spec.ipv4) spec.ipv4->dst = load_be32(telling_address(prefixes, false, random).data());
        if (spec.ipv6) spec.ipv6->dst = telling_address(prefixes, true, random);
    };
    check_halves_agree("router", options_for(kFullTable), random_packets(rng, 50000, options));
}

TEST(FullTable, FollowsALinxUpdateStream) {
    constexpr const char* kStream = "routes/linx-update.20141217.txt.xz";
    constexpr const char* kTable = "routes/preprocessed-ipv4.rib.20170109.1600.txt.xz";
    MILLRACE_NEEDS_DATA(kStream);
    MILLRACE_NEEDS_DATA(kTable);
    Routes routes = nf::router::read_options(options_for(kTable), kTestPorts);
    Loaded loaded = reference_of(kTable, routes);
    Rng rng(6);
    const std::string text = read_file(data_path(kStream));
    size_t updates = 0;
    for_each_line(text, [&](std::string_view line, uint32_t) {
        char kind = 0;
        char prefix_text[64], hop[64];
        long time = 0;
        ASSERT_EQ(std::sscanf(std::string(line).c_str(), "%ld %c %63s %63s", &time, &kind, prefix_text, hop), 4);
        const auto prefix = parse_prefix(prefix_text);
        ASSERT_TRUE(prefix.has_value());
        const std::array<uint8_t, 4> address{prefix->bytes[0], prefix->bytes[1], prefix->bytes[2], prefix->bytes[3]};
        if (kind == 'a') {
            const uint16_t target = routes.next_hops.target_for_text(hop);
            routes.ipv4.insert(address, prefix->length, target);
            loaded.reference.insert(*prefix, target);
            loaded.prefixes.push_back(*prefix);
        } else {
            routes.ipv4.erase(address, prefix->length);
            loaded.reference.erase(*prefix);
        }
        ++updates;
        for (int i = 0; i < 8; ++i) {
            auto probe = i == 0 ? prefix->bytes : telling_address(loaded.prefixes, false, rng);
            ASSERT_EQ(routes.ipv4.lookup({probe[0], probe[1], probe[2], probe[3]}),
                      loaded.reference.lookup(probe.data(), false, 0));
        }
    });
    EXPECT_EQ(updates, 23446u);
}

TEST(FullTable, AgreesOnTheForwardingTablesOfInternet2) {
    for (const char* router : {"atla", "chic", "hous", "kans", "seat", "wash"}) {
        const std::string name = std::string("routes/internet2/") + router + ".fib.txt.xz";
        MILLRACE_NEEDS_DATA(name);
        // "show route forwarding-table" has prefix lines and, indented, their next hops: the interface is the last
        // word.
        const std::string text = read_file(data_path(name));
        std::string prefix, lines;
        std::set<std::string> seen;
        for_each_line(text, [&](std::string_view line, uint32_t) {
            const size_t first = line.find_first_not_of(' ');
            if (first == std::string_view::npos) return;
            if (first == 0) prefix = std::string(line.substr(0, line.find(' ')));
            const size_t end = line.find_last_not_of(' ');
            const std::string interface(line.substr(line.rfind(' ', end) + 1, end - line.rfind(' ', end)));
            if (interface.find('/') == std::string::npos && !interface.starts_with("ae")) return;
            if (prefix.find('/') != std::string::npos && parse_prefix(prefix) && seen.insert(prefix).second)
                lines += prefix + " " + interface + "\n";
        });
        EXPECT_GT(seen.size(), 5000u) << router;
        const std::string file = temporary_file(std::string(router) + ".txt", lines);
        const Routes routes = nf::router::read_options(
            Config::parse(std::string("{") + kHops + ", routes: " + file + "}"), kTestPorts);
        const nf::router::Fibs fibs(routes.ipv4, routes.ipv6);
        ReferenceTable reference;
        std::vector<Prefix> prefixes;
        for (const std::string& one : seen) {
            prefixes.push_back(*parse_prefix(one));
            const auto& b = prefixes.back().bytes;
            reference.insert(prefixes.back(), prefixes.back().ipv6 ? *routes.ipv6.rib().find(b, prefixes.back().length)
                                                                   : *routes.ipv4.rib().find({b[0], b[1], b[2], b[3]},
                                                                                             prefixes.back().length));
        }
        Rng rng(7);
        for (int i = 0; i < 20000; ++i) {
            const auto a = telling_address(prefixes, false, rng);
            const uint32_t address = load_be32(a.data());
            uint64_t target = 0;
            fibs.lookup_ipv4({&address, 1}, &target);
            ASSERT_EQ(routes.ipv4.lookup({a[0], a[1], a[2], a[3]}), target);
            ASSERT_EQ(reference.lookup(a.data(), false, 0), target);
        }
    }
}

}  // namespace
}  // namespace millrace::test
