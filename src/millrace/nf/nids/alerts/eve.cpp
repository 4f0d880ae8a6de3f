#include "millrace/nf/nids/alerts/eve.hpp"

#include <arpa/inet.h>

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

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

nlohmann::ordered_json alert_object(const Rule& rule, const Classifications& classes, bool dropped) {
    const auto found = classes.find(rule.class_type);
    const uint32_t priority = found == classes.end() ? 3 : found->second.priority;
    nlohmann::ordered_json alert;
    alert["action"] = dropped ? "blocked" : "allowed";
    alert["gid"] = rule.gid;
    alert["signature_id"] = rule.sid;
    alert["rev"] = rule.revision;
    alert["signature"] = rule.message;
    alert["category"] = found == classes.end() ? rule.class_type : found->second.description;
    alert["severity"] = rule.priority.value_or(priority);
    if (!rule.metadata.empty()) {
        nlohmann::ordered_json& metadata = alert["metadata"];
        for (const auto& [key, value] : rule.metadata) metadata[key].push_back(value);
    }
    return alert;
}

/// All of a line that comes before what it is about.
nlohmann::ordered_json line_about(const char* type, const Event& event, const nf::PacketInfo& info) {
    nlohmann::ordered_json line;
    line["timestamp"] = timestamp_text(info.timestamp_ns);
    if (!info.in_port.empty()) line["in_iface"] = info.in_port;
    line["event_type"] = type;
    if (event.vlan_id != 0) line["vlan"] = nlohmann::ordered_json::array({event.vlan_id});
    line["src_ip"] = address_text(event.src, event.ip_version);
    const bool icmp = event.protocol == ip::kProtocolIcmp || event.protocol == ip::kProtocolIcmpv6;
    const bool ports = event.protocol == ip::kProtocolTcp || event.protocol == ip::kProtocolUdp;
    if (ports) line["src_port"] = event.src_port;
    line["dest_ip"] = address_text(event.dst, event.ip_version);
    if (ports) line["dest_port"] = event.dst_port;
    line["proto"] = protocol_text(event.protocol);
    if (icmp) {
        line["icmp_type"] = event.src_port;
        line["icmp_code"] = event.dst_port;
    }
    line["pcap_cnt"] = info.number;
    return line;
}

}  // namespace

std::string eve_line(const Rule& rule, const Classifications& classes, const Event& event, const nf::PacketInfo& info) {
    nlohmann::ordered_json line = line_about("alert", event, info);
    line["alert"] = alert_object(rule, classes, info.dropped);
    if (!rule.application_name.empty()) line["app_proto"] = rule.application_name;
    // A rule's text may hold bytes that are no UTF-8.
    return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string anomaly_line(const char* name, const Event& event, const nf::PacketInfo& info) {
    nlohmann::ordered_json line = line_about("anomaly", event, info);
    line["anomaly"] = {{"type", "stream"}, {"event", name}};
    return line.dump();
}

}  // namespace millrace::nf::nids
