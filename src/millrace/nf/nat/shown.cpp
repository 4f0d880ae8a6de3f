#include "millrace/nf/nat/shown.hpp"

#include <tuple>

#include "millrace/nf/classify/rules/words.hpp"
#include "millrace/nf/nat/options.hpp"
#include "millrace/nf/nat/port_group.hpp"

namespace millrace::nf::nat {
namespace {

/// As a firewall's rule would see it: from inside to whom it sent last.
classify::HeaderKey header_of(const Mapping& mapping, uint8_t protocol) {
    classify::HeaderKey header;
    header.src_high = uint64_t{swap32(mapping.address)} << 32;
    header.dst_high = uint64_t{swap32(mapping.peer)} << 32;
    header.ip_version = 4;
    header.protocol = protocol;
    if (protocol != ip::kProtocolIcmp) header.has = classify::HeaderKey::kPorts;
    header.src_port = mapping.port;
    header.dst_port = mapping.peer_port;
    header.connection = (mapping.bits & Mapping::kAnswered) != 0 ? Connection::established : Connection::opening;
    return header;
}

const char* state_of(const Mapping& mapping, uint8_t protocol) {
    if (protocol != ip::kProtocolTcp) return (mapping.bits & Mapping::kAnswered) != 0 ? "answered" : "new";
    return mapping.is_over() ? "over" : mapping.is_open() ? "open" : "opening";
}

}  // namespace

/// Rows that have as much of it are in the order of their ports, so that it is always the same.
bool MappingList::Row::goes_before(const Row& other) const {
    if (most != other.most) return most > other.most;
    const auto place = [](const End& end) { return std::tuple(swap32(end.address), end.protocol, end.port); };
    return place(external) < place(other.external);
}

void MappingList::add(const GroupKey& key, const PortGroup& group) {
    const auto protocol = static_cast<uint8_t>(key.group >> 16);
    for (uint64_t left = group.used; left != 0; left &= left - 1) {
        const uint32_t slot = lowest_bit(left);
        const Mapping& mapping = group.mappings[slot];
        const classify::HeaderKey header = header_of(mapping, protocol);
        if (mapping.deadline_ns < now_ns_ || !query_.connections.contains(header.connection) ||
            !query_.match.matches(header))
            continue;
        ++total_;
        const uint64_t kept = kept_ns_[static_cast<uint32_t>(kept_of(protocol, mapping))];
        const uint64_t last = mapping.deadline_ns - smaller(mapping.deadline_ns, kept);
        Row row{0, last - smaller(last, mapping.begun_ns), external_of(key, slot), mapping};
        row.most = query_.by == FlowQuery::By::bytes     ? mapping.bytes[0] + mapping.bytes[1]
                   : query_.by == FlowQuery::By::packets ? mapping.packets[0] + mapping.packets[1]
                                                         : row.duration_ns;
        rows_.add(row);
    }
}

std::vector<ShownTable::Value> MappingList::values_of(const Row& row) {
    const Mapping& mapping = row.mapping;
    const bool is_icmp = row.external.protocol == ip::kProtocolIcmp;
    // Texts, as no number is meant that is read with its thousands apart.
    const auto port = [&](uint16_t number) { return (is_icmp ? "id " : "") + std::to_string(number); };
    return {classify::protocol_text({row.external.protocol, 0xff}),
            address_text(mapping.address),
            port(mapping.port),
            address_text(row.external.address),
            port(row.external.port),
            address_text(mapping.peer),
            is_icmp ? std::string() : port(mapping.peer_port),
            std::string(state_of(mapping, row.external.protocol)),
            mapping.packets[0],
            mapping.bytes[0],
            mapping.packets[1],
            mapping.bytes[1],
            row.duration_ns / 1'000'000};
}

ShownTable MappingList::take() {
    ShownTable shown{
        .columns = {"protocol", "source", "source-port", "external", "external-port", "destination", "destination-port",
                    "state", "packets", "bytes", "packets-back", "bytes-back", "duration-ms"},
        .rows = {},
        .total = total_};
    for (const Row& row : rows_.take()) shown.rows.push_back(values_of(row));
    return shown;
}

}  // namespace millrace::nf::nat
