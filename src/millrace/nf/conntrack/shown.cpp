#include "millrace/nf/conntrack/shown.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "millrace/base/text/prefix.hpp"
#include "millrace/nf/classify/rules/words.hpp"

namespace millrace::nf::conntrack {
namespace {

using flows::End;
using flows::kTcpStates;

constexpr const char* kTcpNames[kTcpStates] = {"none",       "syn-sent", "syn-received", "established", "fin-wait",
                                               "close-wait", "last-ack", "time-wait",    "close"};

bool is_ipv6(const FlowKey& key) { return (key.kind & FlowKey::kIpv6) != 0; }
uint8_t protocol_of(const FlowKey& key) { return static_cast<uint8_t>(key.kind); }
bool has_ports(const FlowKey& key) {
    return protocol_of(key) == ip::kProtocolTcp || protocol_of(key) == ip::kProtocolUdp;
}
bool is_icmp(const FlowKey& key) {
    return protocol_of(key) == ip::kProtocolIcmp || protocol_of(key) == ip::kProtocolIcmpv6;
}

/// Who began it, and the other end.
std::pair<const End&, const End&> ends_of(const FlowKey& key, const Flow& flow) {
    if (flow.low_began != 0) return {key.low, key.high};
    return {key.high, key.low};
}

classify::HeaderKey header_of(const FlowKey& key, const Flow& flow) {
    const auto& [from, to] = ends_of(key, flow);
    classify::HeaderKey header;
    const auto set = [&](const End& end, uint64_t& high, uint64_t& low) {
        const auto* const bytes = reinterpret_cast<const uint8_t*>(end.address);
        high = is_ipv6(key) ? load_be64(bytes) : uint64_t{load_be32(bytes)} << 32;
        low = is_ipv6(key) ? load_be64(bytes + 8) : 0;
    };
    set(from, header.src_high, header.src_low);
    set(to, header.dst_high, header.dst_low);
    header.ip_version = is_ipv6(key) ? 6 : 4;
    header.protocol = protocol_of(key);
    if (has_ports(key)) header.has = classify::HeaderKey::kPorts;
    header.src_port = static_cast<uint16_t>(from.port);
    header.dst_port = static_cast<uint16_t>(to.port);
    header.connection = flow.answered != 0 ? Connection::established : Connection::opening;
    return header;
}

std::string address_text(const End& end, bool ipv6) {
    Prefix host;
    host.ipv6 = ipv6;
    host.length = static_cast<uint8_t>(host.address_bits());
    std::memcpy(host.bytes.data(), end.address, host.address_bits() / 8);
    const std::string text = host.text();
    return text.substr(0, text.find('/'));
}

uint64_t packets_of(const Flow& flow) { return flow.tally.packets[0] + flow.tally.packets[1]; }
uint64_t bytes_of(const Flow& flow) { return flow.tally.bytes[0] + flow.tally.bytes[1]; }

}  // namespace

/// Rows that have as much of it are in the order of their keys, so that it is always the same.
bool FlowList::Row::goes_before(const Row& other) const {
    if (most != other.most) return most > other.most;
    return std::memcmp(&key, &other.key, sizeof key) < 0;
}

void FlowList::add(const FlowKey& key, const Flow& flow, uint64_t deadline_ns) {
    const classify::HeaderKey header = header_of(key, flow);
    if (!query_.connections.contains(header.connection) || !query_.match.matches(header)) return;
    ++total_;
    const uint64_t kept = kept_ns_[static_cast<size_t>(kept_of(protocol_of(key), flow))];
    const uint64_t last = deadline_ns - std::min(deadline_ns, kept);
    Row row{0, key, flow, last - std::min(last, flow.begun_ns)};
    row.most = query_.by == FlowQuery::By::bytes     ? bytes_of(flow)
               : query_.by == FlowQuery::By::packets ? packets_of(flow)
                                                     : row.duration_ns;
    rows_.add(row);
}

std::vector<ShownTable::Value> FlowList::text_of(const Row& row) const {
    const auto& [from, to] = ends_of(row.key, row.flow);
    const bool ipv6 = is_ipv6(row.key);
    // Texts, as no number is meant that is read with its thousands apart.
    const auto port = [&](const End& end) -> std::string {
        if (has_ports(row.key)) return std::to_string(end.port);
        return is_icmp(row.key) ? "id " + std::to_string(end.port) : std::string();
    };
    const bool is_tcp = protocol_of(row.key) == ip::kProtocolTcp;
    const std::string state = is_tcp
                                  ? kTcpNames[std::min<size_t>(static_cast<size_t>(row.flow.tcp.state), kTcpStates - 1)]
                              : row.flow.answered != 0 ? "established"
                                                       : "new";
    return {classify::protocol_text({protocol_of(row.key), 0xff}),
            address_text(from, ipv6),
            port(from),
            address_text(to, ipv6),
            port(to),
            std::to_string(row.key.kind >> 16),
            state,
            row.flow.tally.packets[0],
            row.flow.tally.bytes[0],
            row.flow.tally.packets[1],
            row.flow.tally.bytes[1],
            row.duration_ns / 1'000'000};
}

ShownTable FlowList::take() {
    ShownTable shown{.columns = {"protocol", "source", "source-port", "destination", "destination-port", "zone",
                                 "state", "packets", "bytes", "packets-back", "bytes-back", "duration-ms"},
                     .rows = {},
                     .total = total_};
    for (const Row& row : rows_.take()) shown.rows.push_back(text_of(row));
    return shown;
}

}  // namespace millrace::nf::conntrack
