#include "millrace/exec/offload/chains/chain_queue.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/packet/plain_layout.hpp"

namespace millrace::exec {

ChainQueue::ChainQueue(bool of_blocks, size_t most) : of_runs_(of_blocks) {
    // Twice as many places as may wait: what has gone makes room for as many before the rest is moved.
    if (of_blocks) runs_.reserve(2 * most);
    else make_room(2 * most);
    bursts_.reserve(most);
    if (!of_blocks) mbuf_runs_.reserve(most);
}

/// Makes room for so many more, behind those that wait.
void ChainQueue::make_room(size_t count) {
    const size_t waiting = behind_ - first_;
    const auto move = [&](auto& list, size_t room) {
        using List = std::remove_reference_t<decltype(list)>;
        List wider = room > room_ ? std::make_unique_for_overwrite<typename List::element_type[]>(room) : nullptr;
        std::copy_n(list.get() + first_, waiting, wider != nullptr ? wider.get() : list.get());
        if (wider != nullptr) list = std::move(wider);
    };
    const size_t room = waiting + count > room_ ? std::max(2 * room_, waiting + count) : room_;
    move(mbufs_, room);
    move(shapes_, room);
    room_ = room;
    first_ = 0;
    behind_ = waiting;
}

uint64_t ChainQueue::add(std::span<rte_mbuf* const> mbufs, const io::BurstNotes& notes) {
    if (behind_ + mbufs.size() > room_) make_room(mbufs.size());
    std::copy(mbufs.begin(), mbufs.end(), mbufs_.get() + behind_);
    MbufShape* to = shapes_.get() + behind_;
    behind_ += mbufs.size();
    // Where its frame lies, and whether it is the only one of its packet and its packet's only one.
    constexpr uint64_t kPort = uint64_t{0xffff} << 48, kOne = 0xffff'ffff'ffff'0000 & ~kPort;
    const auto word_of = [](const rte_mbuf* mbuf) {
        uint64_t word;  // data_off, refcnt, nb_segs, port
        std::memcpy(&word, &mbuf->data_off, sizeof word);
        return word;
    };
    const auto data_of = [](const rte_mbuf* mbuf) {
        return static_cast<const uint8_t*>(mbuf->buf_addr) - reinterpret_cast<const uint8_t*>(mbuf);
    };
    const rte_mbuf* const first = mbufs[0];
    rte_mempool* const pool = first->pool;
    const ptrdiff_t data = data_of(first);
    const uint64_t word = word_of(first);
    uint64_t bytes = 0, differ = (word & kOne) ^ 0x0001'0001'0000;
    for (const rte_mbuf* const mbuf : mbufs) {
        const uint16_t length = mbuf->data_len;
        const uint64_t own = word_of(mbuf);
        *to++ = {length, static_cast<uint16_t>(own >> 48)};
        bytes += length;
        differ |= (mbuf->ol_flags & (RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT | RTE_MBUF_F_RX_LRO)) |
                  ((own ^ word) & ~kPort) |
                  (reinterpret_cast<uint64_t>(mbuf->pool) ^ reinterpret_cast<uint64_t>(pool)) |
                  static_cast<uint64_t>(data_of(mbuf) ^ data);
    }
    const MbufRun run{mbufs.size(), notes, differ == 0 ? pool : nullptr, data + first->data_off};
    if (!mbuf_runs_.empty() && mbuf_runs_.back().pool == run.pool && mbuf_runs_.back().data == run.data &&
        mbuf_runs_.back().notes.goes_on(notes, mbuf_runs_.back().packets))
        mbuf_runs_.back().packets += run.packets;
    else mbuf_runs_.push_back(run);
    return bytes;
}

void ChainQueue::write_metadata(size_t count) const {
    rte_mbuf* const* mbuf = mbufs_.get() + first_;
    for (const MbufRun& run : mbuf_runs_) {
        const size_t own = std::min(count, run.packets);
        for (size_t i = 0; i < own && !run.notes.written; ++i)
            io::set_packet_metadata(mbuf[i], run.notes.timestamp_ns(i), run.notes.number(i));
        mbuf += own;
        count -= own;
        if (count == 0) return;
    }
}

void ChainQueue::add(const io::ReceiveBlock& block) {
    // A worker that polls often gets a frame or two at a time: each run costs as much as a few frames.
    if (runs().empty() || !runs_.back().join(block)) {
        if (runs_.size() == runs_.capacity()) close_up(runs_, first_run_);
        runs_.push_back(block);
    }
    run_packets_ += block.count;
}

void ChainQueue::arrived(uint64_t now, size_t count) {
    constexpr uint64_t kAtOnceNs = 1000;
    if (!bursts_.empty() && to_nanoseconds(now - bursts_.back().arrival) < kAtOnceNs) bursts_.back().packets += count;
    else bursts_.push_back({now, count});
}

void ChainQueue::take(size_t count, std::vector<Burst>& taken) {
    take_bursts(count, taken);
    if (of_runs_) take_runs(count);
    else take_mbufs(count);
}

void ChainQueue::take_mbufs(size_t count) {
    first_ += count;
    // What waits moves up where that is little, so that it stays in the CPU's caches.
    if (behind_ - first_ <= first_ / 4) make_room(0);
    size_t whole = 0;
    while (count > 0 && mbuf_runs_[whole].packets <= count) count -= mbuf_runs_[whole++].packets;
    if (count > 0) mbuf_runs_[whole] = mbuf_runs_[whole].from(count);
    mbuf_runs_.erase(mbuf_runs_.begin(), mbuf_runs_.begin() + static_cast<ptrdiff_t>(whole));
}

void ChainQueue::take_bursts(size_t count, std::vector<Burst>& taken) {
    taken.clear();
    size_t whole = 0;
    for (size_t left = count; left > 0;) {
        Burst& burst = bursts_[whole];
        const size_t own = std::min(left, burst.packets);
        taken.push_back({burst.arrival, own});
        burst.packets -= own;
        left -= own;
        if (burst.packets == 0) ++whole;
    }
    bursts_.erase(bursts_.begin(), bursts_.begin() + static_cast<ptrdiff_t>(whole));
}

void ChainQueue::take_runs(size_t count) {
    run_packets_ -= count;
    while (count > 0) {
        io::ReceiveBlock& block = runs_[first_run_];
        if (block.count > count) {
            block = block.part(static_cast<uint32_t>(count), block.count - static_cast<uint32_t>(count));
            return;
        }
        count -= block.count;
        ++first_run_;
    }
    if (first_run_ < runs_.size()) return;
    runs_.clear();
    first_run_ = 0;
}

bool ChainQueue::looks_plain(size_t count) const {
    constexpr size_t kAhead = 16;
    const auto look = [](size_t n, auto&& data, auto&& length) {
        for (size_t i = 0; i < n; ++i) {
            if (i + kAhead < n) __builtin_prefetch(data(i + kAhead));
            if (!millrace::looks_plain(data(i), length(i))) return false;
        }
        return true;
    };
    size_t done = 0;
    for (const io::ReceiveBlock& block : runs()) {
        const size_t n = std::min<size_t>(block.count, count - done);
        const auto at = [](size_t i) { return static_cast<uint32_t>(i); };
        if (!look(n, [&](size_t i) { return block.data(at(i)); }, [&](size_t i) { return block.spots[i].length; }))
            return false;
        if ((done += n) == count) break;
    }
    for (const MbufRun& run : mbuf_runs_) {
        const size_t n = std::min(run.packets, count - done);
        rte_mbuf* const* const own = this->mbufs().data() + done;
        const MbufShape* const about = shapes().data() + done;
        const auto length = [&](size_t i) { return about[i].length; };
        const auto known = [&](size_t i) { return reinterpret_cast<const uint8_t*>(own[i]) + run.data; };
        const auto asked = [&](size_t i) { return rte_pktmbuf_mtod(own[i], const uint8_t*); };
        if (!(run.pool != nullptr ? look(n, known, length) : look(n, asked, length))) return false;
        if ((done += n) == count) break;
    }
    return true;
}

}  // namespace millrace::exec
