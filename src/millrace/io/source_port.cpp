#include "millrace/io/source_port.hpp"

#include <rte_prefetch.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "millrace/io/clock.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {
namespace {

constexpr uint16_t kPrefetchAhead = 6;

/// A free mbuf made to hold one frame. Two wide stores cover every field that receivers set; nb_segs,
/// next and refcnt are right in free mbufs.
inline void dress(rte_mbuf* mbuf, uint32_t length, uint16_t headroom, uint16_t port) {
    mbuf->data_off = headroom;
    rte_mbuf_refcnt_set(mbuf, 1);
    mbuf->nb_segs = 1;
    mbuf->port = port;
    mbuf->ol_flags = 0;
    mbuf->packet_type = 0;
    mbuf->pkt_len = length;
    mbuf->data_len = static_cast<uint16_t>(length);
    mbuf->vlan_tci = 0;
}

}  // namespace

SourcePort::SourcePort(PortInfo info, const TrafficSpec& spec, const SourceOptions& options, const PoolOptions& pool)
    : Port(std::move(info)), options_(options),
      active_queues_(static_cast<uint16_t>(std::min<uint32_t>(info_.receive_queues, spec.flows))) {
    const bool one_payload = options.restore == SourceOptions::Restore::headers;
    for (uint16_t q = 0; q < info_.receive_queues; ++q) {
        auto queue = std::make_unique<Queue>();
        queue->index = q;
        queue->done = q >= active_queues_;
        if (q < active_queues_) {
            PoolOptions own = pool;
            own.packets = std::max(pool.packets / active_queues_, 1u);
            queue->pool = std::make_unique<PacketPool>(info_.name, own);
            queue->frames = make_frames(spec, q, active_queues_, one_payload);
            if (one_payload) fill_payloads(*queue);
            if (options.restore == SourceOptions::Restore::nothing) fill_buffers(*queue);
            if (options.count) queue->limit = *options.count / active_queues_ + (q < *options.count % active_queues_ ? 1 : 0);
            queue->done = queue->limit == 0;
            queue->pacer = Pacer(options.packets_per_second / active_queues_);
        }
        queues_.push_back(std::move(queue));
    }
}

void SourcePort::fill_payloads(Queue& queue) {
    PacketPool& pool = *queue.pool;
    std::vector<rte_mbuf*> all(pool.packets());
    size_t taken = 0;
    while (taken < all.size() && pool.allocate(&all[taken], 1)) ++taken;
    const TrafficFrames& frames = queue.frames;
    // Behind the headers the stream begins anew in every frame, so any long template shows all of it.
    const uint32_t from = frames.templates[0].payload_at;
    const uint32_t room = pool.max_frame_bytes();
    for (size_t i = 0; i < taken; ++i)
        if (room > FrameTemplate::kHeadBytes)
            std::memcpy(rte_pktmbuf_mtod(all[i], uint8_t*) + FrameTemplate::kHeadBytes, &frames.stream[from],
                        std::min<size_t>(room - FrameTemplate::kHeadBytes, frames.stream.size() - from));
    rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(taken));
}

void SourcePort::fill_buffers(Queue& queue) {
    PacketPool& pool = *queue.pool;
    std::vector<rte_mbuf*> all(pool.packets());
    size_t taken = 0;
    while (taken < all.size() && pool.allocate(&all[taken], 1)) ++taken;
    queue.lengths.resize(pool.packets());
    for (uint32_t i = 0; i < pool.packets(); ++i) {
        const size_t frame = i % queue.frames.templates.size();
        queue.lengths[i] = static_cast<uint16_t>(queue.frames.templates[frame].length);
        queue.frames.write(frame, reinterpret_cast<uint8_t*>(pool.at(i) + 1) + pool.headroom_bytes());
    }
    rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(taken));
}

uint16_t SourcePort::allowed(Queue& queue, uint16_t count) {
    if (options_.duration_ns) {
        const uint64_t now = rte_rdtsc();
        if (queue.end_tsc == 0)
            queue.end_tsc = now + static_cast<uint64_t>(static_cast<double>(*options_.duration_ns) * 1e-9 *
                                                        static_cast<double>(rte_get_tsc_hz()));
        if (now >= queue.end_tsc) {
            queue.done.store(true, std::memory_order_release);
            return 0;
        }
    }
    count = static_cast<uint16_t>(std::min<uint64_t>(count, queue.limit - queue.sent));
    return queue.pacer.due(count);
}

uint16_t SourcePort::receive(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count) {
    Queue& queue = *queues_[queue_number];
    if (queue.done.load(std::memory_order_relaxed)) return 0;
    count = allowed(queue, count);
    if (count == 0) return 0;
    while (!queue.pool->allocate_raw(mbufs, count)) {
        count /= 2;
        if (count == 0) {
            queue.starved.store(queue.starved.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            return 0;
        }
    }
    const uint64_t bytes = options_.restore == SourceOptions::Restore::nothing ? hand_out(queue, mbufs, count) : write_out(queue, mbufs, count);
    queue.sent += count;
    queue.pacer.took(count);
    receiving(queue_number).count(count, bytes);
    if (queue.sent == queue.limit) queue.done.store(true, std::memory_order_release);
    return count;
}

/// Writes each packet's headers, and its payload if asked to.
uint64_t SourcePort::write_out(Queue& queue, rte_mbuf** mbufs, uint16_t count) {
    const uint64_t now = wall_clock_ns();
    const auto headroom = static_cast<uint16_t>(queue.pool->headroom_bytes());
    const bool whole = options_.restore == SourceOptions::Restore::all;
    const FrameTemplate* templates = queue.frames.templates.data();
    const size_t n_templates = queue.frames.templates.size();
    const uint8_t* stream = queue.frames.stream.data();
    size_t next = queue.next;
    uint64_t bytes = 0;
    uint64_t number = first_number(queue);
    for (uint16_t i = 0; i < count; ++i) {
        if (i + kPrefetchAhead < count) {
            rte_mbuf* ahead = mbufs[i + kPrefetchAhead];
            rte_prefetch0(ahead);
            rte_prefetch0(&ahead->dynfield1);
            rte_prefetch0(reinterpret_cast<uint8_t*>(ahead + 1) + headroom);
        }
        rte_mbuf* mbuf = mbufs[i];
        const FrameTemplate& frame = templates[next];
        if (++next == n_templates) next = 0;
        dress(mbuf, frame.length, headroom, info_.index);
        set_packet_metadata(mbuf, now, number);
        number += active_queues_;
        // The buffer follows the mbuf at a fixed distance: no need to load its address.
        uint8_t* data = reinterpret_cast<uint8_t*>(mbuf + 1) + headroom;
        std::memcpy(data, frame.head, FrameTemplate::kHeadBytes);
        if (whole && frame.length > FrameTemplate::kHeadBytes)
            std::memcpy(data + FrameTemplate::kHeadBytes, stream + frame.payload_at, frame.length - FrameTemplate::kHeadBytes);
        bytes += frame.length;
    }
    queue.next = next;
    return bytes;
}

/// Every buffer holds its frame already.
uint64_t SourcePort::hand_out(Queue& queue, rte_mbuf** mbufs, uint16_t count) {
    constexpr uint64_t kInspectEvery = 4096;
    const uint64_t now = wall_clock_ns();
    const PacketPool& pool = *queue.pool;
    const auto headroom = static_cast<uint16_t>(pool.headroom_bytes());
    uint64_t number = first_number(queue);
    uint64_t bytes = 0;
    size_t buffer = queue.next;
    for (uint16_t i = 0; i < count; ++i) {
        if (i + kPrefetchAhead < count) {
            rte_prefetch0(mbufs[i + kPrefetchAhead]);
            rte_prefetch0(&mbufs[i + kPrefetchAhead]->dynfield1);
        }
        // Buffers mostly come in order of address; only where they do not, their place must be computed.
        if (buffer == pool.packets()) buffer = 0;
        if (mbufs[i] != pool.at(static_cast<uint32_t>(buffer))) buffer = pool.index_of(mbufs[i]);
        dress(mbufs[i], queue.lengths[buffer], headroom, info_.index);
        set_packet_metadata(mbufs[i], now, number);
        if ((queue.sent + i) % kInspectEvery == 0) inspect(queue, mbufs[i], buffer);
        number += active_queues_;
        bytes += queue.lengths[buffer++];
    }
    queue.next = buffer;
    return bytes;
}

void SourcePort::inspect(Queue& queue, const rte_mbuf* mbuf, size_t buffer) {
    std::vector<uint8_t> frame(queue.pool->max_frame_bytes() + FrameTemplate::kHeadBytes);
    queue.frames.write(buffer % queue.frames.templates.size(), frame.data());
    if (std::memcmp(frame.data(), rte_pktmbuf_mtod(mbuf, const uint8_t*), queue.lengths[buffer]) != 0) queue.changed.fetch_add(1, std::memory_order_relaxed);
}

std::string SourcePort::trouble() const {
    uint64_t changed = 0;
    for (const auto& queue : queues_) changed += queue->changed.load(std::memory_order_relaxed);
    if (changed == 0) return {};
    return "of the buffers looked at, " + std::to_string(changed) + " were changed by the chain, so they held no fresh frames: 'restore: nothing' needs a device that leaves receive buffers as they are";
}

std::vector<const PacketPool*> SourcePort::pools() const {
    std::vector<const PacketPool*> pools;
    for (const auto& queue : queues_)
        if (queue->pool) pools.push_back(queue->pool.get());
    return pools;
}

bool SourcePort::exhausted() const {
    return std::all_of(queues_.begin(), queues_.end(), [](const auto& queue) { return queue->done.load(std::memory_order_acquire); });
}

double SourcePort::progress() const {
    if (!options_.count) return -1;
    return *options_.count == 0 ? 1 : static_cast<double>(Port::counters().received_packets) / static_cast<double>(*options_.count);
}

PortCounters SourcePort::counters() const {
    PortCounters result = Port::counters();
    for (const auto& queue : queues_)
        if (const uint64_t n = queue->starved.load(std::memory_order_relaxed); n != 0) result.details["pool-empty"] += n;
    return result;
}

OpenPort plan_source(const PortPlan& plan) {
    plan.only({});
    const Config& options = plan.value;
    std::vector<std::string> keys = TrafficSpec::keys();
    keys.insert(keys.end(), {"count", "rate", "restore"});
    options.only(keys);
    const TrafficSpec spec = TrafficSpec::read(options);
    SourceOptions source;
    if (const auto count = options.find("count"); count && count->text() != "forever") {
        if (count->text().ends_with('s')) source.duration_ns = static_cast<uint64_t>(count->duration().count());
        else source.count = count->size();
    }
    if (const auto rate = options.find("rate"); rate && rate->text() != "max") {
        source.packets_per_second = static_cast<double>(rate->size());
        if (source.packets_per_second < 1) rate->fail("the rate is in packets a second", "write max, or such as 1M");
    }
    if (const auto restore = options.find("restore"))
        source.restore = static_cast<SourceOptions::Restore>(restore->choice({"all", "headers", "nothing"}));

    const uint32_t longest = std::max(spec.longest_bytes(), FrameTemplate::kHeadBytes);
    const PoolOptions pool = plan.pool_for(longest);
    if (pool.max_frame_bytes < longest)
        options.at("size").fail("frames of " + std::to_string(longest) + " bytes do not fit into a packet buffer",
                                "at most " + std::to_string(pool.max_frame_bytes));
    PortInfo info = plan.info;
    info.receive_queues = plan.queues;
    return [info, spec, source, pool] { return std::make_unique<SourcePort>(info, spec, source, pool); };
}

}  // namespace millrace::io
