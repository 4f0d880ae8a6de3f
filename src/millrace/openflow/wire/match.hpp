// Matches in OpenFlow's bytes (OXM; 1.3.5, section 7.2.3).
#pragma once

#include "millrace/nf/switch/text/match_field.hpp"
#include "millrace/openflow/wire/bytes.hpp"

namespace millrace::openflow {

namespace flow_switch = nf::flow_switch;

/// Class of the fields, OFPXMC_OPENFLOW_BASIC.
inline constexpr uint16_t kBasicClass = 0x8000;

/// A field with its value and mask.
struct OxmField {
    const flow_switch::MatchField* field = nullptr;
    flow_switch::FieldValue value, mask;
};

/// Takes a match with its header and padding. Throws Error.
flow_switch::FlowMatch read_match(Reader& reader, const flow_switch::PortNumbers& ports);
void write_match(Writer& writer, const flow_switch::FlowMatch& match, const flow_switch::PortNumbers& ports);

/// A match of nothing but the port where a packet came in, by OpenFlow's number.
void write_in_port(Writer& writer, uint32_t port);

/// Takes one field; a mask where it has none is all ones. `bad_field` is thrown where the switch does not know it.
OxmField read_oxm(Reader& reader, Error bad_field, Error bad_length);
/// Its header and value, and the mask unless it is all ones.
void write_oxm(Writer& writer, const OxmField& oxm);
/// The header alone, as lists of fields have it.
void write_oxm_header(Writer& writer, const flow_switch::MatchField& field, bool mask);

}  // namespace millrace::openflow
