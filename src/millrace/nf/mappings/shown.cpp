#include "millrace/nf/mappings/shown.hpp"

#include <tuple>
#include <type_traits>

#include "millrace/nf/classify/rules/words.hpp"
#include "millrace/nf/mappings/options.hpp"
#include "millrace/nf/mappings/port_group.hpp"

namespace millrace::nf::mappings {
namespace {

void put_address(uint32_t address, uint64_t& high, uint64_t&) { high = uint64_t{swap32(address)} << 32; }
void put_address(const Ipv6Address& address, uint64_t& high, uint64_t& low) {
    high = uint64_t{swap32(address.words[0])} << 32 | swap32(address.words[1]);
    low = uint64_t{swap32(address.words[2])} << 32 | swap32(address.words[3]);
}

/// As a firewall's rule would see it: from inside to whom it sent last.
template <class Address>
classify::HeaderKey header_of(const Mapping<Address>& mapping, const Address& peer, uint8_t protocol) {
    constexpr bool kIpv6 = std::is_same_v<Address, Ipv6Address>;
    classify::HeaderKey header;
    put_address(mapping.address, header.src_high, header.src_low);
    put_address(peer, header.dst_high, header.dst_low);
    header.ip_version = kIpv6 ? 6 : 4;
    header.protocol = kIpv6 && protocol == ip::kProtocolIcmp ? ip::kProtocolIcmpv6 : protocol;
    if (protocol != ip::kProtocolIcmp) header.has = classify::HeaderKey::kPorts;
    header.src_port = mapping.port;
    header.dst_port = mapping.peer_port;
    header.connection = (mapping.bits & Mapping<Address>::kAnswered) != 0 ? Connection::established
                                                                          : Connection::opening;
    return header;
}

template <class Address>
const char* state_of(const Mapping<Address>& mapping, uint8_t protocol) {
    if (protocol != ip::kProtocolTcp) return (mapping.bits & Mapping<Address>::kAnswered) != 0 ? "answered" : "new";
    return mapping.is_over() ? "over" : mapping.is_open() ? "open" : "opening";
}

}  // namespace

/// Rows that have as much of it are in the order of their ports, so that it is always the same.
template <class Address>
bool MappingList<Address>::Row::goes_before(const Row& other) const {
    if (most != other.most) return most > other.most;
    const auto place = [](const End& end) { return std::tuple(swap32(end.address), end.protocol, end.port); };
    return place(external) < place(other.external);
}

template <class Address>
void MappingList<Address>::add(const GroupKey& key, const PortGroup<Address>& group) {
    const auto protocol = static_cast<uint8_t>(key.group >> 16);
    for (uint64_t left = group.used; left != 0; left &= left - 1) {
        const uint32_t slot = lowest_bit(left);
        const Mapping<Address>& mapping = group.mappings[slot];
        const classify::HeaderKey header = header_of(mapping, peer_inside_(mapping.peer), protocol);
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

template <class Address>
std::vector<ShownTable::Value> MappingList<Address>::values_of(const Row& row) {
    const Mapping<Address>& mapping = row.mapping;
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

template <class Address>
ShownTable MappingList<Address>::take() {
    ShownTable shown{
        .columns = {"protocol", "source", "source-port", "external", "external-port", "destination", "destination-port",
                    "state", "packets", "bytes", "packets-back", "bytes-back", "duration-ms"},
        .rows = {},
        .total = total_};
    for (const Row& row : rows_.take()) shown.rows.push_back(values_of(row));
    return shown;
}

template class MappingList<uint32_t>;
template class MappingList<Ipv6Address>;

}  // namespace millrace::nf::mappings
