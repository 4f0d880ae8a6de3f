#include "millrace/nf/ipfix/message.hpp"

#include <algorithm>

namespace millrace::nf::ipfix {
namespace {

constexpr uint16_t kVersion = 10;
constexpr uint16_t kVariable = 0xffff;  ///< length of a field whose records say how long it is

struct Field {
    uint16_t element, bytes;
};

// Numbers of information elements are IANA's.
constexpr Field kProtocolIdentifier{4, 1}, kClassOfService{5, 1}, kTcpControlBits{6, 2}, kSourcePort{7, 2},
    kSourceIpv4{8, 4}, kIngressInterface{10, 4}, kDestinationPort{11, 2}, kDestinationIpv4{12, 4},
    kEgressInterface{14, 4}, kSourceIpv6{27, 16}, kDestinationIpv6{28, 16}, kIcmpIpv4{32, 2}, kVlanId{58, 2},
    kEndReason{136, 1}, kIcmpIpv6{139, 2}, kStartMilliseconds{152, 8}, kEndMilliseconds{153, 8}, kOctetDelta{1, 8},
    kPacketDelta{2, 8};

constexpr Field kIpv4Fields[] = {
    kSourceIpv4,      kDestinationIpv4, kSourcePort,  kDestinationPort,  kProtocolIdentifier, kClassOfService,
    kTcpControlBits,  kIcmpIpv4,        kVlanId,      kIngressInterface, kEgressInterface,    kStartMilliseconds,
    kEndMilliseconds, kOctetDelta,      kPacketDelta, kEndReason};
constexpr Field kIpv6Fields[] = {
    kSourceIpv6,      kDestinationIpv6, kSourcePort,  kDestinationPort,  kProtocolIdentifier, kClassOfService,
    kTcpControlBits,  kIcmpIpv6,        kVlanId,      kIngressInterface, kEgressInterface,    kStartMilliseconds,
    kEndMilliseconds, kOctetDelta,      kPacketDelta, kEndReason};
/// observationDomainId (the scope), exportedMessageTotalCount, exportedFlowRecordTotalCount, exportedOctetTotalCount,
/// ignoredPacketTotalCount, notSentFlowTotalCount, notSentPacketTotalCount, notSentOctetTotalCount.
constexpr Field kStatisticsFields[] = {{149, 4}, {41, 8}, {42, 8}, {40, 8}, {164, 8}, {166, 8}, {167, 8}, {168, 8}};
/// ingressInterface (the scope), interfaceName.
constexpr Field kInterfaceFields[] = {kIngressInterface, {82, kVariable}};

void write_fields(std::span<const Field> fields, Bytes& to) {
    for (const Field& field : fields) {
        to.put(field.element);
        to.put(field.bytes);
    }
}

/// 0 is no interface: they count from 1.
uint32_t interface_of(uint16_t port) { return port == kNoPort || is_port_set(port) ? 0 : port + 1u; }

constexpr uint64_t kMillisecond = 1'000'000;

}  // namespace

void Message::clear() {
    bytes_.clear();
    bytes_.put(kVersion);
    bytes_.put(uint16_t{0});
    bytes_.put(uint32_t{0});
    bytes_.put(uint32_t{0});
    bytes_.put(domain_);
    set_at_ = 0;
    data_records_ = 0;
}

bool Message::add(uint16_t set, std::span<const uint8_t> record) {
    const bool opens = set_at_ == 0 || set != set_;
    if (bytes_.size() + (opens ? kSetHeaderBytes : 0) + record.size() > most_) return false;
    if (opens) {
        close_set();
        set_ = set;
        set_at_ = bytes_.size();
        bytes_.put(set);
        bytes_.put(uint16_t{0});
    }
    bytes_.put_raw(record.data(), record.size());
    data_records_ += set >= kIpv4Flow;
    return true;
}

void Message::close_set() {
    if (set_at_ != 0) bytes_.set16(set_at_ + 2, static_cast<uint16_t>(bytes_.size() - set_at_));
    set_at_ = 0;
}

std::span<const uint8_t> Message::finish(uint32_t export_seconds, uint32_t sequence) {
    close_set();
    bytes_.set16(2, static_cast<uint16_t>(bytes_.size()));
    bytes_.set32(4, export_seconds);
    bytes_.set32(8, sequence);
    return bytes_.view();
}

void write_template(TemplateId id, Bytes& to) {
    const std::span<const Field> fields = id == kIpv4Flow ? std::span<const Field>(kIpv4Fields) : kIpv6Fields;
    to.put(static_cast<uint16_t>(id));
    to.put(static_cast<uint16_t>(fields.size()));
    write_fields(fields, to);
}

void write_options_template(TemplateId id, Bytes& to) {
    const std::span<const Field> fields = id == kStatistics ? std::span<const Field>(kStatisticsFields)
                                                            : kInterfaceFields;
    to.put(static_cast<uint16_t>(id));
    to.put(static_cast<uint16_t>(fields.size()));
    to.put(uint16_t{1});  // fields of the scope
    write_fields(fields, to);
}

TemplateId write_flow(const Note& note, Bytes& to) {
    const auto& [count, key, reason] = note;
    const size_t address_bytes = key.is_ipv6 != 0 ? 16 : 4;
    to.put_raw(key.source, address_bytes);
    to.put_raw(key.destination, address_bytes);
    to.put(key.source_port);
    to.put(key.destination_port);
    to.put(key.protocol);
    to.put(count.tos);
    to.put(static_cast<uint16_t>(count.tcp_flags));
    to.put(key.icmp);
    to.put(key.vlan);
    to.put(interface_of(key.in_port));
    to.put(interface_of(count.out_port));
    to.put(count.first_ns / kMillisecond);
    to.put(count.last_ns / kMillisecond);
    to.put(count.octets);
    to.put(count.packets);
    to.put(static_cast<uint8_t>(reason));
    return key.is_ipv6 != 0 ? kIpv6Flow : kIpv4Flow;
}

void write_statistics(uint32_t domain, const ExporterCounts& counts, Bytes& to) {
    to.put(domain);
    for (const uint64_t count : {counts.messages, counts.records, counts.octets, counts.ignored_packets,
                                 counts.unsent_records, counts.unsent_packets, counts.unsent_octets})
        to.put(count);
}

void write_interface(uint16_t port, std::string_view name, Bytes& to) {
    constexpr size_t kMaxShort = 254;  // of a length of one byte (RFC 7011, section 7)
    to.put(interface_of(port));
    to.put(static_cast<uint8_t>(std::min(name.size(), kMaxShort)));
    to.put_raw(name.data(), std::min(name.size(), kMaxShort));
}

}  // namespace millrace::nf::ipfix
