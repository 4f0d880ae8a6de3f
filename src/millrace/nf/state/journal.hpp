// What a device tells the host of state per key with each batch: a journal of the changes that must outlive the device.
// The host applies it to its own copy of the table (keyed_table.hpp), from which the CPU goes on when the device is
// lost.
//
// Kernels write records straight to the host's memory: nothing else is asked for, and what crosses the bus is what has
// changed. Records of one place stand in the order of its changes, since a bucket is one packet's at a time.
#pragma once

#include "millrace/packet/counter.hpp"

namespace millrace::nf {

/// Of one batch. It lies in the device's memory and comes back with the results.
struct Journal {
    uint8_t* records = nullptr;  ///< in the host's memory, one behind the other
    uint32_t capacity = 0;       ///< bytes
    uint32_t used = 0;           ///< by all records; where that is more than there is room for, some are missing
};

/// The beginning of a record; what its kind says follows, up to a multiple of 16 bytes.
struct alignas(16) JournalRecord {
    enum Kind : uint16_t {
        freed,    ///< the place is free: nothing follows
        lasting,  ///< it has an entry of this key, which follows; `more`: what of its value must outlive the device
        fresh,    ///< it has a new entry, T{}: its key follows
        part,     ///< a part of its value: the bytes follow, `more` says where they are and how many (part_at)
    };
    uint16_t node;  ///< of the chain
    Kind kind;
    uint32_t place;
    uint64_t more;

    MILLRACE_DEVICE static constexpr uint64_t part_at(uint32_t offset, uint32_t bytes) {
        return uint64_t{bytes} << 32 | offset;
    }
    /// What such a record takes with so many bytes behind it.
    MILLRACE_DEVICE static constexpr uint32_t bytes_with(uint32_t data) {
        return static_cast<uint32_t>(sizeof(JournalRecord)) + (data + 15) / 16 * 16;
    }
    /// How many bytes follow, where the node's keys have so many.
    constexpr uint64_t data_bytes(uint32_t key) const {
        return kind == lasting || kind == fresh ? key : kind == part ? more >> 32 : 0;
    }
};
static_assert(sizeof(JournalRecord) == 16);

/// The batch that a packet is decided on in.
struct InBatch {
    uint32_t number = 0;         ///< the lower bits of its number
    uint16_t node = 0;           ///< of the chain, that decides
    Journal* journal = nullptr;  ///< null: nothing is written down

    /// Writes a record down; `data`: words of four bytes.
    MILLRACE_DEVICE void write(JournalRecord::Kind kind, uint64_t place, uint64_t more, const void* data,
                               uint32_t bytes) const {
        const uint32_t all = JournalRecord::bytes_with(bytes), at = add_atomically(journal->used, all);
        if (at > journal->capacity || all > journal->capacity - at) return;
        struct alignas(16) Four {
            uint32_t words[4];
        };
        auto* to = reinterpret_cast<Four*>(journal->records + at);
        *to++ = {{uint32_t{node} | uint32_t{kind} << 16, static_cast<uint32_t>(place), static_cast<uint32_t>(more),
                  static_cast<uint32_t>(more >> 32)}};
        const auto* const words = static_cast<const uint32_t*>(data);
        const uint32_t count = bytes / 4;
        for (uint32_t w = 0; w < count; w += 4) {
            Four four{};
            for (uint32_t k = 0; k < 4; ++k)
                if (w + k < count) four.words[k] = words[w + k];
            *to++ = four;
        }
    }
};

#if !MILLRACE_GPU
namespace detail {
/// The batch that a simulated device is at; elsewhere none, without a journal.
inline thread_local InBatch in_batch;
}  // namespace detail
#endif

}  // namespace millrace::nf
