// Ports without an outside: `null` discards, `sink` counts and may keep a sample for checks.
#include <algorithm>

#include "millrace/io/clock.hpp"
#include "millrace/io/port_plan.hpp"
#include "millrace/io/release.hpp"
#include "millrace/io/sink_port.hpp"

namespace millrace::io {

SinkPort::SinkPort(PortInfo info, const SinkOptions& options)
    : Port(std::move(info)), options_(options), queues_(info_.send_queues) {
    for (Queue& queue : queues_) {
        // What is kept is copied while packets flow, so room for it is taken now.
        queue.frames.reserve(options_.keep);
        if (options_.latency) queue.latency = std::make_unique<Histogram>();
    }
}

uint16_t SinkPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    uint64_t bytes = 0;
    for (uint16_t i = 0; i < count; ++i) bytes += rte_pktmbuf_pkt_len(mbufs[i]);
    Queue& own = queues_[queue];
    if (own.frames.size() < options_.keep) keep(own, mbufs, count);
    if (own.latency != nullptr) {
        const uint64_t now = wall_clock_ns();
        for (uint16_t i = 0; i < count; ++i) {
            const uint64_t since = packet_timestamp_ns(mbufs[i]);
            own.latency->record(now > since ? now - since : 0);
        }
    }
    sending(queue).count(count, bytes);
    release_packets(mbufs, count);
    return count;
}

void SinkPort::keep(Queue& queue, rte_mbuf** mbufs, uint16_t count) {
    for (uint16_t i = 0; i < count && queue.frames.size() < options_.keep; ++i) {
        if (options_.sample && !in_sample(packet_number(mbufs[i]))) continue;
        SunkFrame frame{packet_number(mbufs[i]), packet_timestamp_ns(mbufs[i]), {}};
        for (const rte_mbuf* segment = mbufs[i]; segment != nullptr; segment = segment->next) {
            const uint8_t* data = rte_pktmbuf_mtod(segment, const uint8_t*);
            frame.bytes.insert(frame.bytes.end(), data, data + segment->data_len);
        }
        queue.frames.push_back(std::move(frame));
    }
}

namespace {

/// Counts how old the frames are. Each of a run is so much younger than the one before, so that neighbours are counted
/// together.
void record(Histogram& latency, const ReceiveBlock& block, std::span<const FramePieces> frames) {
    const uint64_t now = wall_clock_ns();
    for (size_t i = 0; i < frames.size();) {
        const uint64_t since = block.timestamp_ns(frames[i].index), age = now > since ? now - since : 0;
        const unsigned bucket = Histogram::bucket_of(age);
        const uint64_t least = bucket == 0 ? 0 : Histogram::bucket_top(bucket - 1) + 1;
        const uint64_t behind = block.interval_ns == 0 ? UINT32_MAX : (age - least) / block.interval_ns,
                       last = frames[i].index + behind;
        const size_t first = i;
        while (++i < frames.size() && frames[i].index <= last) {
        }
        latency.record(age, i - first);
    }
}

}  // namespace

size_t SinkPort::send_frames(uint16_t queue, const ReceiveBlock& block, std::span<const FramePieces> frames) {
    uint64_t bytes = 0;
    for (const FramePieces& frame : frames) bytes += frame.bytes();
    Queue& own = queues_[queue];
    if (own.frames.size() < options_.keep) keep(own, block, frames);
    if (own.latency != nullptr) record(*own.latency, block, frames);
    sending(queue).count(frames.size(), bytes);
    return frames.size();
}

void SinkPort::keep(Queue& queue, const ReceiveBlock& block, std::span<const FramePieces> frames) {
    for (const FramePieces& piece : frames) {
        if (options_.sample && !in_sample(block.number(piece.index)))
            continue;  // most are not, so that this comes first
        if (queue.frames.size() == options_.keep) return;
        SunkFrame frame{
            block.number(piece.index), block.timestamp_ns(piece.index), {piece.head, piece.head + piece.head_bytes}};
        frame.bytes.insert(frame.bytes.end(), piece.rest, piece.rest + piece.rest_bytes);
        queue.frames.push_back(std::move(frame));
    }
}

std::vector<SunkFrame> SinkPort::sample() const {
    std::vector<SunkFrame> all;
    for (const Queue& queue : queues_) all.insert(all.end(), queue.frames.begin(), queue.frames.end());
    return all;
}

void SinkPort::add_latency_to(std::array<uint64_t, Histogram::kBuckets>& sums) const {
    for (const Queue& queue : queues_)
        if (queue.latency != nullptr) queue.latency->add_to(sums);
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
    return [info = sending_info(plan)] { return std::make_unique<SinkPort>(info, SinkOptions{}); };
}

OpenPort plan_sink(const PortPlan& plan) {
    plan.only({});
    plan.value.only({"keep", "sample", "latency"});
    SinkOptions options;
    options.keep = static_cast<size_t>(plan.value.integer_or("keep", 0, 0, 1 << 20));
    options.sample = plan.value.boolean_or("sample", false);
    options.latency = plan.value.boolean_or("latency", false);
    return [info = sending_info(plan), options] { return std::make_unique<SinkPort>(info, options); };
}

}  // namespace millrace::io
