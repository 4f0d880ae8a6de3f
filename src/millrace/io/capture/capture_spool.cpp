#include "millrace/io/capture/capture_spool.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "millrace/io/metadata.hpp"
#include "millrace/io/release.hpp"

namespace millrace::io {

CaptureSpool::CaptureSpool(std::unique_ptr<CaptureWriter> writer)
    : writer_(std::move(writer)), thread_([this] { run(); }) {
    pthread_setname_np(thread_.native_handle(), "capture writer");
}

bool CaptureSpool::put(rte_mbuf* packet) {
    // A port that receives into a pool that is nearly empty would lose packets, which a capture must not.
    constexpr uint64_t kLookEvery = 32;
    // Numbers count what found no room, too, for a moment: so a number may be one that never comes, and nothing that
    // waits is enough.
    const uint64_t freed = freed_.load(std::memory_order_acquire);
    if (freed < to_free_first_.load(std::memory_order_relaxed) && freed < put_.load(std::memory_order_relaxed))
        return false;
    const rte_mempool* const pool = packet->pool;
    // Before the packet is in the queue: so all that lies before it there has been counted when it has been.
    const uint64_t number = put_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!waiting_.put(packet)) {
        put_.fetch_sub(1, std::memory_order_relaxed);
        return false;
    }
    if (number % kLookEvery == 0 && rte_mempool_avail_count(pool) <= pool->size / 4)
        to_free_first_.store(number, std::memory_order_relaxed);
    return true;
}

/// Writes what waits, a burst at most; false when there was nothing.
bool CaptureSpool::write_some() {
    std::array<rte_mbuf*, 256> packets;
    size_t count = 0;
    while (count < packets.size() && waiting_.take(packets[count])) ++count;
    for (size_t i = 0; i < count; ++i) {
        std::array<std::span<const uint8_t>, kMaxSegments> pieces;
        size_t n = 0;
        for (const rte_mbuf* segment = packets[i]; segment != nullptr && n < kMaxSegments; segment = segment->next)
            pieces[n++] = {rte_pktmbuf_mtod(segment, const uint8_t*), segment->data_len};
        writer_->write(packet_timestamp_ns(packets[i]), std::span(pieces.data(), n));
    }
    release_packets(packets.data(), count);
    freed_.fetch_add(count, std::memory_order_release);
    return count > 0;
}

void CaptureSpool::run() {
    constexpr auto kPause = std::chrono::microseconds(200);
    uint64_t asked = 0, done = 0;  // flushes
    uint64_t due = 0;              // as many packets are to be written before the flush that was asked for
    while (true) {
        if (asked == done) {
            asked = flushes_asked_.load(std::memory_order_acquire);
            due = put_.load(std::memory_order_relaxed);
        }
        due = std::min(due, put_.load(std::memory_order_relaxed));  // what found no room was counted, too, for a moment
        const bool closing = closing_.load(std::memory_order_acquire);
        const bool any = write_some();
        if (any) tell();
        // An empty queue would not do: what was put before may wait behind a packet that is just being put.
        if (asked != done && freed_.load(std::memory_order_relaxed) >= due) {
            writer_->flush();
            tell();
            done = asked;
            flushes_done_.store(done, std::memory_order_release);
            flushes_done_.notify_all();
        }
        if (any) continue;
        if (closing) return;  // nobody is putting any more, so nothing is left
        std::this_thread::sleep_for(kPause);
    }
}

void CaptureSpool::tell() {
    written_records_.store(writer_->written_records(), std::memory_order_relaxed);
    written_bytes_.store(writer_->written_bytes(), std::memory_order_relaxed);
    lost_records_.store(writer_->lost_records(), std::memory_order_relaxed);
    if (writer_->error().empty()) return;
    const std::lock_guard lock(error_mutex_);
    error_ = writer_->error();
}

void CaptureSpool::flush() {
    if (closing_) return;
    const uint64_t mine = flushes_asked_.fetch_add(1, std::memory_order_release) + 1;
    for (uint64_t done = flushes_done_; done < mine; done = flushes_done_)
        flushes_done_.wait(done, std::memory_order_acquire);
}

void CaptureSpool::close() {
    if (closing_.exchange(true)) return;
    thread_.join();
    writer_->close();
    tell();
}

std::string CaptureSpool::error() const {
    const std::lock_guard lock(error_mutex_);
    return error_;
}

}  // namespace millrace::io
