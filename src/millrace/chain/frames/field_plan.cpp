#include "millrace/chain/frames/field_plan.hpp"

#include <algorithm>

namespace millrace::chain {
namespace {

/// A change of length moves the bytes behind it, so all that lies in the frame counts as written.
Fields dirtied_by(Fields writes) { return writes.overlaps(field::length) ? field::everything : writes - field::length; }

}  // namespace

Fields FieldPlan::to_device_total() const {
    Fields total;
    for (const Step& step : before) total |= step.to_device;
    return total;
}

Fields FieldPlan::to_host_total() const {
    Fields total = at_end;
    for (const Step& step : before) total |= step.to_host;
    return total;
}

FieldPlan plan_fields(const std::vector<FieldUse>& uses) {
    FieldPlan plan;
    // Fields whose newest value is missing on that side. A packet arrives in host memory.
    Fields stale_on_device = field::everything;
    Fields stale_on_host;
    bool device_used = false;
    for (const FieldUse& use : uses) {
        FieldPlan::Step step;
        Fields device_reads = use.device_reads - field::length;
        const bool on_device = !(use.device_reads | use.device_writes).empty();
        // The device parses what it is given, once; a write of part of the frame needs the place to write to.
        if (on_device && !device_used) device_reads |= field::parsed;
        device_used |= on_device;
        plan.whole_frames |= use.keeps_state;
        plan.least_head = std::max(plan.least_head, use.least_head);
        // Writing a length moves the rest of the frame, so the rest must be there.
        if (use.device_writes.overlaps(field::length)) device_reads |= field::everything;
        Fields host_reads = use.host_reads - field::length;
        if (use.host_writes.overlaps(field::length)) host_reads |= field::everything;

        step.to_host = host_reads & stale_on_host;
        stale_on_host = stale_on_host - step.to_host;
        const Fields host_writes = dirtied_by(use.host_writes);
        stale_on_device |= host_writes;
        stale_on_host = stale_on_host - host_writes;

        step.to_device = device_reads & stale_on_device;
        // What the host lacks itself it cannot give.
        stale_on_device = stale_on_device - step.to_device;
        const Fields device_writes = dirtied_by(use.device_writes);
        stale_on_host |= device_writes;
        stale_on_device = stale_on_device - device_writes;
        plan.before.push_back(step);
    }
    plan.at_end = stale_on_host;
    return plan;
}

FieldPlan plan_everything(const std::vector<FieldUse>& uses) {
    FieldPlan plan;
    Fields device_newer;
    for (const FieldUse& use : uses) {
        FieldPlan::Step step;
        if (!(use.host_reads | use.host_writes).empty()) {
            step.to_host = device_newer;
            device_newer = field::none;
        }
        if (!(use.device_reads | use.device_writes).empty()) {
            step.to_device = field::everything - device_newer;
            device_newer = field::everything;
        }
        plan.before.push_back(step);
    }
    plan.at_end = device_newer;
    return plan;
}

uint32_t prefix_bytes(Fields fields) {
    if (fields.overlaps(field::payload | field::length | field::ip_options | field::tcp_options)) {
        // Options are read for parsing only where they exist; a field plan with `parsed` alone does not ask for them.
        if (fields.overlaps(field::payload | field::length | field::tcp_options)) return kWholeFrame;
    }
    // Ends of the fields in the longest plain layout: Ethernet, one VLAN tag, IPv6, TCP.
    constexpr uint32_t kL3 = 18, kL4 = kL3 + 40;
    constexpr struct {
        Fields fields;
        uint32_t end;
    } kEnds[] = {
        {field::eth_dst, 6},
        {field::eth_src, 12},
        {field::eth_type, 18},
        {field::vlan, 18},
        {field::ip_version | field::ip_tos, kL3 + 4},
        {field::ip_length | field::ip_id | field::ip_fragment | field::ip_ttl | field::ip_protocol, kL3 + 10},
        {field::ip_checksum, kL3 + 12},
        {field::ip_src, kL3 + 24},
        {field::ip_dst, kL3 + 40},
        {field::l4_src_port | field::l4_dst_port, kL4 + 4},
        {field::icmp_type | field::icmp_rest | field::udp_length | field::tcp_seq, kL4 + 8},
        {field::tcp_ack, kL4 + 12},
        {field::tcp_flags, kL4 + 14},
        {field::tcp_window, kL4 + 16},
        {field::l4_checksum, kL4 + 18},
    };
    uint32_t end = 0;
    for (const auto& entry : kEnds)
        if (fields.overlaps(entry.fields)) end = std::max(end, entry.end);
    // The bus and the memory of a device like multiples of 16.
    return (end + 15) / 16 * 16;
}

std::string field_names(Fields fields) {
    if (fields.empty()) return "nothing";
    if (fields.contains(field::everything)) return "whole frame";
    std::string text;
    const auto add = [&text](const char* name) { text += std::string(text.empty() ? "" : ", ") + name; };
    // Whole layers by one name.
    constexpr struct {
        Fields fields;
        const char* name;
    } kLayers[] = {{field::ethernet, "eth.*"}, {field::ip, "ip.*"}, {field::l4, "l4.*"}};
    for (const auto& layer : kLayers) {
        if (!fields.contains(layer.fields)) continue;
        add(layer.name);
        fields = fields - layer.fields;
    }
    for (unsigned bit = 0; bit < kFieldCount; ++bit)
        if (fields.bits & (1u << bit)) add(kFieldNames[bit]);
    return text;
}

}  // namespace millrace::chain
