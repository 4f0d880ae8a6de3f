#include "millrace/io/capture/capture_port.hpp"

#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "millrace/io/wake_event.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/tunnels.hpp"

namespace millrace::io {

CapturePort::CapturePort(PortInfo info, const CaptureOptions& options, CaptureReader& reader, const PoolOptions& pool)
    : Port(std::move(info)), options_(options), pool_(info_.name, pool) {
    const CapturePacer pacer(options_, 1.0 / info_.receive_queues);
    for (uint16_t q = 0; q < info_.receive_queues; ++q) queues_.push_back(std::make_unique<Queue>(pacer));
    load(reader);
    for (const auto& queue : queues_) queue->done = queue->frames.empty();
}

void CapturePort::load(CaptureReader& reader) {
    CaptureRecord record;
    ReadyFrame frame;
    while (reader.next(record)) {
        ++records_;
        if (const auto reason = make_ready(reader, options_, pool_.max_frame_bytes(), record, frame)) {
            receiving(0).drop(*reason);
            continue;
        }
        const uint64_t offset = bytes_.size();
        if (offset + frame.length > kMaxBytes)
            throw ConfigError(Diagnostic{options_.where, options_.path + ": holds more than 8 GiB of frames",
                                         "read it with 'pcap' instead"});
        bytes_.resize(offset + frame.length);
        copy_frame(frame, &bytes_[offset]);
        padded_ += frame.padded ? 1 : 0;
        snapped_ += frame.snapped ? 1 : 0;
        ++packets_;
        const uint16_t queue = queues_.size() == 1 ? uint16_t{0} : queue_of(frame);
        queues_[queue]->frames.push_back({offset, frame.record.timestamp_ns, frame.record.number, frame.length});
    }
    if (!reader.error().empty()) {
        receiving(0).drop(PortDrop::read_error);
        trouble_ = reader.error();
    }
}

uint16_t CapturePort::queue_of(const ReadyFrame& frame) const {
    Packet packet;
    packet.attach(const_cast<uint8_t*>(&bytes_[bytes_.size() - frame.length]), frame.length, frame.length, 0, 0);
    packet.parse();
    return static_cast<uint16_t>(symmetric_flow_hash(packet) % queues_.size());
}

uint16_t CapturePort::receive(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count) {
    Queue& queue = *queues_[queue_number];
    if (queue.done.load(std::memory_order_relaxed)) return 0;
    // A burst ends with its round, so that one look at the end is enough.
    count = static_cast<uint16_t>(std::min<size_t>(queue.pacer.allowed(count), queue.frames.size() - queue.next));
    uint16_t due = 0;
    while (due < count && queue.pacer.is_due(queue.frames[queue.next + due].timestamp_ns)) ++due;
    while (due > 0 && !pool_.allocate(mbufs, due)) {
        due /= 2;
        if (due == 0) increase(queue.starved, 1);
    }
    if (due == 0) return 0;
    uint64_t bytes = 0;
    const uint64_t earlier_records = queue.rounds * records_;
    for (uint16_t i = 0; i < due; ++i) {
        const Frame& frame = queue.frames[queue.next + i];
        rte_mbuf* mbuf = mbufs[i];
        rte_prefetch0(&bytes_[frame.offset]);
        if (i + 1 < due) rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 1], uint8_t*));
        std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), &bytes_[frame.offset], frame.length);
        mbuf->pkt_len = frame.length;
        mbuf->data_len = static_cast<uint16_t>(frame.length);
        mbuf->port = info_.index;
        set_packet_metadata(mbuf, frame.timestamp_ns, earlier_records + frame.number);
        bytes += frame.length;
    }
    queue.next += due;
    queue.pacer.took(due);
    receiving(queue_number).count(due, bytes);
    if (queue.next == queue.frames.size()) {
        queue.next = 0;
        queue.pacer.restart();
        if (++queue.rounds >= options_.loops) queue.done.store(true, std::memory_order_release);
    }
    return due;
}

void CapturePort::begin_sleep(uint16_t queue_number, WakeUps& wake_ups) {
    const Queue& queue = *queues_[queue_number];
    wake_ups.poll();
    if (!queue.done.load(std::memory_order_relaxed))
        wake_ups.within(queue.pacer.until_due(queue.frames[queue.next].timestamp_ns));
}

bool CapturePort::exhausted() const {
    return std::all_of(queues_.begin(), queues_.end(),
                       [](const auto& queue) { return queue->done.load(std::memory_order_acquire); });
}

double CapturePort::progress() const {
    if (options_.loops == UINT64_MAX) return -1;
    if (packets_ == 0) return 1;
    return static_cast<double>(Port::counters().received_packets) /
           (static_cast<double>(packets_) * static_cast<double>(options_.loops));
}

PortCounters CapturePort::counters() const {
    PortCounters result = Port::counters();
    uint64_t starved = 0;
    for (const auto& queue : queues_) starved += queue->starved.load(std::memory_order_relaxed);
    const auto detail = [&](const char* name, uint64_t n) {
        if (n != 0) result.details[name] = n;
    };
    detail("padded", padded_);
    detail("snapped", snapped_);
    detail("pool-empty", starved);
    return result;
}

OpenPort plan_capture(const PortPlan& plan) {
    plan.only({});
    std::vector<std::string> keys = CaptureOptions::keys();
    keys.push_back("pcap");
    if (!plan.value.is_scalar()) plan.value.only(keys);
    const Config file = plan.value.is_scalar() ? plan.value : plan.value.at("pcap");
    const CaptureOptions options = CaptureOptions::read(plan.value.is_scalar() ? Config::parse("{}") : plan.value,
                                                        file);
    check_capture(options, plan);
    PortInfo info = plan.info;
    info.receive_queues = plan.queues;
    info.detail = options.path;
    return [plan, info, options]() -> std::unique_ptr<Port> {
        CaptureReader reader(options.path, options.where);
        const PoolOptions pool = plan.pool_for(longest_frame_of(reader, options, plan));
        return std::make_unique<CapturePort>(info, options, reader, pool);
    };
}

}  // namespace millrace::io
