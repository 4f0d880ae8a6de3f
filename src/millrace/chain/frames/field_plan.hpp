// What must cross the bus for a chain, and when (Gaviss, section 4.3, Algorithm 1).
//
// Host and device each hold a copy of every packet. An NF reads and writes fields on the host, on
// the device, or on both; a field that one side has written is stale on the other until it is
// synchronised. The plan brings a field across just before the first NF that reads it there, and
// back at the end, and not otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/packet/fields.hpp"

namespace millrace::chain {

/// What one NF of a chain reads and writes on either side.
struct FieldUse {
    Fields host_reads, host_writes;
    Fields device_reads, device_writes;
    /// It has state on the device: no packet of it may be decided elsewhere, however long its headers are.
    bool keeps_state = false;
    /// If only heads of frames cross, they have so many bytes at least where headers may be longer than most.
    uint32_t least_head = 0;

    /// Of an NF that runs on a device. One that looks at no field needs a parsed packet all the same: without its
    /// headers a device could not tell whether it is malformed, and would leave each to the CPU.
    static FieldUse on_device(Fields reads, Fields writes, bool keeps_state = false) {
        return {{}, {}, reads | field::parsed, writes, keeps_state};
    }
};

/// The transfers of one chain. `length` stands for a change of the frame's length, which moves every
/// field: it makes all of them dirty.
struct FieldPlan {
    /// Before NF i runs: fields to bring to the device, fields to bring to the host.
    struct Step {
        Fields to_device, to_host;
    };
    std::vector<Step> before;
    /// After the last NF, to the host, so that the packet can be sent.
    Fields at_end;
    /// Frames cross as a whole, whatever fields are asked for, if they cross.
    bool whole_frames = false;
    /// Heads of frames have so many bytes at least in batches with a packet whose headers are longer than most.
    uint32_t least_head = 0;
    /// All that ever goes to the device: what the first transfer brings when everything runs there.
    Fields to_device_total() const;
    Fields to_host_total() const;
};

/// Algorithm 1. At the start the host has every field and the device none.
///
/// Beyond the paper: a field that was written on one side and then on the other is stale only on the
/// first; writing part of a packet does not make the rest valid; and what the parser needs goes
/// along with the first transfer to the device.
FieldPlan plan_fields(const std::vector<FieldUse>& uses);

/// The plan that synchronises every field before every NF: the comparison ("no sharing" moves this much).
FieldPlan plan_everything(const std::vector<FieldUse>& uses);

/// How many bytes from the start of the frame hold `fields` in a frame with up to one VLAN tag, IPv4
/// without options or IPv6 without extension headers, and TCP, UDP or ICMP; the whole frame
/// (kWholeFrame) when the payload, options or a change of length is among them. Frames of other layouts whose headers
/// reach further than what crosses are decided on the host.
inline constexpr uint32_t kWholeFrame = 0xffffffffu;
uint32_t prefix_bytes(Fields fields);

/// "ip.ttl, ip.checksum", "whole frame", "nothing".
std::string field_names(Fields fields);

}  // namespace millrace::chain
