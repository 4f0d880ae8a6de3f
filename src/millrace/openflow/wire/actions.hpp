// Actions, instructions and buckets in OpenFlow's bytes (1.3.5, sections 7.2.4, 7.2.5 and 7.3.4.3).
#pragma once

#include "millrace/nf/switch/actions/instructions.hpp"
#include "millrace/openflow/wire/match.hpp"

namespace millrace::openflow {

/// Reads the actions that fill `bytes`. `match` says which packets come; null for any (groups, packets that are there).
/// `to_table` is set where one outputs to OFPP_TABLE, and null where that is not allowed. Throws Error.
std::vector<flow_switch::Action> read_actions(ByteView bytes, const flow_switch::FlowMatch* match,
                                              const flow_switch::PortNumbers& ports, bool* to_table = nullptr);

/// Reads the instructions of a flow in `table` that fill `bytes`, as one list (flow_switch::compile).
std::vector<flow_switch::Action> read_instructions(ByteView bytes, uint8_t table, const flow_switch::FlowMatch& match,
                                                   const flow_switch::PortNumbers& ports);

/// Reads the buckets that fill `bytes` into the group, whose type is known.
void read_buckets(ByteView bytes, flow_switch::Group& group, const flow_switch::PortNumbers& ports);

/// Of a flow: as its controller wrote them, or else what comes to the same.
void write_instructions(Writer& writer, const flow_switch::Flow& flow, const flow_switch::PortNumbers& ports);
void write_buckets(Writer& writer, const flow_switch::Group& group, const flow_switch::PortNumbers& ports);

/// What of each there is, for those who ask: with a pipeline, or without.
std::vector<uint16_t> known_actions(bool pipeline);
std::vector<uint16_t> known_instructions(bool pipeline);

}  // namespace millrace::openflow
