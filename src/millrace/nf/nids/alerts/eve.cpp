#include "millrace/nf/nids/alerts/eve.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::nf::nids {
namespace {

std::string timestamp_text(uint64_t timestamp_ns) {
    const auto seconds = static_cast<time_t>(timestamp_ns / 1'000'000'000);
    tm parts{};
    gmtime_r(&seconds, &parts);
    char date[32], text[64];
    std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    std::snprintf(text, sizeof text, "%s.%06u+0000", date, static_cast<unsigned>(timestamp_ns / 1000 % 1'000'000));
    return text;
}

std::string address_text(const uint8_t* address, uint8_t version) {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(version == 6 ? AF_INET6 : AF_INET, address, text, sizeof text);
    return text;
}

std::string protocol_text(uint8_t protocol) {
    switch (protocol) {
        case ip::kProtocolIcmp: return "ICMP";
        case 2: return "IGMP";
        case ip::kProtocolTcp: return "TCP";
        case ip::kProtocolUdp: return "UDP";
        case ip::kProtocolGre: return "GRE";
        case ip::kProtocolEsp: return "ESP";
        case ip::kProtocolAh: return "AH";
        case ip::kProtocolIcmpv6: return "IPv6-ICMP";
        case ip::kProtocolSctp: return "SCTP";
        default: break;
    }
    char text[8];
    std::snprintf(text, sizeof text, "%03u", protocol);
    return text;
}

/// A line as it is put together: text by text, since a tree of JSON values takes several times as long, and a worker
/// may wait for who writes.
class Line {
public:
    /// `"name":`, behind a comma unless something begins here.
    Line& key(std::string_view name) {
        if (text_.back() != '{') text_ += ',';
        put(name);
        text_ += ':';
        return *this;
    }
    void text(std::string_view value) { put(value); }
    void number(uint64_t value) { text_ += std::to_string(value); }
    void list(uint64_t only) { text_ += '[' + std::to_string(only) + ']'; }
    void texts(const std::vector<std::string_view>& values) {
        text_ += '[';
        for (const std::string_view value : values) {
            if (text_.back() != '[') text_ += ',';
            put(value);
        }
        text_ += ']';
    }
    void begin() { text_ += '{'; }
    void end() { text_ += '}'; }
    std::string take() && { return std::move(text_); }

private:
    void put(std::string_view text) {
        const bool plain = std::ranges::all_of(text,
                                               [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
        // A rule's text may hold bytes that are no UTF-8.
        if (!plain) text_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        else ((text_ += '"') += text) += '"';
    }
    std::string text_ = "{";
};

void add_metadata(Line& line, const Rule& rule) {
    const auto& all = rule.metadata;
    line.key("metadata").begin();
    for (auto entry = all.begin(); entry != all.end(); ++entry) {
        const auto same = [&](const auto& other) { return other.first == entry->first; };
        if (std::any_of(all.begin(), entry, same)) continue;
        std::vector<std::string_view> values;
        for (auto other = entry; other != all.end(); ++other)
            if (same(*other)) values.push_back(other->second);
        line.key(entry->first).texts(values);
    }
    line.end();
}

void add_alert(Line& line, const Rule& rule, const Classifications& classes, bool dropped) {
    const auto found = classes.find(rule.class_type);
    const uint32_t priority = found == classes.end() ? 3 : found->second.priority;
    line.key("alert").begin();
    line.key("action").text(dropped ? "blocked" : "allowed");
    line.key("gid").number(rule.gid);
    line.key("signature_id").number(rule.sid);
    line.key("rev").number(rule.revision);
    line.key("signature").text(rule.message);
    line.key("category").text(found == classes.end() ? rule.class_type : found->second.description);
    line.key("severity").number(rule.priority.value_or(priority));
    if (!rule.metadata.empty()) add_metadata(line, rule);
    line.end();
}

/// All of a line that comes before what it is about.
Line line_about(const char* type, const Event& event, const nf::PacketInfo& info) {
    Line line;
    line.key("timestamp").text(timestamp_text(info.timestamp_ns));
    if (!info.in_port.empty()) line.key("in_iface").text(info.in_port);
    line.key("event_type").text(type);
    if (event.vlan_id != 0) line.key("vlan").list(event.vlan_id);
    line.key("src_ip").text(address_text(event.src, event.ip_version));
    const bool icmp = event.protocol == ip::kProtocolIcmp || event.protocol == ip::kProtocolIcmpv6;
    const bool ports = event.protocol == ip::kProtocolTcp || event.protocol == ip::kProtocolUdp;
    if (ports) line.key("src_port").number(event.src_port);
    line.key("dest_ip").text(address_text(event.dst, event.ip_version));
    if (ports) line.key("dest_port").number(event.dst_port);
    line.key("proto").text(protocol_text(event.protocol));
    if (icmp) {
        line.key("icmp_type").number(event.src_port);
        line.key("icmp_code").number(event.dst_port);
    }
    line.key("pcap_cnt").number(info.number);
    return line;
}

}  // namespace

std::string eve_line(const Rule& rule, const Classifications& classes, const Event& event, const nf::PacketInfo& info) {
    Line line = line_about("alert", event, info);
    add_alert(line, rule, classes, info.dropped);
    if (!rule.application_name.empty()) line.key("app_proto").text(rule.application_name);
    line.end();
    return std::move(line).take();
}

std::string anomaly_line(const char* name, const Event& event, const nf::PacketInfo& info) {
    Line line = line_about("anomaly", event, info);
    line.key("anomaly").begin();
    line.key("type").text("stream");
    line.key("event").text(name);
    line.end();
    line.end();
    return std::move(line).take();
}

}  // namespace millrace::nf::nids
