#include "millrace/io/source/source_port.hpp"

#include <immintrin.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "millrace/io/clock.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {
namespace {

constexpr uint16_t kPrefetchAhead = 12;
constexpr uint64_t kBurstsBetweenLooks = 64;
/// Where frames are contiguous, buffers are for what can't use them there.
constexpr uint32_t kFewBuffers = 4096;

/// What receivers set in an mbuf, by two wide stores as NIC drivers do it: data_off, refcnt, nb_segs, port and
/// ol_flags, which are the same in every mbuf of a queue, and packet_type, pkt_len, data_len, vlan_tci and the hash.
/// `next` is right in free mbufs.
inline __m128i same_fields(uint16_t headroom, uint16_t port) {
    return _mm_set_epi64x(
        0, static_cast<int64_t>(uint64_t{headroom} | uint64_t{1} << 16 | uint64_t{1} << 32 | uint64_t{port} << 48));
}
static_assert(offsetof(rte_mbuf, refcnt) == offsetof(rte_mbuf, data_off) + 2 &&
              offsetof(rte_mbuf, nb_segs) == offsetof(rte_mbuf, data_off) + 4 &&
              offsetof(rte_mbuf, port) == offsetof(rte_mbuf, data_off) + 6 &&
              offsetof(rte_mbuf, ol_flags) == offsetof(rte_mbuf, data_off) + 8);
static_assert(offsetof(rte_mbuf, packet_type) == offsetof(rte_mbuf, data_off) + 16 &&
              offsetof(rte_mbuf, pkt_len) == offsetof(rte_mbuf, packet_type) + 4 &&
              offsetof(rte_mbuf, data_len) == offsetof(rte_mbuf, packet_type) + 8 &&
              offsetof(rte_mbuf, vlan_tci) == offsetof(rte_mbuf, packet_type) + 10);

inline void dress(rte_mbuf* mbuf, __m128i same, uint32_t length) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&mbuf->data_off), same);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&mbuf->packet_type),
                     _mm_set_epi32(0, static_cast<int>(length), static_cast<int>(length), 0));
}

}  // namespace

SourcePort::SourcePort(PortInfo info, const TrafficSpec& spec, const SourceOptions& options, const PoolOptions& pool)
    : Port(std::move(info)), options_(options), rate_(options.packets_per_second),
      active_queues_(spec.replay_file.empty()
                         ? static_cast<uint16_t>(std::min<uint32_t>(info_.receive_queues, spec.flows))
                         : info_.receive_queues) {
    const bool one_payload = options.delivery.restore == Restore::headers;
    for (uint16_t q = 0; q < info_.receive_queues; ++q) {
        auto queue = std::make_unique<Queue>();
        queue->done = q >= active_queues_;
        if (q < active_queues_) {
            PoolOptions own = pool;
            own.packets = std::max(pool.packets / active_queues_, 1u);
            const uint32_t in_ring = own.packets;
            if (options.delivery.contiguous) own.packets = std::min(own.packets, kFewBuffers);
            own.all_in_sequence = options.delivery.restore == Restore::nothing;  // each holds a frame of its own
            queue->pool = std::make_unique<PacketPool>(info_.name, own);
            queue->frames = make_frames(spec, q, active_queues_, one_payload);
            if (one_payload) fill_payloads(*queue);
            if (options.delivery.restore == Restore::nothing && !queue->frames.templates.empty()) fill_frames(*queue);
            if (options.delivery.contiguous) fill_ring(*queue, in_ring);
            if (options.count)
                queue->limit = *options.count / active_queues_ + (q < *options.count % active_queues_ ? 1 : 0);
            queue->done = queue->limit == 0 || queue->frames.templates.empty();
            queue->rate = options.packets_per_second / active_queues_;
            queue->pacer = Pacer(queue->rate, options.delivery.descriptors);
        }
        queues_.push_back(std::move(queue));
    }
}

void SourcePort::fill_payloads(Queue& queue) {
    const PacketPool& pool = *queue.pool;
    const TrafficFrames& frames = queue.frames;
    // Behind the headers the stream begins anew in every frame, so any long template shows all of it.
    const uint32_t from = frames.templates[0].payload_at;
    const uint32_t room = pool.max_frame_bytes();
    if (room <= FrameTemplate::kHeadBytes) return;
    const size_t bytes = std::min<size_t>(room - FrameTemplate::kHeadBytes, frames.stream.size() - from);
    for (uint32_t i = 0; i < pool.packets(); ++i)
        std::memcpy(reinterpret_cast<uint8_t*>(pool.at(i) + 1) + pool.headroom_bytes() + FrameTemplate::kHeadBytes,
                    &frames.stream[from], bytes);
}

void SourcePort::fill_frames(Queue& queue) {
    const PacketPool& pool = *queue.pool;
    queue.lengths.resize(pool.packets());
    for (uint32_t i = 0; i < pool.packets(); ++i) {
        const uint32_t made = template_in(queue, i);
        queue.lengths[i] = static_cast<uint16_t>(queue.frames.templates[made].length);
        queue.frames.write(made, reinterpret_cast<uint8_t*>(pool.at(i) + 1) + pool.headroom_bytes());
    }
    queue.remembered.reserve(kMaxRemembered);
}

void SourcePort::fill_ring(Queue& queue, uint32_t least) {
    const size_t templates = queue.frames.templates.size();
    if (templates == 0) return;
    std::vector<uint16_t> lengths((least + templates - 1) / templates * templates);
    for (size_t i = 0; i < lengths.size(); ++i)
        lengths[i] = static_cast<uint16_t>(queue.frames.templates[i % templates].length);
    queue.ring = std::make_unique<FrameRing>(lengths);
    for (uint32_t i = 0; i < lengths.size(); ++i) {
        const FrameTemplate& frame = queue.frames.templates[i % templates];
        const uint32_t head = std::min(frame.length, FrameTemplate::kHeadBytes);
        std::memcpy(queue.ring->frame(i), frame.head, head);
        if (frame.length > head)
            std::memcpy(queue.ring->frame(i) + head, &queue.frames.stream[frame.payload_at], frame.length - head);
    }
}

uint32_t SourcePort::allowed(uint16_t queue_number, uint32_t count) {
    Queue& queue = *queues_[queue_number];
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
    count = static_cast<uint32_t>(std::min<uint64_t>(count, queue.limit - queue.sent));
    if (const double rate = rate_.load(std::memory_order_relaxed) / active_queues_; rate != queue.rate) {
        queue.rate = rate;
        queue.pacer.set_rate(rate);
    }
    const uint32_t due = queue.pacer.due(count);
    if (options_.delivery.descriptors != 0 && queue.pacer.given_up() != queue.given_up) {
        receiving(queue_number).drop(PortDrop::missed, queue.pacer.given_up() - queue.given_up);
        queue.given_up = queue.pacer.given_up();
    }
    return due;
}

template <Restore restore, bool noted>
uint64_t SourcePort::dress_burst(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count, const BurstNotes& notes) {
    Queue& queue = *queues_[queue_number];
    const PacketPool& pool = *queue.pool;
    const uint16_t* lengths = queue.lengths.data();
    const auto headroom = static_cast<uint16_t>(pool.headroom_bytes());
    const __m128i same = same_fields(headroom, info_.index);
    const FrameTemplate* templates = queue.frames.templates.data();
    const size_t n_templates = queue.frames.templates.size();
    const uint8_t* stream = queue.frames.stream.data();
    size_t next = queue.sent % n_templates;
    uint64_t bytes = 0;
    for (uint16_t i = 0; i < count; ++i) {
        if (i + kPrefetchAhead < count) {
            rte_mbuf* ahead = mbufs[i + kPrefetchAhead];
            __builtin_prefetch(ahead, 1);
            if constexpr (!noted) __builtin_prefetch(&ahead->dynfield1, 1);
            if (restore != Restore::nothing) rte_prefetch0(reinterpret_cast<uint8_t*>(ahead + 1) + headroom);
        }
        rte_mbuf* mbuf = mbufs[i];
        if constexpr (!noted) set_packet_metadata(mbuf, notes.timestamp_ns(i), notes.number(i));
        if constexpr (restore == Restore::nothing) {
            const uint32_t length = lengths[pool.index_of(mbuf)];
            dress(mbuf, same, length);
            bytes += length;
            continue;
        }
        const FrameTemplate& frame = templates[next];
        if (++next == n_templates) next = 0;
        dress(mbuf, same, frame.length);
        // The buffer follows the mbuf at a fixed distance: no need to load its address.
        uint8_t* data = reinterpret_cast<uint8_t*>(mbuf + 1) + headroom;
        std::memcpy(data, frame.head, FrameTemplate::kHeadBytes);
        if (restore == Restore::all && frame.length > FrameTemplate::kHeadBytes)
            std::memcpy(data + FrameTemplate::kHeadBytes, stream + frame.payload_at,
                        frame.length - FrameTemplate::kHeadBytes);
        bytes += frame.length;
    }
    return bytes;
}

/// The metadata of the packets that come next.
BurstNotes SourcePort::notes_of_next(uint16_t queue_number) const {
    const Queue& queue = *queues_[queue_number];
    return {.written = false,
            .first_number = uint64_t{queue_number} + 1 + queue.sent * active_queues_,
            .number_step = active_queues_,
            .first_ns = wall_clock_ns() - queue.pacer.age_ns(0),
            .interval_ns = queue.pacer.interval_ns()};
}

uint16_t SourcePort::receive(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count) {
    BurstNotes notes;
    return receive_burst<false>(queue_number, mbufs, count, notes);
}

uint16_t SourcePort::receive_noted(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count, BurstNotes& notes) {
    return receive_burst<true>(queue_number, mbufs, count, notes);
}

template <bool noted>
uint16_t SourcePort::receive_burst(uint16_t queue_number, rte_mbuf** mbufs, uint16_t count, BurstNotes& notes) {
    Queue& queue = *queues_[queue_number];
    if (queue.done.load(std::memory_order_relaxed)) return 0;
    count = static_cast<uint16_t>(allowed(queue_number, count));
    if (count == 0) return 0;
    while (!queue.pool->allocate_raw(mbufs, count)) {
        count /= 2;
        if (count == 0) {
            increase(queue.starved, 1);
            return 0;
        }
    }
    notes = notes_of_next(queue_number);
    uint64_t bytes = 0;
    switch (options_.delivery.restore) {
        case Restore::all: bytes = dress_burst<Restore::all, noted>(queue_number, mbufs, count, notes); break;
        case Restore::headers: bytes = dress_burst<Restore::headers, noted>(queue_number, mbufs, count, notes); break;
        case Restore::nothing:
            bytes = dress_burst<Restore::nothing, noted>(queue_number, mbufs, count, notes);
            if (queue.remembered.size() < kMaxRemembered) remember(queue, notes.first_number, mbufs, count);
            if (queue.bursts++ % kBurstsBetweenLooks == 0) {
                const rte_mbuf* looked_at = mbufs[queue.bursts / kBurstsBetweenLooks % count];
                const uint32_t buffer = queue.pool->index_of(looked_at);
                if (!holds(reinterpret_cast<const uint8_t*>(looked_at + 1) + queue.pool->headroom_bytes(), queue.frames,
                           template_in(queue, buffer))) {
                    queue.changed_buffer.store(buffer, std::memory_order_relaxed);
                    queue.done.store(true, std::memory_order_release);
                }
            }
            break;
    }
    sent(queue_number, count, bytes);
    return count;
}

ReceiveBlock SourcePort::receive_block(uint16_t queue_number, uint32_t most) {
    Queue& queue = *queues_[queue_number];
    if (queue.done.load(std::memory_order_relaxed)) return {};
    most = allowed(queue_number, most);
    if (most == 0) return {};
    FrameRing& ring = *queue.ring;
    const auto at = static_cast<uint32_t>(queue.sent % ring.frames());
    ReceiveBlock block = ring.take(at, most);
    if (block.count == 0) {
        increase(queue.starved, 1);
        return {};
    }
    block.port = info_.index;
    block.first_number = uint64_t{queue_number} + 1 + queue.sent * active_queues_;
    block.number_step = active_queues_;
    block.first_ns = wall_clock_ns() - queue.pacer.age_ns(0);
    block.interval_ns = queue.pacer.interval_ns();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < block.count; ++i) bytes += block.spots[i].length;
    if (queue.bursts++ % kBurstsBetweenLooks == 0) {
        const uint32_t looked_at = at + static_cast<uint32_t>(queue.bursts / kBurstsBetweenLooks % block.count);
        if (!holds(ring.frame(looked_at), queue.frames, looked_at % queue.frames.templates.size())) {
            queue.changed_buffer.store(looked_at, std::memory_order_relaxed);
            queue.done.store(true, std::memory_order_release);
        }
    }
    sent(queue_number, block.count, bytes);
    return block;
}

/// Counts what has been given out.
void SourcePort::sent(uint16_t queue_number, uint32_t count, uint64_t bytes) {
    Queue& queue = *queues_[queue_number];
    queue.sent += count;
    queue.pacer.took(count);
    receiving(queue_number).count(count, bytes);
    if (queue.sent == queue.limit) queue.done.store(true, std::memory_order_release);
}

/// Which frames the sample's packets were; the burst's first has `number`.
void SourcePort::remember(Queue& queue, uint64_t number, rte_mbuf* const* mbufs, uint16_t count) const {
    for (uint16_t i = 0; i < count && queue.remembered.size() < kMaxRemembered; ++i, number += active_queues_)
        if (in_sample(number))
            queue.remembered.emplace_back(number, template_in(queue, queue.pool->index_of(mbufs[i])));
}

/// Whether the frame of template `made` lies there.
bool SourcePort::holds(const uint8_t* data, const TrafficFrames& frames, size_t made) {
    const FrameTemplate& frame = frames.templates[made];
    return std::memcmp(data, frame.head, std::min(frame.length, FrameTemplate::kHeadBytes)) == 0 &&
           (frame.length <= FrameTemplate::kHeadBytes ||
            std::memcmp(data + FrameTemplate::kHeadBytes, &frames.stream[frame.payload_at],
                        frame.length - FrameTemplate::kHeadBytes) == 0);
}

std::vector<uint8_t> SourcePort::frame_of(uint64_t number) const {
    if (number == 0) return {};
    const uint64_t queue_number = (number - 1) % active_queues_;
    const Queue& queue = *queues_[queue_number];
    if (queue.frames.templates.empty()) return {};
    size_t made = (number - 1) / active_queues_ % queue.frames.templates.size();
    if (options_.delivery.restore == Restore::nothing) {
        const auto found = std::find_if(queue.remembered.begin(), queue.remembered.end(),
                                        [&](const auto& entry) { return entry.first == number; });
        if (found == queue.remembered.end()) return {};
        made = found->second;
    }
    const uint32_t length = queue.frames.templates[made].length;
    std::vector<uint8_t> frame(std::max(length, FrameTemplate::kHeadBytes));
    queue.frames.write(made, frame.data());
    frame.resize(length);
    return frame;
}

bool SourcePort::exhausted() const {
    return std::all_of(queues_.begin(), queues_.end(),
                       [](const auto& queue) { return queue->done.load(std::memory_order_acquire); });
}

double SourcePort::progress() const {
    if (!options_.count) return -1;
    return *options_.count == 0
               ? 1
               : static_cast<double>(Port::counters().received_packets) / static_cast<double>(*options_.count);
}

PortCounters SourcePort::counters() const {
    PortCounters result = Port::counters();
    for (const auto& queue : queues_)
        if (const uint64_t n = queue->starved.load(std::memory_order_relaxed); n != 0)
            result.details["pool-empty"] += n;
    return result;
}

std::string SourcePort::trouble() const {
    for (const auto& queue : queues_)
        if (const uint32_t buffer = queue->changed_buffer.load(std::memory_order_relaxed); buffer != UINT32_MAX)
            return options_.delivery.contiguous
                       ? "somebody has written into received frame " + std::to_string(buffer) + ", which nobody may"
                       : "where sources restore nothing, nobody may write into receive buffers, but buffer " +
                             std::to_string(buffer) +
                             " does not hold its frame any more; what runs here needs all restored";
    return {};
}

std::vector<const PacketPool*> SourcePort::pools() const {
    std::vector<const PacketPool*> pools;
    for (const auto& queue : queues_)
        if (queue->pool != nullptr) pools.push_back(queue->pool.get());
    return pools;
}

std::vector<std::span<uint8_t>> SourcePort::memory() const {
    std::vector<std::span<uint8_t>> all = Port::memory();
    for (const auto& queue : queues_)
        if (queue->ring != nullptr) all.push_back(queue->ring->memory());
    return all;
}

OpenPort plan_source(const PortPlan& plan) {
    plan.only({});
    const Config& options = plan.value;
    std::vector<std::string> keys = TrafficSpec::keys();
    keys.insert(keys.end(), {"count", "rate"});
    options.only(keys);
    TrafficSpec spec = TrafficSpec::read(options);
    if (plan.max_frame_bytes != 0)
        spec.replay_longest_bytes = std::max(plan.max_frame_bytes, FrameTemplate::kHeadBytes);
    SourceOptions source;
    if (const auto count = options.find("count"); count && count->text() != "forever") {
        if (count->text().ends_with('s')) source.duration_ns = static_cast<uint64_t>(count->duration().count());
        else source.count = count->size();
    }
    if (const auto rate = options.find("rate"); rate && rate->text() != "max") {
        source.packets_per_second = static_cast<double>(rate->size());
        if (source.packets_per_second < 1) rate->fail("the rate is in packets a second", "write max, or such as 1M");
    }
    source.delivery = plan.sources;
    if (source.delivery.contiguous) source.delivery.restore = Restore::all;  // of buffers, for who can't take blocks
    if (source.delivery.restore == Restore::headers && !spec.replay_file.empty())
        options.at("replay").fail("the payloads of a capture differ from frame to frame, and only headers are restored",
                                  "restore all or nothing");

    const uint32_t longest = std::max(spec.longest_bytes(), FrameTemplate::kHeadBytes);
    PortPlan shares = plan;
    if (!plan.buffers_given) shares.pool.packets *= plan.queues;
    const PoolOptions pool = shares.pool_for(longest);
    if (pool.max_frame_bytes < longest)
        options.at("size").fail("frames of " + std::to_string(longest) + " bytes do not fit into a packet buffer",
                                "at most " + std::to_string(pool.max_frame_bytes));
    PortInfo info = plan.info;
    info.receive_queues = plan.queues;
    return [info, spec, source, pool] { return std::make_unique<SourcePort>(info, spec, source, pool); };
}

}  // namespace millrace::io
