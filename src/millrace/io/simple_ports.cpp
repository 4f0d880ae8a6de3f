// Ports without an outside: `null` discards, `sink` counts and may keep a sample for checks.
#include <algorithm>

#include "millrace/io/port_plan.hpp"
#include "millrace/io/release.hpp"
#include "millrace/io/sink_port.hpp"

namespace millrace::io {

SinkPort::SinkPort(PortInfo info, size_t keep) : Port(std::move(info)), keep_(keep), kept_(info_.send_queues) {
    // What is kept is copied while packets flow, so room for it is taken now.
    for (Kept& queue : kept_) queue.frames.reserve(keep_);
}

uint16_t SinkPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    uint64_t bytes = 0;
    for (uint16_t i = 0; i < count; ++i) bytes += rte_pktmbuf_pkt_len(mbufs[i]);
    if (Kept& kept = kept_[queue]; kept.frames.size() < keep_) keep(kept, mbufs, count);
    sending(queue).count(count, bytes);
    release_packets(mbufs, count);
    return count;
}

void SinkPort::keep(Kept& kept, rte_mbuf** mbufs, uint16_t count) {
    for (uint16_t i = 0; i < count && kept.frames.size() < keep_; ++i) {
        SunkFrame frame{packet_number(mbufs[i]), packet_timestamp_ns(mbufs[i]), {}};
        for (const rte_mbuf* segment = mbufs[i]; segment != nullptr; segment = segment->next) {
            const uint8_t* data = rte_pktmbuf_mtod(segment, const uint8_t*);
            frame.bytes.insert(frame.bytes.end(), data, data + segment->data_len);
        }
        kept.frames.push_back(std::move(frame));
    }
}

std::vector<SunkFrame> SinkPort::sample() const {
    std::vector<SunkFrame> all;
    for (const Kept& queue : kept_) all.insert(all.end(), queue.frames.begin(), queue.frames.end());
    return all;
}

namespace {

/// The options of ports that only take packets: `queues`.
PortInfo sending_info(const PortPlan& plan) {
    PortInfo info = plan.info;
    info.send_queues = plan.queues;
    info.mtu = 65535;
    return info;
}

}  // namespace

OpenPort plan_null(const PortPlan& plan) {
    plan.only({});
    if (!plan.value.is_null()) plan.value.only({});
    return [info = sending_info(plan)] { return std::make_unique<SinkPort>(info, 0); };
}

OpenPort plan_sink(const PortPlan& plan) {
    plan.only({});
    plan.value.only({"keep"});
    const auto keep = static_cast<size_t>(plan.value.integer_or("keep", 0, 0, 1 << 20));
    return [info = sending_info(plan), keep] { return std::make_unique<SinkPort>(info, keep); };
}

}  // namespace millrace::io
