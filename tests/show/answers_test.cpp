// What a run answers: counters that add up while packets flow, the tables of its network functions, and why not.
#include "millrace/show/answers.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "show/runtime.hpp"

namespace millrace::show {
namespace {

using nlohmann::json;

json asked(const exec::Runtime& runtime, const std::string& topic, size_t limit = 0) {
    return json::parse(answer(runtime, request_for(topic, {.limit = limit}), 1.5));
}

std::string refused(const exec::Runtime& runtime, const std::string& request) {
    try {
        return "answered: " + answer(runtime, request, 0);
    } catch (const std::runtime_error& e) {
        return e.what();
    }
}

constexpr const char* kQuiet =
    "version: 1\nports: {in: {ring: w}, out: {ring: w}}\n"
    "chains: {c: {input: in, output: out, nfs: [mirror]}}\n";

TEST(Answers, TellWhatChainsWerePromised) {
    const auto runtime = runtime_of(
        "version: 1\nports: {in: {ring: w}, out: {ring: w}, in2: {ring: v}, out2: {ring: v}}\nchains:\n"
        "  c: {input: in, output: out, rate: 2M, latency: 5ms, nfs: [mirror]}\n"
        "  d: {input: in2, output: out2, nfs: [mirror]}\n");
    exec::PromiseWatch promises(*runtime, nullptr);
    promises.update({});
    const json chains = json::parse(answer(*runtime, request_for("chains", {}), 1.5, &promises))["chains"];
    ASSERT_EQ(chains.size(), 2u);
    EXPECT_EQ(chains[0]["promise"]["rate"], 2'000'000);
    EXPECT_EQ(chains[0]["promise"]["latency-ns"], 5'000'000);
    EXPECT_EQ(chains[0]["promise"]["now"], "new");
    EXPECT_FALSE(chains[1].contains("promise"));
    EXPECT_FALSE(asked(*runtime, "chains")["chains"][0].contains("promise")) << "nobody watches";
}

TEST(Answers, SayWhatIsWrongWithARequest) {
    const auto runtime = runtime_of(kQuiet);
    const std::pair<const char*, const char*> cases[] = {
        {"", "such as"},
        {"ports", "such as"},
        {"[1]", "such as"},
        {"{", "such as"},
        {"{}", "version"},
        {R"({"show":"ports"})", "version"},
        {R"({"version":"1","show":"ports"})", "version"},
        {R"({"version":-1,"show":"ports"})", "version"},
        {R"({"version":2,"show":"ports"})", "version 2 is not known: this is version 1"},
        {R"({"version":1})", "ports, neighbours, routes, sas, chains, flows"},
        {R"({"version":1,"show":7})", "ports, neighbours"},
        {R"({"version":1,"show":"port"})", "ports, neighbours"},
        {R"({"version":1,"show":"ports","more":1})", "nothing else"},
        {R"({"version":1,"show":"flows","match":7})", "is a text"},
        {R"({"version":1,"show":"flows","match":"tcpp"})", "did you mean 'tcp'?"},
        {R"({"version":1,"show":"flows","by":"size"})", "bytes, packets or duration"},
        {R"({"version":1,"show":"routes","match":"tcp"})", "for flows"},
        {R"({"version":1,"show":"ports","by":"bytes"})", "for flows"},
        {R"({"version":1,"show":"routes","limit":0})", "from 1 to"},
        {R"({"version":1,"show":"routes","limit":20001})", "from 1 to"},
        {R"({"version":1,"show":"routes","limit":-1})", "from 1 to"},
        {R"({"version":1,"show":"routes","limit":1e99})", "from 1 to"},
        {R"({"version":1,"show":"routes","limit":18446744073709551615})", "from 1 to"},
        {"{\"version\":1,\"show\":\"\xff\xfe\"}", "such as"},
    };
    for (const auto& [request, why] : cases)
        EXPECT_NE(refused(*runtime, request).find(why), std::string::npos)
            << request << ": " << refused(*runtime, request);
    EXPECT_NE(refused(*runtime, std::string(4000, '[')).find("such as"), std::string::npos);
    EXPECT_EQ(json::parse(refusal("why \"not\"\n")), (json{{"version", 1}, {"error", "why \"not\"\n"}}));
}

TEST(Answers, DescribePorts) {
    const auto runtime = runtime_of(kQuiet);
    const json all = asked(*runtime, "ports");
    EXPECT_EQ(all["version"], 1);
    EXPECT_EQ(all["show"], "ports");
    EXPECT_EQ(all["generation"], 1);
    EXPECT_EQ(all["seconds"], 1.5);
    ASSERT_EQ(all["ports"].size(), 2u);
    const json& port = all["ports"][0];
    EXPECT_EQ(port["name"], "in");
    EXPECT_EQ(port["kind"], "ring");
    EXPECT_EQ(port["link"], "up");
    EXPECT_EQ(port["mtu"], 65535);
    EXPECT_EQ(port["queues"], 1);
    EXPECT_EQ(port["received-packets"], 0);
    EXPECT_TRUE(port["drops"].is_object());
}

class AnswersUnderLoad : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, AnswersUnderLoad, testing::ValuesIn(test::test_devices()),
                         test::device_test_name);

TEST_P(AnswersUnderLoad, AddUpAtEveryMoment) {
    const auto runtime = runtime_of(
        "version: 1\nports: {in: {source: {flows: 64, addresses: {src: 10.0.0.0/8, dst: 192.0.2.0/24}}}, out: {sink: "
        "{}}}\nchains:\n  first: {input: in, nfs: [{firewall: {default: permit, rules: [deny ip from 10.0.0.0/27 to "
        "any]}, on: {permit: chain second}}]}\n  second: {output: out, nfs: [mirror]}\n",
        GetParam(), 2);
    runtime->start();
    uint64_t before = 0;
    for (unsigned i = 0; i < 200; ++i) {
        const json all = asked(*runtime, "chains");
        ASSERT_EQ(all["chains"].size(), 2u);
        for (const json& chain : all["chains"]) {
            const auto n = [&](const char* name) { return chain[name].get<int64_t>(); };
            ASSERT_EQ(n("received-packets") + n("injected") + n("copied"),
                      n("sent-packets") + n("dropped") + n("punted") + n("passed-on") + n("in-flight"))
                << chain.dump();
            ASSERT_GE(n("in-flight"), 0) << chain.dump();
            int64_t reasons = 0;
            for (const auto& [reason, packets] : chain["drops"].items()) reasons += packets.get<int64_t>();
            ASSERT_EQ(reasons, n("dropped")) << chain.dump();
        }
        const auto received = all["chains"][0]["received-packets"].get<uint64_t>();
        EXPECT_GE(received, before);
        before = received;
        if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    runtime->stop();
    ASSERT_TRUE(runtime->wait(std::chrono::seconds(60)));
    const json last = asked(*runtime, "chains");
    EXPECT_GT(last["chains"][0]["dropped"], 0);
    EXPECT_GT(last["chains"][1]["sent-packets"], 0);
    EXPECT_EQ(last["chains"][1]["in-flight"], 0);
    EXPECT_EQ(asked(*runtime, "ports")["ports"][0]["received-packets"], last["chains"][0]["received-packets"]);
    runtime->finish();
    test::expect_work(test::Work::device_alone, exec::make_report(*runtime));
}

TEST(Answers, HaveTheRoutersRoutesAndNextHops) {
    const auto runtime = runtime_of(R"(
version: 1
ports: {in: {ring: w}, out: {ring: w}}
chains:
  a:
    input: in
    output: out
    nfs:
      - router:
          next-hops:
            edge: {port: out, mac: "02:00:00:00:01:01"}
            core: {}
          routes:
            - {prefix: 192.0.2.0/24, via: edge}
            - {prefix: 0.0.0.0/0, via: [edge, core]}
            - {prefix: "2001:db8::/32", via: core}
          local: [198.51.100.1]
)");
    const json routes = asked(*runtime, "routes")["routes"];
    ASSERT_EQ(routes.size(), 1u);
    EXPECT_EQ(routes[0]["nf"], "router");
    EXPECT_EQ(routes[0]["chains"], json::array({"a"}));
    EXPECT_EQ(routes[0]["total"], 4);
    EXPECT_EQ(routes[0]["rows"], json::array({{{"prefix", "0.0.0.0/0"}, {"via", "edge, core"}},
                                              {{"prefix", "192.0.2.0/24"}, {"via", "edge"}},
                                              {{"prefix", "198.51.100.1/32"}, {"via", "local"}},
                                              {{"prefix", "2001:db8::/32"}, {"via", "core"}}}));
    const json neighbours = asked(*runtime, "neighbours")["neighbours"];
    ASSERT_EQ(neighbours.size(), 1u);
    EXPECT_EQ(neighbours[0]["rows"][0],
              (json{{"address", "edge"}, {"interface", "out"}, {"mac", "02:00:00:00:01:01"}, {"state", "static"}}));
    EXPECT_EQ(asked(*runtime, "sas")["sas"], json::array());
    const json few = asked(*runtime, "routes", 2)["routes"];
    EXPECT_EQ(few[0]["rows"].size(), 2u);
    EXPECT_EQ(few[0]["total"], 4);
}

/// A thousand chains, of which every fifty share a router.
TEST(Answers, HaveAsManyRowsAsAreAskedFor) {
    std::string text = "version: 1\nports: {in: {ring: w}, out: {ring: w}}\nclassify:\n", chains = "chains:\n";
    for (unsigned i = 0; i < 1000; ++i) {
        const std::string n = std::to_string(i);
        text += "  - {match: {vlan: " + std::to_string(i + 1) + "}, chain: c" + n + "}\n";
        const std::string hop = "h" + std::to_string(i / 50);
        // The router of the first fifty chains has two routes.
        chains += "  c" + n + ":\n    output: out\n    nfs:\n      - router: {engine: linear, next-hops: {" + hop +
                  ": {}}, routes: [" + (i < 50 ? "{prefix: 192.0.2.0/24, via: h0}, " : "") +
                  "{prefix: 0.0.0.0/0, via: " + hop + "}]}\n";
    }
    const auto runtime = runtime_of(text + chains);
    const json all = asked(*runtime, "routes")["routes"];
    ASSERT_EQ(all.size(), 20u) << "a router that chains share is there once";
    EXPECT_EQ(all[0]["chains"].size(), 50u);
    EXPECT_EQ(all[0]["total"], 2);
    EXPECT_EQ(all[19]["rows"].size(), 1u);
    const json few = asked(*runtime, "routes", 10)["routes"];
    ASSERT_EQ(few.size(), 20u);
    size_t rows = 0;
    for (const json& table : few) rows += table["rows"].size();
    EXPECT_EQ(rows, 10u);
    EXPECT_EQ(few[19]["total"], 1) << "what has no room is counted";
    EXPECT_EQ(asked(*runtime, "chains")["chains"].size(), 1000u);
}

TEST(Answers, HaveNoKeysOfSas) {
    const std::string key = "7e24067817fae0d743d6ce1f32539163", auth = "1f2e3d4c5b6a79880123456789abcdeffedcba98";
    const auto runtime = runtime_of(
        "version: 1\nports: {in: {ring: w}, out: {ring: w}}\nchains:\n  c:\n    input: in\n    output: out\n    nfs:\n"
        "      - ipsec:\n          sas: [{name: east, direction: out, spi: 0x1001, local: 192.0.2.1, remote: "
        "198.51.100.1, cipher: aes-128-ctr, key: " +
        key + ", nonce: \"006cb6db\", auth-key: " + auth +
        "}]\n          policies: [{src: 0.0.0.0/0, dst: 0.0.0.0/0, action: protect, sa: east}]\n");
    const std::string text = answer(*runtime, request_for("sas"), 0);
    EXPECT_EQ(text.find(key.substr(0, 8)), std::string::npos);
    EXPECT_EQ(text.find(auth.substr(0, 8)), std::string::npos);
    EXPECT_EQ(text.find("006cb6db"), std::string::npos);
    const json sa = json::parse(text)["sas"][0]["rows"][0];
    EXPECT_EQ(sa["name"], "east");
    EXPECT_EQ(sa["direction"], "out");
    EXPECT_EQ(sa["spi"], "0x1001");
    EXPECT_EQ(sa["local"], "192.0.2.1");
    EXPECT_EQ(sa["remote"], "198.51.100.1");
    EXPECT_EQ(sa["sequence"], 0);
}

TEST(Answers, HaveTheFlowsOfASwitch) {
    const auto runtime = runtime_of(
        "version: 1\nports: {in: {ring: w}, out: {ring: w}}\nchains:\n  c:\n    input: in\n    output: out\n    nfs:\n"
        "      - switch: {flows: [\"priority=9,udp,tp_dst=53 actions=output:2\", \"priority=0 actions=drop\"]}\n");
    const json flows = asked(*runtime, "flows")["flows"];
    ASSERT_EQ(flows.size(), 1u);
    EXPECT_EQ(flows[0]["total"], 2);
    EXPECT_NE(flows[0]["rows"][0]["flow"].get<std::string>().find("53"), std::string::npos);
    EXPECT_EQ(flows[0]["rows"][0]["packets"], 0);
}

}  // namespace
}  // namespace millrace::show
