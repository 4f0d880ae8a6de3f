// Multipart messages: what the switch is and what it has counted (OpenFlow 1.3.5, section 7.3.5).
#include <algorithm>
#include <functional>

#include "millrace/openflow/session/reply.hpp"
#include "millrace/openflow/session/session.hpp"
#include "millrace/openflow/wire/actions.hpp"

namespace millrace::openflow {
namespace {

using flow_switch::Control;
using flow_switch::FlowEntry;
using flow_switch::Group;
using flow_switch::Meter;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kNotCounted = ~uint64_t{0};
void write_age(Writer& writer, Clock::time_point since) {
    const uint64_t age = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since).count());
    writer.u32(age / 1'000'000'000).u32(age % 1'000'000'000);
}

void describe(Datapath& datapath, Reader&, Reply& reply) {
    const uint64_t id = datapath.control().address().datapath;
    reply.entry([&](Writer& writer) {
        writer.text("Millrace", 256)
            .text("CPUs and GPUs", 256)
            .text("Millrace " MILLRACE_VERSION, 256)
            .text("none", 32)
            .text("datapath " + std::to_string(id), 256);
    });
}

/// The flows that a flow or aggregate request asks for.
std::vector<FlowEntry> flows_of(Datapath& datapath, Reader& request) {
    const flow_switch::PortNumbers ports = datapath.control().ports();
    const uint8_t table = request.u8();
    request.skip(3);
    const uint32_t out_port = request.u32(), out_group = request.u32();
    request.skip(4);
    const uint64_t cookie = request.u64(), mask = request.u64();
    flow_switch::FlowMatch match = read_match(request, ports);
    if (table >= tables_of(datapath.control()) && table != 0xff) throw error::bad_table;
    if (table != 0xff) {
        match.value.table = table;
        match.mask.table = 0xff;
    }
    return datapath.control().flows(match, read_filter(out_port, out_group, cookie, mask, ports));
}

void flows(Datapath& datapath, Reader& request, Reply& reply) {
    const flow_switch::PortNumbers ports = datapath.control().ports();
    for (const auto& [flow, counts] : flows_of(datapath, request)) {
        reply.entry([&, &one = flow, &counted = counts](Writer& writer) {
            const size_t begin = writer.size();
            writer.u16(0).u8(one.table()).zeros(1);
            write_age(writer, one.life.begin);
            writer.u16(one.priority)
                .u16(one.idle_timeout)
                .u16(one.hard_timeout)
                .u16(one.flags)
                .zeros(4)
                .u64(one.cookie)
                .u64(counted.packets)
                .u64(counted.bytes);
            write_match(writer, one.match, ports);
            write_instructions(writer, one, ports);
            writer.set_u16(begin, writer.size() - begin);
        });
    }
}

void aggregate(Datapath& datapath, Reader& request, Reply& reply) {
    uint64_t packets = 0, bytes = 0;
    const std::vector<FlowEntry> entries = flows_of(datapath, request);
    for (const FlowEntry& entry : entries) {
        packets += entry.counts.packets;
        bytes += entry.counts.bytes;
    }
    reply.entry([&](Writer& writer) { writer.u64(packets).u64(bytes).u32(entries.size()).zeros(4); });
}

void tables(Datapath& datapath, Reader&, Reply& reply) {
    const auto one = [&](uint8_t table, const flow_switch::TableCounts& counts) {
        reply.entry([&](Writer& writer) {
            writer.u8(table).zeros(3).u32(counts.flows).u64(counts.lookups).u64(counts.matched);
        });
    };
    if (datapath.control().pipeline()) {
        const auto all = datapath.control().table_counts();
        for (unsigned table = 0; table < flow_switch::Flow::kTables; ++table) {
            const auto found = all.find(static_cast<uint8_t>(table));
            one(static_cast<uint8_t>(table), found == all.end() ? flow_switch::TableCounts{} : found->second);
        }
        return;
    }
    const Lookups lookups = datapath.lookups();
    one(0, {datapath.control().flow_count(), lookups.all, lookups.matched});
}

void port_stats(Datapath& datapath, Reader& request, Reply& reply) {
    const uint32_t number = request.u32();
    request.skip(4);
    bool any = number == port::kAny;
    for (const PortView& port : datapath.ports()) {
        if (number != port::kAny && number != port.number) continue;
        any = true;
        reply.entry([&](Writer& writer) {
            writer.u32(port.number)
                .zeros(4)
                .u64(port.received_packets)
                .u64(port.sent_packets)
                .u64(port.received_bytes)
                .u64(port.sent_bytes);
            writer.u64(port.receive_drops).u64(port.send_drops).u64(port.receive_errors).u64(port.send_errors);
            // Kinds of errors, collisions, and since when: not known.
            for (unsigned i = 0; i < 4; ++i) writer.u64(kNotCounted);
            writer.u32(0xffffffffu).u32(0xffffffffu);
        });
    }
    if (!any) throw error::bad_port;
}

void port_desc(Datapath& datapath, Reader&, Reply& reply) {
    for (const PortView& port : datapath.ports()) reply.entry([&](Writer& writer) { write_port(writer, port); });
}

void no_queues(Datapath&, Reader&, Reply&) {}

std::vector<Group> groups_of(Datapath& datapath, Reader& request) {
    const uint32_t id = request.u32();
    request.skip(4);
    std::vector<Group> groups = datapath.control().groups();
    std::erase_if(groups, [&](const Group& group) { return id != group::kAll && group.id != id; });
    return groups;
}

void group_stats(Datapath& datapath, Reader& request, Reply& reply) {
    for (const Group& group : groups_of(datapath, request)) {
        flow_switch::FlowFilter filter;
        filter.out_group = group.id;
        const size_t flows = datapath.control().flows({}, filter).size();
        reply.entry([&](Writer& writer) {
            writer.u16(40 + 16 * group.buckets.size())
                .zeros(2)
                .u32(group.id)
                .u32(flows)
                .zeros(4)
                .u64(kNotCounted)
                .u64(kNotCounted);
            write_age(writer, group.begin);
            for (size_t i = 0; i < group.buckets.size(); ++i) writer.u64(kNotCounted).u64(kNotCounted);
        });
    }
}

void group_desc(Datapath& datapath, Reader&, Reply& reply) {
    const flow_switch::PortNumbers ports = datapath.control().ports();
    for (const Group& group : datapath.control().groups()) {
        reply.entry([&](Writer& writer) {
            const size_t begin = writer.size();
            writer.u16(0).u8(static_cast<uint8_t>(group.type)).zeros(1).u32(group.id);
            write_buckets(writer, group, ports);
            writer.set_u16(begin, writer.size() - begin);
        });
    }
}

uint32_t bits_of(const std::vector<uint16_t>& numbers) {
    uint32_t bits = 0;
    for (const uint16_t number : numbers) bits |= 1u << number;
    return bits;
}

void group_features(Datapath& datapath, Reader&, Reply& reply) {
    constexpr uint32_t kTypes = 0b1111, kWeights = 1, kLiveness = 2;
    const uint32_t actions = bits_of(known_actions(datapath.control().pipeline())) & ~(1u << action::kGroup);
    reply.entry([&](Writer& writer) {
        writer.u32(kTypes).u32(kWeights | kLiveness);
        for (uint32_t type = 0; type < 4; ++type) writer.u32(Control::kMaxGroups);
        for (uint32_t type = 0; type < 4; ++type) writer.u32(actions);
    });
}

/// The meters that a request asks for. Throws Error where it asks for one that is not there.
std::vector<Meter> meters_of(Datapath& datapath, Reader& request) {
    const uint32_t id = request.u32();
    request.skip(4);
    std::vector<Meter> meters = datapath.control().meters();
    std::erase_if(meters, [&](const Meter& each) { return id != meter::kAll && each.id != id; });
    if (meters.empty() && id != meter::kAll) throw error::meter_unknown;
    return meters;
}

void meter_stats(Datapath& datapath, Reader& request, Reply& reply) {
    const Control& control = datapath.control();
    for (const Meter& meter : meters_of(datapath, request)) {
        const flow_switch::MeterCounts counts = control.meter_counts(meter.id);
        reply.entry([&](Writer& writer) {
            writer.u32(meter.id)
                .u16(40 + 16 * meter.bands.size())
                .zeros(6)
                .u32(control.flows_of_meter(meter.id))
                .u64(counts.packets)
                .u64(counts.bytes);
            write_age(writer, meter.begin);
            for (size_t i = 0; i < meter.bands.size(); ++i) {
                const flow_switch::MeterCounts band = control.band_counts(meter.id, i);
                writer.u64(band.packets).u64(band.bytes);
            }
        });
    }
}

void meter_config(Datapath& datapath, Reader& request, Reply& reply) {
    for (const Meter& meter : meters_of(datapath, request)) {
        reply.entry([&](Writer& writer) {
            const size_t begin = writer.size();
            writer.u16(0).u16(meter.flags).u32(meter.id);
            if (meter.from_controller) writer.bytes(std::string_view(meter.wire));
            else
                for (const Meter::Band& band : meter.bands)
                    writer.u16(band.precedence == 0 ? 1 : 2)
                        .u16(16)
                        .u32(band.rate)
                        .u32(band.burst)
                        .u8(band.precedence)
                        .zeros(3);
            writer.set_u16(begin, writer.size() - begin);
        });
    }
}

void meter_features(Datapath& datapath, Reader&, Reply& reply) {
    constexpr uint32_t kBands = 0b110, kFlags = 0b1111;  // drop and remark; all flags
    const bool any = datapath.control().pipeline();
    reply.entry([&](Writer& writer) {
        writer.u32(any ? Meter::kMaxMeters : 0)
            .u32(any ? kBands : 0)
            .u32(any ? kFlags : 0)
            .u8(any ? Meter::kMaxBands : 0)
            .u8(0xff)
            .zeros(2);
    });
}

constexpr struct {
    Multipart type;
    size_t bytes;  ///< of the request's body, at least
    bool exact;
    void (*answer)(Datapath&, Reader&, Reply&);
} kAnswers[] = {
    {Multipart::desc, 0, true, describe},
    {Multipart::flow, 40, false, flows},
    {Multipart::aggregate, 40, false, aggregate},
    {Multipart::table, 0, true, tables},
    {Multipart::port_stats, 8, true, port_stats},
    {Multipart::queue, 8, true, no_queues},
    {Multipart::group, 8, true, group_stats},
    {Multipart::group_desc, 0, true, group_desc},
    {Multipart::group_features, 0, true, group_features},
    {Multipart::meter, 8, true, meter_stats},
    {Multipart::meter_config, 8, true, meter_config},
    {Multipart::meter_features, 0, true, meter_features},
    {Multipart::table_features, 0, false, answer_table_features},
    {Multipart::port_desc, 0, true, port_desc},
};

}  // namespace

void answer_multipart(Datapath& datapath, uint32_t xid, ByteView body, Bytes& output) {
    Reader request(body, error::bad_length);
    const auto type = static_cast<Multipart>(request.u16());
    const uint16_t flags = request.u16();
    request.skip(4);
    const auto found = std::find_if(std::begin(kAnswers), std::end(kAnswers),
                                    [&](const auto& known) { return known.type == type; });
    if (found == std::end(kAnswers)) throw error::bad_multipart;
    if (type != Multipart::table_features && (flags & kMore) != 0)
        throw error::multipart_overflow;  // requests in one piece
    if (request.left() < found->bytes || (found->exact && request.left() != found->bytes)) throw error::bad_length;
    const size_t begin = output.size();
    try {
        Reply reply(type, xid, output);
        found->answer(datapath, request, reply);
    } catch (const Error&) {
        output.resize(begin);
        throw;
    }
}

void write_port(Writer& writer, const PortView& port) {
    constexpr uint32_t kLinkDown = 1, kLive = 4;  // OFPPS_…
    constexpr struct {
        uint32_t mbps, feature;  // OFPPF_…
    } kSpeeds[] = {{10, 1u << 1},     {100, 1u << 3},     {1000, 1u << 5},     {10'000, 1u << 6},
                   {40'000, 1u << 7}, {100'000, 1u << 8}, {1'000'000, 1u << 9}};
    const auto speed = std::find_if(std::begin(kSpeeds), std::end(kSpeeds),
                                    [&](const auto& known) { return known.mbps == port.speed_mbps; });
    const uint32_t feature = speed != std::end(kSpeeds) ? speed->feature : port.speed_mbps != 0 ? 1u << 10 : 0;
    writer.u32(port.number)
        .zeros(4)
        .bytes(ByteView(port.mac))
        .zeros(2)
        .text(port.name, 16)
        .u32(0)
        .u32(port.up ? kLive : kLinkDown);
    writer.u32(feature).u32(0).u32(feature).u32(0).u32(port.speed_mbps * 1000).u32(port.speed_mbps * 1000);
}

}  // namespace millrace::openflow
