// The verdicts that the frames of a program meet, and what frames of each add up to.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "millrace/exec/engine.hpp"

namespace millrace::exec {

/// What tells a result's verdict from others of the same program: where the packet goes, what decided so, and the chain
/// where no function did. A detail makes no other verdict.
class VerdictKey {
public:
    /// `nodes`: how many functions the program has.
    explicit VerdictKey(size_t nodes) : nodes_(static_cast<uint32_t>(nodes)) {}
    uint64_t operator()(const device::PacketResult& result) const {
        using Result = device::PacketResult;
        static_assert(std::endian::native == std::endian::little && offsetof(Result, length) == 4 &&
                      offsetof(Result, out_port) == 6 && offsetof(Result, decided) == 8 &&
                      offsetof(Result, detail) == 10 && sizeof(Result) == 12);
        uint64_t word = 0;
        std::memcpy(&word, &result.length, sizeof word);
        const uint64_t node = word >> 32 & ((1u << Result::kNodeBits) - 1);
        return word >> 16 & (node < nodes_ ? 0xffffffff : 0xffffffffffff);
    }

private:
    uint32_t nodes_;
};

/// On the worker's thread. Allocates when it is made, and then no more.
class VerdictTable {
public:
    /// How its frames leave: by the port whose number is one less, or:
    static constexpr uint32_t kDropped = 0, kAlone = ~0u;

    struct Entry {
        uint64_t key = kNone;
        uint64_t received = 0;   ///< packets and bytes since they were last settled, a packet as kPacket
        uint32_t list = kAlone;  ///< how its frames leave
        uint32_t number = 0;     ///< its place in `verdicts`
    };
    /// Bytes of a batch's frames are below.
    static constexpr uint64_t kPacket = uint64_t{1} << 40;

    struct Known {
        Verdict verdict;
        Entry* entry = nullptr;
        uint64_t unsent = 0;     ///< of the packets received
        int64_t more_bytes = 0;  ///< that were sent than received
    };

    /// Looks entries up; valid as long as the table.
    class Finder {
    public:
        /// Null: it is not known yet, or has no list. `key` is of VerdictKey.
        Entry* find(uint64_t key) const { return find_marked(key); }
        /// Also one that has no list.
        Entry* find_any(uint64_t key) const {
            Entry* const found = find_marked(key);
            return found != nullptr ? found : find_marked(key | kNoList);
        }

    private:
        friend class VerdictTable;
        size_t place(uint64_t key) const { return (key & ~kNoList) * 0x9e3779b97f4a7c15ull >> shift_; }
        Entry* find_marked(uint64_t key) const {
            for (size_t at = place(key);; at = (at + 1) & mask_) {
                if (entries_[at].key == key) return &entries_[at];
                if (entries_[at].key == kNone) return nullptr;
            }
        }
        Entry* entries_ = nullptr;
        size_t mask_ = 0;
        int shift_ = 0;
    };

    /// Has room for `most` verdicts.
    explicit VerdictTable(size_t most) : most_(most), entries_(std::bit_ceil(2 * most)) {
        finder_.entries_ = entries_.data();
        finder_.mask_ = entries_.size() - 1;
        finder_.shift_ = 64 - std::countr_zero(entries_.size());
        verdicts_.reserve(most);
    }
    VerdictTable(const VerdictTable&) = delete;
    VerdictTable& operator=(const VerdictTable&) = delete;

    const Finder& finder() const { return finder_; }
    bool full() const { return verdicts_.size() == most_; }
    /// One that is not known yet, where it is not full.
    Entry& add(uint64_t key, const Verdict& verdict, uint32_t list) {
        size_t at = finder_.place(key);
        while (entries_[at].key != kNone) at = (at + 1) & finder_.mask_;
        entries_[at] = {.key = list == kAlone ? key | kNoList : key,
                        .list = list,
                        .number = static_cast<uint32_t>(verdicts_.size())};
        verdicts_.push_back({verdict, &entries_[at]});
        return entries_[at];
    }
    /// Those that are known, in the order in which they came.
    std::vector<Known>& verdicts() { return verdicts_; }
    Known& of(const Entry& entry) { return verdicts_[entry.number]; }
    /// Forgets all of them. They are settled.
    void clear() {
        for (const Known& known : verdicts_) *known.entry = {};
        verdicts_.clear();
    }

private:
    // Keys have 48 bits.
    static constexpr uint64_t kNone = ~uint64_t{0}, kNoList = uint64_t{1} << 63;

    size_t most_;
    std::vector<Entry> entries_;
    Finder finder_;
    std::vector<Known> verdicts_;
};

}  // namespace millrace::exec
