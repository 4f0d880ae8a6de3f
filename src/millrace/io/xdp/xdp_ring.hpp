// A ring that a program and the kernel share: one of them puts entries in, the other takes them out.
#pragma once

#include <linux/if_xdp.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace::io {

/// Entries have numbers, which count up and wrap around. One thread at a time.
template <class Entry>
class XdpRing {
public:
    XdpRing() = default;
    ~XdpRing() {
        if (memory_ != nullptr) munmap(memory_, bytes_);
    }
    XdpRing(const XdpRing&) = delete;
    XdpRing& operator=(const XdpRing&) = delete;

    /// Maps the ring of `entries`, a power of two, that the socket has at `page`. False: the kernel says no.
    bool map(int socket, uint64_t page, const xdp_ring_offset& at, uint32_t entries) {
        const size_t bytes = at.desc + entries * sizeof(Entry);
        void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket,
                                  static_cast<off_t>(page));
        if (memory == MAP_FAILED) return false;
        memory_ = static_cast<uint8_t*>(memory);
        bytes_ = bytes;
        producer_ = reinterpret_cast<uint32_t*>(memory_ + at.producer);
        consumer_ = reinterpret_cast<uint32_t*>(memory_ + at.consumer);
        flags_ = reinterpret_cast<uint32_t*>(memory_ + at.flags);
        entries_ = reinterpret_cast<Entry*>(memory_ + at.desc);
        mask_ = entries - 1;
        return true;
    }

    Entry& at(uint32_t number) { return entries_[number & mask_]; }
    uint32_t entries() const { return mask_ + 1; }
    /// Numbers of the first entry that is yet to be put in, and to be taken out, as the other side has last said.
    uint32_t produced() const { return std::atomic_ref(*producer_).load(std::memory_order_acquire); }
    uint32_t consumed() const { return std::atomic_ref(*consumer_).load(std::memory_order_acquire); }
    /// What this side says.
    void produce_until(uint32_t number) { std::atomic_ref(*producer_).store(number, std::memory_order_release); }
    void consume_until(uint32_t number) { std::atomic_ref(*consumer_).store(number, std::memory_order_release); }
    /// Whether the kernel sleeps, and is to be told of new entries.
    bool wants_call() const {
        return (std::atomic_ref(*flags_).load(std::memory_order_relaxed) & XDP_RING_NEED_WAKEUP) != 0;
    }

private:
    uint8_t* memory_ = nullptr;
    size_t bytes_ = 0;
    uint32_t* producer_ = nullptr;
    uint32_t* consumer_ = nullptr;
    uint32_t* flags_ = nullptr;
    Entry* entries_ = nullptr;
    uint32_t mask_ = 0;
};

}  // namespace millrace::io
