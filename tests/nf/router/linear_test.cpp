// The router's linear engine gives the answers of its tables, and of a search that is neither.
#include <gtest/gtest.h>

#include "nf/router/reference.hpp"
#include "millrace/nf/prefixes/linear_routes.hpp"
#include "millrace/nf/prefixes/lpm.hpp"
#include "millrace/nf/router/routes.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

using namespace nf::router;

/// Addresses that share prefixes: few values of each byte.
std::array<uint8_t, 16> address(Rng& rng) {
    std::array<uint8_t, 16> bytes{};
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng() % 4 == 0 ? rng() : 64 + rng() % 3);
    return bytes;
}

/// A table of up to `count` routes; more than there are short prefixes come as longer ones.
template <unsigned Bytes>
Rib<Bytes> random_rib(Rng& rng, size_t count, ReferenceTable& reference) {
    Rib<Bytes> rib;
    while (rib.size() < count) {
        const auto length = static_cast<unsigned>(rng() % 8 == 0 ? rng() % 9 : rng() % (8 * Bytes + 1));
        const auto random = address(rng);
        typename Rib<Bytes>::Address bytes;
        std::copy_n(random.begin(), Bytes, bytes.begin());
        bytes = Rib<Bytes>::mask(bytes, length);
        const auto value = static_cast<uint16_t>(1 + rng() % 30000);
        rib.set(bytes, length, value);
        Prefix prefix;
        prefix.ipv6 = Bytes == 16;
        prefix.length = static_cast<uint8_t>(length);
        std::copy_n(bytes.begin(), Bytes, prefix.bytes.begin());
        reference.insert(prefix, value);
    }
    return rib;
}

/// The linear engine, DIR-24-8 or its like, and the reference, on addresses of and beside the routes.
template <unsigned Bytes, class Table>
void compare(Rng& rng, size_t count) {
    ReferenceTable reference;
    const Rib<Bytes> rib = random_rib<Bytes>(rng, count, reference);
    Table table;
    std::vector<std::array<uint8_t, 16>> asked;
    rib.for_each([&](const auto& route) {
        table.insert(route.address, route.length, route.value);
        std::array<uint8_t, 16> bytes{};
        std::copy(route.address.begin(), route.address.end(), bytes.begin());
        if (asked.size() < 2000) asked.push_back(bytes);
    });
    for (int i = 0; i < 2000; ++i) asked.push_back(address(rng));
    const auto linear = linear_routes(rib);
    ASSERT_EQ(linear.size(), rib.size());
    const View view(linear.data(), linear.size());
    for (const auto& bytes : asked) {
        const uint32_t wanted = reference.lookup(bytes.data(), Bytes == 16, kTargetNone);
        typename Rib<Bytes>::Address own;
        std::copy_n(bytes.begin(), Bytes, own.begin());
        ASSERT_EQ(table.lookup(own), wanted) << count;
        if constexpr (Bytes == 4) {
            ASSERT_EQ(search_linear(view, load_be32(bytes.data()), kTargetNone), wanted) << count;
        } else {
            ASSERT_EQ(search_linear(view, bytes.data(), kTargetNone), wanted) << count;
        }
    }
}

TEST(LinearRoutes, GiveTheAnswersOfTheTables) {
    Rng rng(1);
    for (const size_t count : {0, 1, 2, 31, 32, 33, 100, 1000, 1023, 1024, 1025}) {
        compare<4, Ipv4Lpm>(rng, count);
        compare<16, Ipv6Lpm>(rng, count);
    }
}

/// Options with so many random routes of each family among three next hops.
std::string options_of(Rng& rng, size_t count, const std::string& more) {
    std::string routes;
    ReferenceTable reference;
    const auto add = [&](const std::string& text) { routes += text + " h" + std::to_string(rng() % 3) + "\n"; };
    const Rib<4> ipv4 = random_rib<4>(rng, count, reference);
    const Rib<16> ipv6 = random_rib<16>(rng, count, reference);
    const auto prefix_of = [](const auto& route, bool is_ipv6) {
        Prefix prefix;
        prefix.ipv6 = is_ipv6;
        prefix.length = route.length;
        std::copy(route.address.begin(), route.address.end(), prefix.bytes.begin());
        return prefix.text();
    };
    ipv4.for_each([&](const auto& route) { add(prefix_of(route, false)); });
    ipv6.for_each([&](const auto& route) { add(prefix_of(route, true)); });
    const std::string file = temporary_file("linear-" + std::to_string(count) + ".txt", routes);
    return "{routes: [" + file +
           "], local: [64.64.64.64, \"4040:4040::/32\"], next-hops: {h0: {port: port1, mac: "
           "\"02:00:00:00:00:0a\"}, h1: {port: port2}, h2: {}}" +
           more + "}";
}

RandomOptions traffic() {
    RandomOptions options;
    options.max_payload = 20;
    options.adjust = [](PacketSpec& spec, Rng& rng) {
        const auto to = address(rng);
        if (spec.ipv4) spec.ipv4->dst = load_be32(to.data());
        if (spec.ipv6) spec.ipv6->dst = to;
    };
    return options;
}

TEST(LinearRouter, DecidesAsTheOtherEngineDoes) {
    Rng rng(2);
    for (const size_t count : {0, 1, 33, 1025}) {
        const std::vector<Frame> frames = random_packets(rng, 1100, traffic());
        const uint64_t seed = rng();
        const auto options = [&](const std::string& engine) {
            Rng own(seed);
            return options_of(own, count, engine);
        };
        const NfResult wanted = NfRunner("router", options("")).run(frames, {1});
        NfRunner linear("router", options(", engine: linear"));
        EXPECT_EQ(linear.nf().image().arrays().front().count, linear.nf().statistics()[0].value);
        for (const Half& half : halves(linear.type())) {
            const NfResult result = linear.run(frames, half);
            EXPECT_EQ(result.decisions, wanted.decisions) << half.text() << ", " << count;
            EXPECT_EQ(result.frames, wanted.frames) << half.text() << ", " << count;
            EXPECT_EQ(result.out_ports, wanted.out_ports) << half.text() << ", " << count;
        }
    }
}

TEST(LinearRouter, HasNoTablesButItsRoutes) {
    NfRunner runner("router", "{next-hops: {a: {}}, routes: [{prefix: 10.0.0.0/8, via: a}], engine: linear}");
    EXPECT_LT(runner.nf().image().array_bytes(), 1000u);
    EXPECT_NE(runner.nf().summary().find("one after the other"), std::string::npos);
    NfRunner other("router", "{next-hops: {a: {}}, routes: [{prefix: 10.0.0.0/8, via: a}], engine: dir-24-8}");
    EXPECT_GT(other.nf().image().array_bytes(), runner.nf().image().array_bytes());
}

TEST(LinearRouter, WarnsOfManyRoutesAndRefusesMoreThanThat) {
    const auto warnings = [](size_t count) {
        std::string lines;
        for (size_t i = 0; i < count; ++i)
            lines += std::to_string(1 + (i >> 16)) + "." + std::to_string(i >> 8 & 255) + "." +
                     std::to_string(i & 255) + ".0/24\n";
        const std::string file = temporary_file("many-linear.txt", lines);
        const nf::Environment environment{
            .node_name = "n", .chain_name = "c", .output_folder = ".", .ports = kTestPorts};
        NfRunner(
            "router",
            Config::parse("next-hops: {a: {}}\nroutes: [{file: " + file + ", via: a}]\nengine: linear\n", "r.yaml"),
            environment);
        return environment.warn.take_warnings();
    };
    EXPECT_TRUE(warnings(kManyLinearRoutes).empty());
    const auto many = warnings(kManyLinearRoutes + 1);
    ASSERT_EQ(many.size(), 1u);
    EXPECT_EQ(many[0].where.line, 3u);
    EXPECT_NE(many[0].message.find("10001 routes"), std::string::npos) << many[0].message;
    try {
        warnings(kMaxLinearRoutes + 1);
        FAIL() << "taken";
    } catch (const ConfigError& error) {
        EXPECT_EQ(error.diagnostics().front().where.line, 3u);
        EXPECT_NE(std::string(error.what()).find("1000001 routes are too many"), std::string::npos) << error.what();
    }
}

TEST(LinearRouter, RefusesWhatIsNoEngine) {
    const auto complaint = [](const std::string& options) -> std::string {
        try {
            NfRunner("router", options);
        } catch (const ConfigError& error) {
            return error.what();
        }
        return "none";
    };
    EXPECT_NE(complaint("{next-hops: {a: {}}, engine: trie}").find("'trie' is not one of dir-24-8, linear"),
              std::string::npos)
        << complaint("{next-hops: {a: {}}, engine: trie}");
    EXPECT_NE(complaint("{kernel: {interfaces: {a: port0}}, engine: linear}").find("do not go together"),
              std::string::npos);
}

}  // namespace
}  // namespace millrace::test
