// What `millrace show` prints of an answer, and of what is none.
#include "millrace/cli/text/show_text.hpp"

#include <gtest/gtest.h>

#include <random>

namespace millrace::cli {
namespace {

using nlohmann::json;

TEST(ShownText, HasATableForEachTopic) {
    const json ports = {{"ports",
                         {{{"name", "lan"},
                           {"kind", "af_packet"},
                           {"link", "up"},
                           {"speed-mbps", 10'000},
                           {"mtu", 1500},
                           {"received-packets", 1234567},
                           {"drops", {{"missed", 3}, {"too-long", 1}}},
                           {"trouble", "no slots"}}}}};
    const std::string text = shown_text(ports, "ports");
    for (const char* part : {"lan", "up 10.0 Gb/s", "1,234,567", "missed 3, too-long 1", "port lan: no slots"})
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;

    const json routes = {{"routes",
                          {{{"nf", "edge"},
                            {"chains", {"a", "b"}},
                            {"columns", {"prefix", "via"}},
                            {"total", 1'000'000},
                            {"rows", {{{"prefix", "192.0.2.0/24"}, {"via", "wan"}}}}}}}};
    EXPECT_EQ(shown_text(routes, "routes"),
              "edge of a, b: 1,000,000 routes, of which 1\nprefix        via\n192.0.2.0/24  wan\n");
    EXPECT_EQ(shown_text({{"sas", json::array()}}, "sas"), "no network function of this run has sas\n");

    const json chains = {{"chains",
                          {{{"name", "c"},
                            {"received-packets", 10},
                            {"dropped", 4},
                            {"in-flight", 1},
                            {"drops", {{"firewall.deny", 4}}},
                            {"nfs",
                             {{{"name", "firewall"},
                               {"packets", 10},
                               {"outcomes", {{"deny", {{"packets", 4}}}, {"permit", {{"packets", 6}}}}}}}}}}}};
    const std::string shown = shown_text(chains, "chains");
    for (const char* part : {"in-flight", "drops  firewall.deny 4", "deny 4, permit 6"})
        EXPECT_NE(shown.find(part), std::string::npos) << part << "\n" << shown;
}

TEST(ShownText, SaysHowLongATenantsStagesTake) {
    const json stages = {{"before-ns", {{"p50", 12'000}, {"p99", 20'000}}},
                         {"device-ns", {{"p50", 80'000}, {"p99", 90'000}}},
                         {"beside", 3}};
    const json tenants = {
        {"tenants", {{{"name", "a"}, {"stages", stages}}, {{"name", "b"}, {"stages", json::object()}}}}};
    const std::string text = shown_text(tenants, "tenants");
    EXPECT_NE(text.find("tenant a has CPU stages; half of its batches take at most: before 12.0 us, device 80.0 us\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("tenant b has"), std::string::npos);
}

TEST(ShownText, SaysWhetherPromisesAreKept) {
    json promise = {{"rate", 2'000'000}, {"latency-ns", 200'000}, {"now", "kept"},  {"offered", 1'200'000},
                    {"batch", 512},      {"longest-ns", 80'100},  {"intervals", 40}};
    const auto shown = [&](const std::string& topic) {
        return shown_text({{topic, {{{"name", "a"}, {"promise", promise}}, {{"name", "b"}}}}}, topic);
    };
    const std::string kept =
        "2.00 Mpkt/s within 200.0 us: kept; 1.20 Mpkt/s came, 80.1 us at most, batches of 512; never broken in 40 "
        "intervals";
    EXPECT_NE(shown("chains").find("chain a\n  promised  " + kept + "\n"), std::string::npos) << shown("chains");
    EXPECT_NE(shown("tenants").find("tenant a was promised " + kept + "\n"), std::string::npos) << shown("tenants");
    EXPECT_EQ(shown("tenants").find("tenant b was"), std::string::npos);
    promise["now"] = "rate";
    promise["rate-broken"] = 3;
    promise["latency-broken"] = 1;
    const std::string broken = shown("chains");
    EXPECT_NE(broken.find(": the rate is broken; "), std::string::npos) << broken;
    EXPECT_NE(broken.find("; rate broken in 3 of 40; latency broken in 1 of 40 intervals\n"), std::string::npos)
        << broken;
    promise["now"] = "\x1b[2J";
    EXPECT_EQ(shown("chains").find('\x1b'), std::string::npos);
}

TEST(ShownText, KeepsControlCharactersOffTheTerminal) {
    const json ports = {{"ports", {{{"name", "\x1b]0;title\x07"}, {"kind", "a\nb"}}}}};
    EXPECT_EQ(shown_text(ports, "ports").find('\x1b'), std::string::npos);
    EXPECT_NE(shown_text(ports, "ports").find("a?b"), std::string::npos);
}

/// Whoever has the path may answer anything.
TEST(ShownText, TakesAnyAnswer) {
    std::mt19937 random(3);
    const std::vector<json> values = {nullptr,
                                      1,
                                      -1,
                                      1.5,
                                      "x",
                                      true,
                                      json::array(),
                                      json::object(),
                                      {1, "a", nullptr},
                                      {{"name", 1}},
                                      {{"rows", 7}, {"columns", {1, 2}}, {"chains", "x"}}};
    const char* const keys[] = {"ports", "chains", "routes", "rows", "columns", "nfs", "outcomes", "drops", "total"};
    for (unsigned i = 0; i < 20'000; ++i) {
        json answer = json::object();
        for (const char* key : keys) {
            json inner = values[random() % values.size()];
            for (unsigned depth = random() % 3; depth > 0; --depth) {
                json outer = random() % 2 == 0 ? json::array({inner}) : json::object();
                if (outer.is_object()) outer[keys[random() % std::size(keys)]] = inner;
                inner = std::move(outer);
            }
            answer[key] = inner;
        }
        for (const char* topic : {"ports", "chains", "routes"}) shown_text(answer, topic);
        shown_text(values[random() % values.size()], "ports");
    }
}

}  // namespace
}  // namespace millrace::cli
