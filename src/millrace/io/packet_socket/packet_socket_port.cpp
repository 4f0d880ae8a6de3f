#include "millrace/io/packet_socket/packet_socket_port.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace millrace::io {
namespace {

constexpr size_t kRingBytes = size_t{16} << 20;
constexpr size_t kLogBytes = size_t{32} << 20;
constexpr uint32_t kUncutFrames = 256;  // of all queues, besides as many as a queue takes at once

/// For frames of up to 64 KiB.
PoolOptions uncut_options(const PoolOptions& pool, uint16_t queues) {
    PoolOptions options = pool;
    options.packets = kUncutFrames + uint32_t{queues} * 32;
    options.max_frame_bytes = longest_frame(pool.headroom_bytes) - pool.tailroom_bytes;
    return options;
}

ReceiveRingOptions ring_options(const PacketSocketOptions& options, int interface, uint32_t frame_bytes) {
    const auto fit = static_cast<uint32_t>(kRingBytes / std::max(frame_bytes, 2048u));
    return {.interface = interface,
            .frame_bytes = frame_bytes,
            .slots = options.slots != 0 ? options.slots : std::clamp(fit, 64u, 4096u),
            .promiscuous = options.promiscuous};
}

}  // namespace

void PacketSocketPort::describe(PortInfo& info, PacketSocketOptions& options, PoolOptions& pool) {
    const Interface now = ethernet_interface(options.interface);
    info.mac = now.mac;
    info.mtu = now.mtu;
    options.max_frame_bytes = std::min(std::max(options.max_frame_bytes, now.mtu + kFrameOverhead),
                                       longest_frame(pool.headroom_bytes));
    pool.max_frame_bytes = options.max_frame_bytes;
}

PacketSocketPort::PacketSocketPort(const PortInfo& info, const PacketSocketOptions& options, const PoolOptions& pool)
    : InterfacePort(info, options.interface, info.mtu), options_(options), pool_(info_.name, pool) {
    if (options_.keeps_uncut)
        uncut_pool_ = std::make_unique<PacketPool>(info_.name, uncut_options(pool, info_.receive_queues));
    const int interface = find_interface(options_.interface).index;
    for (uint16_t q = 0; q < info_.receive_queues; ++q) {
        auto queue = std::make_unique<Queue>();
        queue->out = std::make_unique<SendQueue>(interface, options_.past_queueing);
        queue->whole = std::make_unique_for_overwrite<uint8_t[]>(kWholeFront + kWholeBytes);
        if (receives_blocks())
            queue->log = std::make_unique<FrameLog>(pool.packets,
                                                    std::min(size_t{pool.packets} * pool.max_frame_bytes, kLogBytes));
        if (options_.layout == PacketSocketOptions::Layout::blocks) queue->out_runs.resize(kOutRuns);
        queues_.push_back(std::move(queue));
    }
    open_rings(interface, true);
    not_hidden_ = hide(interface);
    for (const auto& queue : queues_) queue->ring = queue->next.exchange(nullptr);
    followed_.follow([this](const Interface& now) { update(now); });
}

/// Makes rings at this interface for all queues, and leaves them to the workers. Devices know the memory of the first
/// ones only: frames of later ones are copied out of theirs.
void PacketSocketPort::open_rings(int interface, bool first) {
    std::vector<std::unique_ptr<Ring>> rings;
    group_ = ReceiveRing::kNewGroup;
    for (size_t q = 0; q < queues_.size(); ++q) {
        Ring& ring = *rings.emplace_back(std::make_unique<Ring>());
        const ReceiveRingOptions own = ring_options(options_, interface, options_.max_frame_bytes);
        if (options_.layout == PacketSocketOptions::Layout::blocks) {
            auto blocks = std::make_unique<BlockRing>(own);
            ring.blocks = first ? blocks.get() : nullptr;
            ring.frames = std::move(blocks);
        } else {
            ring.frames = std::make_unique<SlotRing>(own);
        }
        if (queues_.size() == 1) continue;
        const int joined = ring.frames->join(group_);
        rings.back()->is_joined = joined >= 0;
        if (joined >= 0) group_ = joined;
    }
    for (const auto& ring : rings)
        if (ring->is_joined) ring->frames->listen();
    for (size_t q = 0; q < queues_.size(); ++q)
        if (Ring* const unused = queues_[q]->next.exchange(rings[q].get()); unused != nullptr) unused->is_left = true;
    for (const auto& queue : queues_) queue->has_next.wake();
    std::move(rings.begin(), rings.end(), std::back_inserter(rings_));
}

/// Keeps Linux from what comes in, where that is wanted; returns why it can't.
std::string PacketSocketPort::hide(int interface) {
    if (!options_.is_hidden) return {};
    try {
        hiding_ = IngressDrop(interface);
        is_hidden_ = true;
        return {};
    } catch (const std::runtime_error& error) {
        is_hidden_ = false;
        return error.what();
    }
}

void PacketSocketPort::free_left_rings() {
    std::erase_if(rings_, [&](const auto& ring) {
        if (!ring->is_left.load(std::memory_order_acquire)) return false;
        missed_ += ring->frames->missed();
        return true;
    });
}

/// What the interface has become.
void PacketSocketPort::update(const Interface& now) {
    free_left_rings();
    if (now.index == 0) return;
    if (!rings_.back()->frames->is_bound()) {
        for (const auto& queue : queues_) queue->out->bind(now.index);
        open_rings(now.index, false);
        hide(now.index);
    }
    // Before Linux 6.13 queues cannot share an interface that is down.
    for (size_t i = rings_.size() - queues_.size(); i < rings_.size(); ++i) {
        Ring& ring = *rings_[i];
        if (ring.is_joined) continue;
        const int joined = ring.frames->join(group_);
        if (joined < 0) break;
        group_ = joined;
        ring.is_joined = true;
        ring.frames->listen();
    }
}

void PacketSocketPort::begin_sleep(uint16_t queue_number, WakeUps& wake_ups) {
    Queue& queue = *queues_[queue_number];
    // That the interface went down would end every sleep. The watch is told of it, too.
    queue.ring->frames->forget_error();
    wake_ups.on(queue.has_next.prepare());
    wake_ups.on(queue.ring->frames->descriptor());
}

void PacketSocketPort::end_sleep(uint16_t queue_number) { queues_[queue_number]->has_next.done(); }

PortCounters PacketSocketPort::counters() const {
    const std::lock_guard lock(followed_.control());
    if (closed_) return last_;
    PortCounters result = Port::counters();
    followed_.count_changes(result.details);
    for (const auto& ring : rings_) missed_ += ring->frames->missed();
    if (missed_ != 0) result.drops[drop_name(PortDrop::missed)] += missed_;
    for (const auto& queue : queues_)
        for (const auto& [name, n] : {std::pair{"cut-into-segments", &queue->cut},
                                      {"checksum-finished", &queue->finished},
                                      {"pool-empty", &queue->starved},
                                      {"uncut-received", &queue->uncut_in},
                                      {"uncut-received-segments", &queue->segments_in},
                                      {"uncut-sent", &queue->uncut_out},
                                      {"uncut-sent-segments", &queue->segments_out}})
            if (*n != 0) result.details[name] += *n;
    return result;
}

std::vector<std::span<uint8_t>> PacketSocketPort::memory() const {
    std::vector<std::span<uint8_t>> all = Port::memory();
    for (const auto& queue : queues_)
        if (queue->log != nullptr) all.push_back(queue->log->memory());
    for (const auto& queue : queues_)
        if (queue->ring->blocks != nullptr) all.push_back(queue->ring->blocks->memory());
    if (uncut_pool_ != nullptr) all.emplace_back(uncut_pool_->memory(), uncut_pool_->memory_bytes());
    return all;
}

void PacketSocketPort::close() {
    if (closed_) return;
    followed_.leave();
    PortCounters last = counters();
    const std::lock_guard lock(followed_.control());
    last_ = std::move(last);
    closed_ = true;
    for (const auto& queue : queues_) queue->out.reset();
    rings_.clear();
    hiding_ = {};
}

}  // namespace millrace::io
