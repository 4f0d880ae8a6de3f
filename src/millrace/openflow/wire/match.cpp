#include "millrace/openflow/wire/match.hpp"

namespace millrace::openflow {
namespace {

using flow_switch::FieldValue;
using flow_switch::FlowMatch;
using flow_switch::MatchField;
using flow_switch::PortNumbers;

constexpr uint16_t kOxmMatch = 1;  // OFPMT_OXM
constexpr uint8_t kInPort = 0;     // OFPXMT_OFB_IN_PORT
constexpr uint8_t kVlanId = 6;     // OFPXMT_OFB_VLAN_VID

FieldValue read_value(Reader& reader, size_t bytes) {
    FieldValue value;
    if (bytes == 16) value.high = reader.u64();
    value.low = reader.number(bytes == 16 ? 8 : bytes);
    return value;
}

void write_value(Writer& writer, FieldValue value, size_t bytes) {
    if (bytes == 16) writer.u64(value.high);
    writer.number(value.low, bytes == 16 ? 8 : bytes);
}

/// A value that no packet has would make a flow that nobody understands.
void check_value(const OxmField& oxm) {
    if ((oxm.value & ~oxm.mask).any()) throw error::match_wildcards;
    if ((oxm.value & ~oxm.field->all_ones()).any()) throw error::match_value;
    const uint16_t tagged = nf::classify::FlowFields::kTagged;
    if (oxm.field->oxm == kVlanId && oxm.value.any() && (oxm.mask.low & tagged) != 0 && (oxm.value.low & tagged) == 0)
        throw error::match_value;
}

}  // namespace

OxmField read_oxm(Reader& reader, Error bad_field, Error bad_length) {
    const uint16_t oxm_class = reader.u16();
    const uint8_t number = reader.u8();
    const size_t length = reader.u8();
    const bool masked = (number & 1) != 0;
    if (oxm_class != kBasicClass) throw bad_field;
    OxmField oxm{flow_switch::find_match_field(number >> 1), {}, {}};
    if (oxm.field == nullptr) throw bad_field;
    if (length != oxm.field->bytes * (masked ? 2u : 1u)) throw bad_length;
    oxm.value = read_value(reader, oxm.field->bytes);
    oxm.mask = masked ? read_value(reader, oxm.field->bytes) : oxm.field->all_ones();
    return oxm;
}

FlowMatch read_match(Reader& reader, const PortNumbers& ports) {
    const uint16_t type = reader.u16();
    const uint16_t length = reader.u16();
    if (type != kOxmMatch) throw error::match_type;
    if (length < 4) throw error::match_length;
    Reader fields = reader.part(length - 4u, error::match_length);
    reader.skip((8 - length % 8) % 8);
    FlowMatch match;
    while (fields.left() > 0) {
        OxmField oxm = read_oxm(fields, error::match_field, error::match_length);
        if (oxm.field->get(match.mask).any()) throw error::match_twice;
        if (!flow_switch::meets(oxm.field->need, match)) throw error::match_need;
        check_value(oxm);
        if (oxm.field->oxm == kInPort) {
            if (oxm.mask != oxm.field->all_ones()) throw error::match_mask;
            const auto port = ports.by_number().find(static_cast<uint32_t>(oxm.value.low));
            if (port == ports.by_number().end()) throw error::match_value;
            oxm.value.low = port->second;
        }
        oxm.field->put(match.value, oxm.value);
        oxm.field->put(match.mask, oxm.mask);
    }
    if (match.mask.l4_src != 0 || match.mask.l4_dst != 0)
        match.value.has = match.mask.has = nf::classify::HeaderKey::kPorts;
    return match;
}

void write_oxm_header(Writer& writer, const MatchField& field, bool mask) {
    writer.u16(kBasicClass).u8(field.oxm << 1 | (mask ? 1 : 0)).u8(field.bytes * (mask ? 2u : 1u));
}

void write_oxm(Writer& writer, const OxmField& oxm) {
    const bool masked = oxm.mask != oxm.field->all_ones();
    write_oxm_header(writer, *oxm.field, masked);
    write_value(writer, oxm.value, oxm.field->bytes);
    if (masked) write_value(writer, oxm.mask, oxm.field->bytes);
}

namespace {

template <class WriteFields>
void write_any_match(Writer& writer, WriteFields&& write_fields) {
    const size_t begin = writer.size();
    writer.u16(kOxmMatch).u16(0);
    write_fields();
    writer.set_u16(begin + 2, writer.size() - begin);
    writer.pad_to_8(begin);
}

}  // namespace

void write_match(Writer& writer, const FlowMatch& match, const PortNumbers& ports) {
    write_any_match(writer, [&] {
        flow_switch::for_each_field(match, [&](const MatchField& field, FieldValue value, FieldValue mask) {
            if (field.oxm == kInPort) value.low = ports.number(static_cast<uint16_t>(value.low));
            write_oxm(writer, {&field, value, mask});
        });
    });
}

void write_in_port(Writer& writer, uint32_t port) {
    write_any_match(writer, [&] {
        const MatchField& field = *flow_switch::find_match_field(kInPort);
        write_oxm(writer, {&field, {0, port}, field.all_ones()});
    });
}

}  // namespace millrace::openflow
