// The entry of a packet's key in state per key, as device code sees it, and what is asked and counted of such state.
#pragma once

#include "millrace/nf/state/journal.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/platform.hpp"

namespace millrace::nf {

/// What a packet asks of the state.
enum class Lookup : uint32_t {
    none,    ///< it has no key
    find,    ///< the entry of its key, if there is one
    create,  ///< a new one where there is none
};

/// What becomes of a new key whose bucket is full.
enum class WhenFull : uint32_t {
    refuse,  ///< it gets no entry
    evict,   ///< it takes the place of the entry that would have timed out first
};

/// How an entry came to its end.
enum class Ended : uint32_t {
    expired,  ///< it has timed out
    evicted,  ///< another key takes its place
    swept,    ///< it has timed out; nothing comes in its place, so it may stay for the next sweep
};

/// What is counted of a table; `cursor` is where the next sweep goes on. Packets that a GPU has decided on `ahead` of
/// sequence (ahead.hpp), and in sequence, `together` with others of their key (together.hpp), of these in one pass,
/// `scanned` (prefix_scan.hpp).
enum class KeyedCount : uint32_t {
    created,
    expired,
    removed,
    evicted,
    refused,
    cursor,
    ahead,
    together,
    scanned,
    count
};

/// The state of a packet's key, while the packet is decided on.
template <class T>
class KeyedEntry {
public:
    KeyedEntry() = default;
    /// `before`: the deadline that it had before this packet.
    MILLRACE_DEVICE KeyedEntry(T* value, uint64_t* deadline, uint64_t before, uint64_t now, bool is_new, bool refused)
        : value_(value), deadline_(deadline), before_(before), now_(now), is_new_(is_new), refused_(refused) {}

    /// Whether there is an entry.
    MILLRACE_DEVICE explicit operator bool() const { return value_ != nullptr; }
    MILLRACE_DEVICE T& operator*() const { return *value_; }
    MILLRACE_DEVICE T* operator->() const { return value_; }
    /// This packet is the first one: the value is `T{}`.
    MILLRACE_DEVICE bool is_new() const { return is_new_; }
    /// There is none because the table is full.
    MILLRACE_DEVICE bool refused() const { return refused_; }
    /// Lets it time out that long after this packet, in place of the table's time-out.
    MILLRACE_DEVICE void expire_after(uint64_t ns) const { *deadline_ = later(now_, ns); }
    /// Lets it time out when it would have without this packet.
    MILLRACE_DEVICE void do_not_count() const { *deadline_ = before_; }
    /// Lets a part of the value, as it is now, outlive a device: one of the function's `parts` (README.md).
    template <class Part>
    MILLRACE_DEVICE void keep(const Part& part) const {
        static_assert(sizeof(Part) % 4 == 0 && alignof(Part) >= 4, "parts are made of words of four bytes");
        if (in_.journal == nullptr) return;
        const auto offset = reinterpret_cast<const uint8_t*>(&part) - reinterpret_cast<const uint8_t*>(value_);
        in_.write(JournalRecord::part, place_, JournalRecord::part_at(static_cast<uint32_t>(offset), sizeof(Part)),
                  &part, sizeof(Part));
    }
    /// Lets it end with this packet.
    MILLRACE_DEVICE void remove() const { *deadline_ = kRemoved; }

    static constexpr uint64_t kRemoved = 0;  ///< a deadline
    MILLRACE_DEVICE const uint64_t* deadline() const { return deadline_; }
    /// Whose journal takes its parts, and where it stands.
    MILLRACE_DEVICE void set_journal(const InBatch& in, uint64_t place) {
        in_ = in;
        place_ = static_cast<uint32_t>(place);
    }
    MILLRACE_DEVICE static uint64_t later(uint64_t now, uint64_t ns) {
        const uint64_t end = now + ns;
        return end < now ? ~uint64_t{0} : larger<uint64_t>(end, 1);
    }

private:
    T* value_ = nullptr;
    uint64_t* deadline_ = nullptr;
    uint64_t before_ = 0, now_ = 0;
    bool is_new_ = false, refused_ = false;
    uint32_t place_ = 0;
    InBatch in_;
};

}  // namespace millrace::nf
