// Every alert of a hand-checked set of captures, in every half, through to the EVE file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "hand_checked.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/nf/nids/pattern/cpu/matcher.hpp"
#include "support/data.hpp"
#include "support/nf_runner.hpp"

namespace millrace::nf::nids {
namespace {

struct Recording {
    std::vector<test::Frame> frames;
    std::vector<uint64_t> timestamps;  ///< ns since the epoch
};

/// One member of an archive.
std::string unpacked(const std::string& archive, const std::string& member) {
    const std::string command = "tar -xJOf '" + archive + "' '" + member + "'";
    std::string bytes;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return bytes;
    char part[65536];
    for (size_t n = 0; (n = std::fread(part, 1, sizeof part, pipe)) > 0;) bytes.append(part, n);
    EXPECT_EQ(pclose(pipe), 0) << command;
    return bytes;
}

bool begins(const std::string& text, const std::string& with, std::string& rest) {
    if (!text.starts_with(with)) return false;
    rest = text.substr(with.size());
    return true;
}

constexpr const char* kArchive = "ids-cases/suricata-verify.tar.xz";

/// The file of the data folder that a capture comes from; empty when it is Millrace's own.
std::string data_of(const std::string& capture) {
    if (capture.starts_with("examples:")) return {};
    return capture.starts_with("ids-cases:") ? kArchive : capture;
}

Recording read_recording(const std::string& capture) {
    std::string name, bytes;
    std::unique_ptr<io::CaptureReader> reader;
    if (begins(capture, "ids-cases:", name)) {
        bytes = unpacked(test::data_path(kArchive), name);
        const std::span file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
        reader = std::make_unique<io::CaptureReader>(file, name);
    } else {
        const bool own = begins(capture, "examples:", name);
        const std::string path = own ? test::source_path("examples/" + name) : test::data_path(capture);
        reader = std::make_unique<io::CaptureReader>(path);
    }
    Recording recording;
    for (io::CaptureRecord record; reader->next(record);) {
        recording.frames.emplace_back(record.bytes.begin(), record.bytes.end());
        recording.timestamps.push_back(record.timestamp_ns);
    }
    EXPECT_EQ(reader->error(), "");
    EXPECT_FALSE(recording.frames.empty()) << capture;
    return recording;
}

std::set<uint64_t> numbers(const std::string& text) {
    std::set<uint64_t> out;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        const size_t dash = word.find('-');
        const uint64_t first = std::stoull(word);
        const uint64_t last = dash == std::string::npos ? first : std::stoull(word.substr(dash + 1));
        for (uint64_t n = first; n <= last; ++n) out.insert(n);
    }
    return out;
}

std::string text_of(const std::set<uint64_t>& packets) {
    std::string out;
    for (const uint64_t n : packets) out += (out.empty() ? "" : " ") + std::to_string(n);
    return out;
}

uint32_t sid_of(const std::string& rule) {
    return static_cast<uint32_t>(std::stoul(rule.substr(rule.rfind("sid:") + 4)));
}

/// A way to run the NF: a half, and the search of the CPU half.
struct Way {
    test::Half half;
    const char* search;
    std::string text() const { return half.text() + ", engine: " + search; }
};
std::vector<Way> ways() {
    std::vector<Way> all = {{{1}, "auto"}, {{8}, "auto"}, {{32}, "auto"}};
    if (pattern::is_available(pattern::Engine::hyperscan)) all.push_back({{0}, "hyperscan"});
    if (pattern::is_available(pattern::Engine::vector)) all.push_back({{0}, "vector"});
    all.push_back({{0}, "scalar"});
    return all;
}

struct Alerts {
    std::vector<nlohmann::json> lines;  ///< of the EVE file
    std::set<uint64_t> blocked;
};

/// Runs a capture as an executor would: packets, then their events with number and time, then the file.
Alerts run(const HandCheckedCapture& expected, const Recording& recording, const Way& way) {
    const std::string folder = testing::TempDir() + "millrace-hand-checked-" + std::to_string(::getpid());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::string options = std::string(expected.options) + "\nflows: none\nengine: " + way.search + "\nrule:\n";
    for (const HandCheckedRule& rule : expected.rules) {
        options += "- |\n";
        std::istringstream lines(rule.rule);
        for (std::string line; std::getline(lines, line);) options += "  " + line + "\n";
    }
    Environment environment{
        .node_name = "nids", .chain_name = "chain", .output_folder = folder, .ports = test::kTestPorts};

    Alerts alerts;
    {
        test::NfRunner runner("nids", Config::parse(options), environment);
        for (const Diagnostic& warning : environment.warn.take_warnings()) ADD_FAILURE() << warning.render();
        const uint32_t block = 2;
        EXPECT_EQ(runner.type().outcomes[block].name, "block");
        const test::NfResult result = runner.run(recording.frames, way.half);
        for (size_t i = 0; i < result.decisions.size(); ++i)
            if (result.decisions[i].outcome == block) alerts.blocked.insert(i + 1);
        for (const Event& event : result.events) {
            const bool dropped = result.decisions[event.packet].outcome == block;
            runner.nf().on_event(event, {event.packet + 1, recording.timestamps[event.packet], "wan", dropped});
        }
        runner.nf().flush();
    }
    std::ifstream eve(folder + "/eve.json");
    for (std::string line; std::getline(eve, line);) alerts.lines.push_back(nlohmann::json::parse(line));
    std::filesystem::remove_all(folder);
    return alerts;
}

/// "a union in a query" as a test's name.
std::string name_of(size_t index) {
    std::string name = hand_checked_captures()[index].name;
    for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
}

class HandChecked : public testing::TestWithParam<size_t> {};

TEST_P(HandChecked, AlertsAreThoseOfEveryHalf) {
    const HandCheckedCapture& expected = hand_checked_captures()[GetParam()];
    if (const std::string data = data_of(expected.capture); !data.empty()) MILLRACE_NEEDS_DATA(data);
    const Recording recording = read_recording(expected.capture);
    for (const Way& way : ways()) {
        SCOPED_TRACE(std::string(expected.name) + ", " + way.text());
        const Alerts alerts = run(expected, recording, way);
        std::map<uint32_t, std::set<uint64_t>> packets;
        for (const nlohmann::json& line : alerts.lines) {
            const bool added = packets[line["alert"]["signature_id"]].insert(line["pcap_cnt"].get<uint64_t>()).second;
            EXPECT_TRUE(added) << "twice: " << line;
        }
        for (const HandCheckedRule& rule : expected.rules)
            EXPECT_EQ(text_of(packets[sid_of(rule.rule)]), text_of(numbers(rule.packets))) << rule.rule << "\n"
                                                                                           << rule.filter;
        EXPECT_EQ(text_of(alerts.blocked), text_of(numbers(expected.blocked)));
        if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Captures, HandChecked, testing::Range<size_t>(0, hand_checked_captures().size()),
                         [](const auto& index) { return name_of(index.param); });

const HandCheckedCapture& capture_of(const std::string& name) {
    for (const HandCheckedCapture& capture : hand_checked_captures())
        if (name == capture.capture) return capture;
    throw std::out_of_range(name);
}

/// The line of one alert: `fields` are the whole line but `alert`, of which `alert` is a part.
struct ExpectedLine {
    uint32_t sid;
    const char* fields;
    const char* alert;
};

/// The fields are tshark's: frame.number, frame.time_epoch (-t ud), vlan.id, ip.src, tcp.srcport and so on.
void expect_lines(const std::string& capture, const std::vector<ExpectedLine>& expected) {
    const Recording recording = read_recording(capture);
    for (const Way& way : {ways().front(), ways().back()}) {
        SCOPED_TRACE(way.text());
        const Alerts alerts = run(capture_of(capture), recording, way);
        for (const ExpectedLine& want : expected) {
            const auto fields = nlohmann::json::parse(want.fields), alert = nlohmann::json::parse(want.alert);
            bool found = false;
            for (nlohmann::json line : alerts.lines) {
                if (line["alert"]["signature_id"] != want.sid || line["pcap_cnt"] != fields["pcap_cnt"]) continue;
                found = true;
                for (const auto& [key, value] : alert.items()) EXPECT_EQ(line["alert"][key], value) << key;
                line.erase("alert");
                EXPECT_EQ(line, fields);
            }
            EXPECT_TRUE(found) << want.sid << " " << want.fields;
        }
    }
}

TEST(HandCheckedLines, TellAddressesPortsAndTheTimeOfCapture) {
    expect_lines("examples:traffic.pcap",
                 {{126, R"({"timestamp": "2026-11-21T03:28:25.936328+0000", "in_iface": "wan", "event_type": "alert",
                            "vlan": [10], "src_ip": "10.0.20.10", "src_port": 38516,
                            "dest_ip": "192.0.2.10", "dest_port": 80,
                            "proto": "TCP", "pcap_cnt": 490})",
                   R"({"action": "allowed", "gid": 1, "rev": 0, "severity": 3})"},
                  {123, R"({"timestamp": "2026-11-21T03:28:36.773517+0000", "in_iface": "wan", "event_type": "alert",
                            "src_ip": "2001:db8:10::29", "dest_ip": "2001:db8:20::10", "proto": "IPv6-ICMP",
                            "icmp_type": 128, "icmp_code": 0, "pcap_cnt": 4337})",
                   R"({"action": "allowed"})"},
                  {109, R"({"timestamp": "2026-11-21T03:28:38.992667+0000", "in_iface": "wan", "event_type": "alert",
                            "src_ip": "10.0.10.17", "src_port": 38408, "dest_ip": "192.0.2.53", "dest_port": 53,
                            "proto": "UDP", "app_proto": "dns", "pcap_cnt": 4932})",
                   R"({"action": "allowed"})"},
                  {112, R"({"timestamp": "2026-11-21T03:28:40.076528+0000", "in_iface": "wan", "event_type": "alert",
                            "src_ip": "192.0.2.66", "dest_ip": "10.0.10.28", "proto": "ICMP",
                            "icmp_type": 3, "icmp_code": 3,
                            "pcap_cnt": 6888})",
                   R"({"action": "allowed"})"},
                  {128, R"({"timestamp": "2026-11-21T03:28:41.267907+0000", "in_iface": "wan", "event_type": "alert",
                            "src_ip": "10.0.10.27", "dest_ip": "192.0.2.66", "proto": "SCTP", "pcap_cnt": 6974})",
                   R"({"action": "allowed"})"}});
}

TEST(HandCheckedLines, TellTheVlanOfATunnel) {
    MILLRACE_NEEDS_DATA("pcap/curated/ndpi/vxlan.pcap");
    expect_lines("pcap/curated/ndpi/vxlan.pcap",
                 {{1001, R"({"timestamp": "2021-12-16T10:27:22.864784+0000", "in_iface": "wan", "event_type": "alert",
                            "vlan": [5], "src_ip": "192.168.22.4", "src_port": 60351,
                            "dest_ip": "192.168.22.5", "dest_port": 4789,
                             "proto": "UDP", "pcap_cnt": 24})",
                   R"({"action": "allowed"})"}});
}

TEST(HandCheckedLines, SayWhatWasBlocked) {
    MILLRACE_NEEDS_DATA(kArchive);
    expect_lines("ids-cases:issue-5466-alert-then-pass-01/icmp_and_ssh.pcap",
                 {{1403, R"({"timestamp": "2021-09-10T05:24:00.667377+0000", "in_iface": "wan", "event_type": "alert",
                             "src_ip": "192.168.0.30", "src_port": 42116, "dest_ip": "192.168.0.123", "dest_port": 22,
                             "proto": "TCP", "pcap_cnt": 18})",
                   R"({"action": "blocked"})"}});
}

}  // namespace
}  // namespace millrace::nf::nids
