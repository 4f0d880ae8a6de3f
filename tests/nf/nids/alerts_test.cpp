// What becomes of alerts: thresholds, EVE lines, the file.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "millrace/nf/nids/alerts/eve.hpp"
#include "millrace/nf/nids/alerts/threshold.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

Rule rule_with(Threshold threshold) {
    Rule rule;
    rule.sid = 7;
    rule.threshold = threshold;
    return rule;
}

std::string admitted(ThresholdTable& table, const Rule& rule, const std::vector<double>& seconds, uint8_t src = 1) {
    std::string out;
    Event event;
    event.src[0] = src;
    for (const double at : seconds)
        out += table.admits(rule, event, static_cast<uint64_t>((100 + at) * kSecond)) ? 'y' : 'n';
    return out;
}

TEST(Thresholds, LimitTellsTheFirstOfEachWindow) {
    ThresholdTable table;
    const Rule rule = rule_with({Threshold::Type::limit, Threshold::Track::by_src, 2, 10});
    EXPECT_EQ(admitted(table, rule, {0, 1, 2, 10, 10.5, 11, 12}), "yynnyyn");
}
TEST(Thresholds, ThresholdTellsEveryNth) {
    ThresholdTable table;
    const Rule rule = rule_with({Threshold::Type::threshold, Threshold::Track::by_src, 3, 10});
    EXPECT_EQ(admitted(table, rule, {0, 1, 2, 3, 4, 5, 20, 31, 32, 33}), "nnynnynnny");
}
TEST(Thresholds, BothTellsOnceAWindow) {
    ThresholdTable table;
    const Rule rule = rule_with({Threshold::Type::both, Threshold::Track::by_src, 2, 10});
    EXPECT_EQ(admitted(table, rule, {0, 1, 2, 3, 11, 12}), "nynnny");
}
TEST(Thresholds, DetectionFilterTellsWhatExceedsTheCount) {
    ThresholdTable table;
    const Rule rule = rule_with({Threshold::Type::detection, Threshold::Track::by_src, 2, 10});
    EXPECT_EQ(admitted(table, rule, {0, 1, 2, 3, 15}), "nnyyn");
}
TEST(Thresholds, CountEachAddressForItself) {
    ThresholdTable table;
    Rule rule = rule_with({Threshold::Type::limit, Threshold::Track::by_src, 1, 10});
    EXPECT_EQ(admitted(table, rule, {0, 1}, 1), "yn");
    EXPECT_EQ(admitted(table, rule, {0, 1}, 2), "yn");
    rule.threshold->track = Threshold::Track::by_dst;
    EXPECT_EQ(admitted(table, rule, {0}, 3), "y");
    EXPECT_EQ(admitted(table, rule, {0}, 4), "n") << "the same destination";
}
TEST(Thresholds, StayWithinTheirRoom) {
    ThresholdTable table;
    const Rule rule = rule_with({Threshold::Type::limit, Threshold::Track::by_src, 1, 1000});
    Event event;
    for (uint32_t i = 0; i < ThresholdTable::kMaxEntries + 1000; ++i) {
        std::memcpy(event.src, &i, sizeof i);
        EXPECT_TRUE(table.admits(rule, event, i));
    }
    EXPECT_LE(table.size(), ThresholdTable::kMaxEntries);
    EXPECT_EQ(table.forgotten() + table.size(), ThresholdTable::kMaxEntries + 1000) << "what was given up is counted";
}

TEST(Eve, WritesAnAlertAsSuricataDoes) {
    Rule rule;
    rule.sid = 2010935;
    rule.revision = 3;
    rule.message = "ET POLICY \xff";
    rule.class_type = "bad-unknown";
    rule.metadata = {{"created_at", "2010_07_30"}, {"tag", "a"}, {"tag", "b"}};
    Event event;
    event.ip_version = 4;
    event.src[0] = 192, event.src[3] = 1;
    event.dst[0] = 10, event.dst[3] = 2;
    event.src_port = 1234, event.dst_port = 1433;
    event.protocol = 6;
    event.vlan_id = 5;
    const PacketInfo info{17, 1234567890123456789ull, "wan", true};
    const auto line = nlohmann::json::parse(
        eve_line(rule, {{"bad-unknown", {"Potentially Bad Traffic", 2}}}, event, info));
    EXPECT_EQ(line["timestamp"], "2009-02-13T23:31:30.123456+0000");
    EXPECT_EQ(line["event_type"], "alert");
    EXPECT_EQ(line["src_ip"], "192.0.0.1");
    EXPECT_EQ(line["src_port"], 1234);
    EXPECT_EQ(line["dest_ip"], "10.0.0.2");
    EXPECT_EQ(line["dest_port"], 1433);
    EXPECT_EQ(line["proto"], "TCP");
    EXPECT_EQ(line["vlan"], nlohmann::json::array({5}));
    EXPECT_EQ(line["in_iface"], "wan");
    EXPECT_EQ(line["pcap_cnt"], 17);
    EXPECT_EQ(line["alert"]["action"], "blocked");
    EXPECT_EQ(line["alert"]["gid"], 1);
    EXPECT_EQ(line["alert"]["signature_id"], 2010935);
    EXPECT_EQ(line["alert"]["rev"], 3);
    EXPECT_EQ(line["alert"]["category"], "Potentially Bad Traffic");
    EXPECT_EQ(line["alert"]["severity"], 2);
    EXPECT_EQ(line["alert"]["metadata"]["tag"], nlohmann::json::array({"a", "b"}));
}

TEST(Eve, WritesALineInOneOrderAndEveryTextAsJson) {
    Rule rule;
    rule.sid = 7;
    rule.message = "a \"quote\", a \\, a tab\t, \xc3\xa9 and no UTF-8: \xff";
    rule.metadata = {{"tag", "a"}, {"odd \"key\"", "x"}, {"tag", "b"}};
    rule.application_name = "http";
    Event event;
    event.ip_version = 4;
    event.protocol = 17;
    event.vlan_id = 9;
    EXPECT_EQ(
        eve_line(rule, {}, event, {3, 0, "", false}),
        R"({"timestamp":"1970-01-01T00:00:00.000000+0000","event_type":"alert","vlan":[9],"src_ip":"0.0.0.0",)"
        R"("src_port":0,"dest_ip":"0.0.0.0","dest_port":0,"proto":"UDP","pcap_cnt":3,"alert":{"action":"allowed",)"
        R"("gid":1,"signature_id":7,"rev":0,"signature":"a \"quote\", a \\, a tab\t, )"
        "\xc3\xa9 and no UTF-8: \xef\xbf\xbd"
        R"(","category":"","severity":3,"metadata":{"tag":["a","b"],"odd \"key\"":["x"]}},"app_proto":"http"})");
}

TEST(Eve, GivesIcmpItsTypeAndCode) {
    Event event;
    event.ip_version = 6;
    event.src[15] = 1;
    event.src_port = 128;
    event.protocol = 58;
    const auto line = nlohmann::json::parse(eve_line({}, {}, event, {}));
    EXPECT_EQ(line["src_ip"], "::1");
    EXPECT_EQ(line["icmp_type"], 128);
    EXPECT_EQ(line["proto"], "IPv6-ICMP");
    EXPECT_FALSE(line.contains("src_port"));
}

TEST(Eve, WritesWhatIsOddAboutAStreamAsSuricataDoes) {
    Event event;
    event.ip_version = 4;
    event.protocol = ip::kProtocolTcp;
    event.src_port = 1000;
    const auto line = nlohmann::json::parse(anomaly_line("stream.reassembly_seq_gap", event, {}));
    EXPECT_EQ(line["event_type"], "anomaly");
    EXPECT_EQ(line["anomaly"], (nlohmann::json{{"type", "stream"}, {"event", "stream.reassembly_seq_gap"}}));
    EXPECT_EQ(line["src_port"], 1000);
}

TEST(NidsAlerts, AreInTheFileAndTheStatistics) {
    const std::string folder = testing::TempDir() + "millrace-nids-alerts";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    Environment environment{.node_name = "n", .chain_name = "c", .output_folder = folder, .ports = test::kTestPorts};
    const Config options = Config::parse(
        "report: report.txt\nrule:\n"
        "- 'alert tcp any any -> any any (msg:\"a\"; threshold:type limit, track by_src, count 1, seconds 60; "
        "sid:1;)'\n"
        "- 'alert tcp any any -> any any (msg:\"b\"; ja3.hash; content:\"x\"; sid:2;)'\n");
    test::NfRunner runner("nids", options, environment);
    EXPECT_EQ(environment.warn.take_warnings().size(), 1u);
    Event event;
    event.ip_version = 4;
    event.protocol = 6;
    for (uint64_t i = 1; i <= 3; ++i) runner.nf().on_event(event, {i, i * kSecond, "port0", false});
    runner.nf().flush();
    std::map<std::string, uint64_t> statistics;
    for (const Statistic& statistic : runner.nf().statistics()) statistics[statistic.name] = statistic.value;
    EXPECT_EQ(statistics["alerts"], 1u);
    EXPECT_EQ(statistics["alerts-suppressed"], 2u);
    EXPECT_EQ(statistics["rules"], 1u);
    EXPECT_EQ(statistics["rules-unsupported"], 1u);
    std::ifstream eve(folder + "/eve.json"), report(folder + "/report.txt");
    std::stringstream text, reasons;
    text << eve.rdbuf();
    reasons << report.rdbuf();
    EXPECT_NE(text.str().find("\"signature_id\":1"), std::string::npos);
    EXPECT_NE(reasons.str().find("1:2\tkeyword ja3.hash"), std::string::npos);
}

}  // namespace
}  // namespace millrace::nf::nids
