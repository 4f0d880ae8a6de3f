// What the host has of state per key that a device has: what the device has written down (journal.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "millrace/base/large_pages.hpp"
#include "millrace/base/spin_lock.hpp"
#include "millrace/nf/state/keyed_function.hpp"
#include "millrace/nf/state/keyed_state.hpp"

namespace millrace::nf {

/// Of a table whose arrays the host has, too. Of a function that says what lasts, that is kept apart, and they are as
/// the CPU has left them; parts are written into them. Workers apply journals at the same time.
template <class State>
class JournalCopy {
public:
    using Key = typename State::Key;
    using Value = typename State::Value;
    using Entry = typename State::Entry;
    /// What a device has written down of a place: one line of a CPU's cache, where keys are those of connections.
    struct alignas(std::bit_ceil(sizeof(Key) + 16)) Written {
        Key key;
        uint32_t lasting;
        uint32_t changed;  ///< by which batch
        uint32_t since;    ///< how often the CPU had had the state from a device
        uint32_t is_there;
    };

    JournalCopy(std::shared_ptr<ZeroPageVector<uint32_t>> tags, std::shared_ptr<ZeroPageVector<Entry>> entries,
                uint64_t seed)
        : tags_(std::move(tags)), entries_(std::move(entries)) {
        hashes_.seed = seed;
    }
    /// The function says what lasts.
    void keep_lasting() {
        if (!written_) written_ = std::make_unique<ZeroPageVector<Written>>(tags_->size());
    }
    /// The function names parts of values, these.
    void keep_parts(std::span<const KeptParts> parts) {
        if (part_changed_) return;
        for (const KeptParts& one : parts)
            for (uint32_t k = 0; k < one.count; ++k) parts_.push_back({one.offset + k * one.bytes, one.bytes, 1});
        part_changed_ = std::make_unique<ZeroPageVector<uint32_t>>(tags_->size() * parts_.size());
    }
    /// Whether records are kept apart from the host's own table.
    bool is_apart() const { return written_ != nullptr; }
    /// Sets aside the memory that records need besides the host's own table.
    void make_present() const {
        const auto present = [](const auto& memory) {
            if (memory) millrace::make_present(memory->data(), memory->size() * sizeof((*memory)[0]));
        };
        present(written_);
        present(part_changed_);
    }

    /// KeepsJournal::apply. A later batch may have been here before, with a later change of the same place.
    uint32_t apply(const uint8_t* records, uint32_t bytes, uint16_t node, uint64_t batch) {
        constexpr unsigned kAsked = 8;  // records whose memory is asked for before it is needed
        const auto record_at = [&](uint32_t at) { return reinterpret_cast<const JournalRecord*>(records + at); };
        uint32_t asked = 0, at = 0;
        for (unsigned i = 0;; ++i) {
            if (const uint32_t size = size_of(records + asked, bytes - asked, node); size != 0) {
                approach(record_at(asked)->place);
                asked += size;
            }
            if (i < kAsked) continue;
            const uint32_t size = size_of(records + at, bytes - at, node);
            if (size == 0 || !apply_one(*record_at(at), static_cast<uint32_t>(batch % (kBusy - 1) + 1))) return at;
            at += size;
        }
    }
    /// KeepsJournal::returned.
    void returned() {
        ++returns_;
        has_missed_ = false;  // the host has the whole table
    }
    /// KeepsJournal::reached.
    void reached(uint64_t now_ns) { raise_atomically(reached_ns_, now_ns); }
    uint64_t reached_ns() const { return reached_ns_; }
    /// Some of it is missing.
    void miss() { has_missed_ = true; }
    bool has_missed() const { return has_missed_; }

    /// Null: the device has written nothing down there since the CPU last had the table.
    const Written* at(uint64_t place) const {
        if (!written_) return nullptr;
        const Written& written = (*written_)[place];
        return written.changed != kNever && written.since == returns_ ? &written : nullptr;
    }
    /// Calls `visit(key, lasting)` for each entry that the device has written down.
    template <class Visit>
    void each(Visit&& visit) const {
        for (uint64_t place = 0; place < tags_->size(); ++place)
            if (const Written* const written = at(place); written != nullptr && written->is_there != 0)
                visit(written->key, written->lasting);
    }
    uint64_t hash(const Key& key) const { return hashes_.hash(key); }

private:
    /// Of the record in front of so many `bytes`; 0: there is none of this node.
    uint32_t size_of(const uint8_t* at, uint32_t bytes, uint16_t node) const {
        if (bytes < sizeof(JournalRecord)) return 0;
        const auto& record = *reinterpret_cast<const JournalRecord*>(at);
        const uint64_t data = record.data_bytes(sizeof(Key));
        if (record.node != node || record.place >= tags_->size() || data > bytes) return 0;
        const uint32_t size = JournalRecord::bytes_with(static_cast<uint32_t>(data));
        return size <= bytes ? size : 0;
    }
    void approach(uint32_t place) const {
        if (written_) return __builtin_prefetch(written_->data() + place, 1);
        if (part_changed_) __builtin_prefetch(part_changed_->data() + place * parts_.size(), 1);
        __builtin_prefetch(tags_->data() + place, 1);
        __builtin_prefetch(entries_->data() + place, 1);
    }
    /// False: it can be none.
    bool apply_one(const JournalRecord& record, uint32_t batch) {
        const auto* const data = reinterpret_cast<const uint8_t*>(&record + 1);
        if (!written_) {
            Entry& entry = (*entries_)[record.place];
            return in_order(entry.changed, batch, [&](uint32_t before) { return write(record, data, batch, before); });
        }
        if (record.kind != JournalRecord::freed && record.kind != JournalRecord::lasting) return false;
        Written& written = (*written_)[record.place];
        return in_order(written.changed, batch, [&](uint32_t) {
            written.since = returns_;
            written.is_there = record.kind == JournalRecord::lasting ? 1 : 0;
            if (written.is_there == 0) return batch;
            std::memcpy(static_cast<void*>(&written.key), data, sizeof written.key);
            written.lasting = static_cast<uint32_t>(record.more);
            return batch;
        });
    }
    /// Whether something was changed by a later batch than this one.
    static bool is_later(uint32_t changed, uint32_t batch) {
        constexpr uint32_t kMaxInFlight = 1 << 16;  // batches
        return changed != kNever && changed - batch - 1 < kMaxInFlight;
    }
    /// Calls `write(by)` unless a later batch has written there. `by`: which batch last; others may be at it at the
    /// same time. What `write` gives is written there in its place; kBusy: the record can be none. False: that.
    template <class Write>
    static bool in_order(uint32_t& by, uint32_t batch, Write&& write) {
        const std::atomic_ref changed(by);
        uint32_t before = changed.load(std::memory_order_relaxed);
        for (SpinWait wait;;) {
            if (before == kBusy) {
                wait.again();
                before = changed.load(std::memory_order_relaxed);
            } else if (is_later(before, batch)) {
                return true;
            } else if (changed.compare_exchange_weak(before, kBusy, std::memory_order_acquire)) {
                break;
            }
        }
        const uint32_t behind = write(before);
        changed.store(behind != kBusy ? behind : before, std::memory_order_release);
        return behind != kBusy;
    }
    /// Of a function that names parts: all but deadlines, which nobody needs before there are others (recover).
    /// `before`: the batch by which the entry last came or went, which this gives anew; kBusy: the record can be none.
    uint32_t write(const JournalRecord& record, const uint8_t* data, uint32_t batch, uint32_t before) {
        if (!part_changed_) return kBusy;
        Entry& entry = (*entries_)[record.place];
        uint32_t& tag = (*tags_)[record.place];
        uint32_t* const part_changed = part_changed_->data() + record.place * parts_.size();
        const auto bytes_of = [](Value& value, const KeptParts& part) {
            return reinterpret_cast<uint8_t*>(&value) + part.offset;
        };
        switch (record.kind) {
            case JournalRecord::freed: tag = 0; return batch;
            case JournalRecord::fresh: {
                std::memcpy(static_cast<void*>(&entry.key), data, sizeof entry.key);
                tag = State::tag_of(hash(entry.key));
                Value fresh{};  // but for what a later batch has said of it already
                for (size_t k = 0; k < parts_.size(); ++k)
                    if (is_later(part_changed[k], batch))
                        std::memcpy(bytes_of(fresh, parts_[k]), bytes_of(entry.value, parts_[k]), parts_[k].bytes);
                entry.value = fresh;
                return batch;
            }
            case JournalRecord::part: {
                const auto offset = static_cast<uint32_t>(record.more),
                           bytes = static_cast<uint32_t>(record.more >> 32);
                const auto part = std::ranges::lower_bound(parts_, offset, {}, &KeptParts::offset);
                if (part == parts_.end() || part->offset != offset || part->bytes != bytes) return kBusy;
                uint32_t& changed = part_changed[part - parts_.begin()];
                if (is_later(changed, batch)) return before;
                std::memcpy(bytes_of(entry.value, *part), data, bytes);
                changed = batch;
                return before;
            }
            default: return kBusy;
        }
    }
    static constexpr uint32_t kNever = 0, kBusy = ~uint32_t{0};  ///< in place of a batch that has changed an entry

    const std::shared_ptr<ZeroPageVector<uint32_t>> tags_;
    const std::shared_ptr<ZeroPageVector<Entry>> entries_;
    State hashes_;  // its seed alone
    std::unique_ptr<ZeroPageVector<Written>> written_;
    std::vector<KeptParts> parts_;                            // each by itself, in order
    std::unique_ptr<ZeroPageVector<uint32_t>> part_changed_;  // [place][part]: by which batch
    uint32_t returns_ = 1;                                    // to the CPU, from 1
    uint64_t reached_ns_ = 0;                                 // when the last packet came that a device has decided on
    std::atomic<bool> has_missed_{false};
};

}  // namespace millrace::nf
