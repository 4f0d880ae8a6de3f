// State per key, on the host: its memory, how large it is, what is counted of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "millrace/base/large_pages.hpp"
#include "millrace/base/text/config.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/state/journal_copy.hpp"
#include "millrace/nf/state/keeps_journal.hpp"
#include "millrace/nf/state/key_locks.hpp"
#include "millrace/nf/state/keyed_state.hpp"
#include "millrace/nf/state/state_reader.hpp"

namespace millrace::nf {

/// What a configuration says of a table.
struct KeyedOptions {
    uint64_t most = 0;  ///< entries that it is for
    uint64_t timeout_ns = 0;
    WhenFull when_full = WhenFull::refuse;
    bool journal = true;  ///< a device writes down what must outlive it, of functions that say what that is

    /// The names of the options, for Config::only: "max-" and `what` (in the plural), "timeout", "when-full".
    static std::vector<std::string> names(const std::string& what);
    /// Reads them; `usual` is what holds where one is missing.
    static KeyedOptions read(const Config& options, const std::string& what, const KeyedOptions& usual);
    friend bool operator==(const KeyedOptions&, const KeyedOptions&) = default;
};

/// Most entries of a table.
inline constexpr uint64_t kMaxKeyed = uint64_t{1} << 24;
/// How many buckets a table for `most` entries has: a bucket is half full then, on average.
uint32_t keyed_buckets(uint64_t most, uint32_t ways);
/// A number that nobody can tell beforehand; the same in each run where no packets come from outside.
uint64_t keyed_seed(bool live);
/// What `of_part(first, end)` says of [0, count), in parts by several threads where there is much of it, added up.
uint64_t sum_of_parts(uint64_t count, const std::function<uint64_t(uint64_t first, uint64_t end)>& of_part);
/// What there is to report of a table. `counts` by KeyedCount.
std::vector<Statistic> keyed_statistics(const std::vector<uint64_t>& counts, uint64_t lost);

/// Owns the memory of a KeyedState. Generations share it.
template <class Key, class Value>
class KeyedTable {
public:
    using State = KeyedState<Key, Value>;
    using Entry = typename State::Entry;
    static_assert(std::has_unique_object_representations_v<Key>, "a key has no padding");
    static_assert(std::is_trivially_copyable_v<Value>);

    /// Goes on with what `previous` has, if it is as large. `has_lasting`: devices write down what lasts of values;
    /// or they write down these `parts`.
    KeyedTable(const KeyedOptions& options, const Environment& environment, const KeyedTable* previous,
               bool has_lasting = false, std::span<const KeptParts> parts = {})
        : options_(options), buckets_(keyed_buckets(options.most, State::kWays)) {
        const auto set_aside = [&] {
            if (!options.journal) return;
            if (has_lasting) memory_->copy->keep_lasting();
            else if (!parts.empty()) memory_->copy->keep_parts(parts);
        };
        if (previous != nullptr && previous->buckets_ == buckets_) {
            memory_ = previous->memory_;
            // What was not written down before nobody knows.
            if (options.journal && !previous->options_.journal) memory_->copy->miss();
            set_aside();
            return;
        }
        memory_ = std::make_shared<Memory>();
        memory_->seed = keyed_seed(environment.live);
        const size_t entries = size_t{buckets_} * State::kWays;
        memory_->tags = std::make_shared<ZeroPageVector<uint32_t>>(entries);
        memory_->deadlines = std::make_shared<ZeroPageVector<uint64_t>>(entries);
        memory_->entries = std::make_shared<ZeroPageVector<Entry>>(entries);
        memory_->counts = std::make_shared<std::vector<uint64_t>>(static_cast<size_t>(KeyedCount::count));
        if (previous != nullptr) memory_->lost = previous->memory_->lost + previous->entries();
        memory_->copy.emplace(memory_->tags, memory_->entries, memory_->seed);
        set_aside();
    }

    void attach(Image& image, State& state, const std::string& name) const {
        state.timeout_ns = options_.timeout_ns;
        state.seed = memory_->seed;
        state.buckets = buckets_;
        state.when_full = options_.when_full;
        state.journaled = options_.journal ? 1 : 0;
        image.attach_resident(state.tags, memory_->tags, name + "-tags");
        image.attach_resident(state.deadlines, memory_->deadlines, name + "-deadlines");
        image.attach_resident(state.entries, memory_->entries, name + "-entries");
        image.attach_state(state.counts, memory_->counts, name + "-counts");
    }

    /// Entries that it has memory for.
    uint64_t places() const { return uint64_t{buckets_} * State::kWays; }
    /// Whether both have the same memory.
    bool goes_on_with(const KeyedTable& other) const { return memory_ == other.memory_; }
    /// Entries that there are, those included that have timed out and were not swept yet.
    uint64_t entries() const {
        const auto of = [this](KeyedCount what) { return (*memory_->counts)[static_cast<size_t>(what)]; };
        const uint64_t gone = of(KeyedCount::expired) + of(KeyedCount::removed) + of(KeyedCount::evicted);
        // Who has made some may not have told of it yet.
        return of(KeyedCount::created) - std::min(gone, of(KeyedCount::created));
    }
    /// Packets whose key was new and found no room.
    uint64_t refused() const { return (*memory_->counts)[static_cast<size_t>(KeyedCount::refused)]; }
    std::vector<Statistic> statistics() const { return keyed_statistics(*memory_->counts, memory_->lost); }
    uint64_t bytes() const {
        return uint64_t{buckets_} * State::kWays * (sizeof(uint32_t) + sizeof(uint64_t) + sizeof(Entry));
    }

    /// Calls `visit(key, value, deadline_ns)` for each entry, wherever the state lies, while packets flow. Who has
    /// timed out and was not swept yet is among them; who comes or goes meanwhile may be. `reader`: of devices; null:
    /// none has the state. `until`: only those whose deadline is not later. False, and not all were there, where the
    /// device has gone. Any thread but a worker's.
    template <class Visit>
    bool each(StateReader* reader, Visit&& visit, uint64_t until = UINT64_MAX) const {
        const bool on_device = reader != nullptr && !memory_->given_up && reader->on_device(memory_->tags->data());
        Part part;
        for (uint64_t first = 0; first < memory_->tags->size(); first += Part::kPlaces) {
            part.count = std::min<uint64_t>(Part::kPlaces, memory_->tags->size() - first);
            if (!on_device) copy(first, part, until);
            else if (!read(first, part, until, *reader)) return false;
            for (uint64_t i = 0; i < part.count; ++i)
                // A key that another has taken the place of meanwhile has another tag, nearly always.
                if (part.has(i, until) && part.tags[i] == State::tag_of(state_hash(part.entries[i].key)))
                    visit(part.entries[i].key, part.entries[i].value, part.deadlines[i]);
        }
        return true;
    }

    /// NetworkFunction::device_lost, where nothing was written down: begins anew.
    void lose() {
        memory_->give_up([this] {
            std::fill(memory_->tags->begin(), memory_->tags->end(), 0u);
            count_left(0);
        });
    }

    /// Whether a device writes a journal of changes.
    bool keeps_journal() const { return options_.journal; }
    /// What it has written down.
    JournalCopy<State>& written() { return *memory_->copy; }
    const JournalCopy<State>& written() const { return *memory_->copy; }
    /// KeepsJournal::make_present.
    void make_present(const Image& image) const {
        if (!memory_->copy->is_apart()) image.make_resident_present();
        memory_->copy->make_present();
    }
    /// NetworkFunction::device_lost, where it was: goes on from what has been applied. Nobody knows which packets that
    /// changed nothing lasting have kept an entry, so all are kept as if each had had one when the last packet came.
    /// `lasting(value)` says what would have been written down of a value; `resume(key, lasting, value, now_ns)` makes
    /// the value of it, and says how long it is kept, in nanoseconds.
    template <class Lasting, class Resume>
    void recover(Lasting&& lasting, Resume&& resume) {
        if (memory_->copy->has_missed()) return lose();
        memory_->give_up([&] {
            const uint64_t now = memory_->copy->reached_ns();
            count_left(sum_of_parts(places(), [&](uint64_t first, uint64_t end) {
                uint64_t left = 0;
                for (uint64_t at = first; at < end; ++at) {
                    const auto* const written = memory_->copy->at(at);
                    uint32_t& tag = (*memory_->tags)[at];
                    if (written != nullptr) tag = written->is_there != 0 ? State::tag_of(state_hash(written->key)) : 0;
                    if (tag == 0) continue;
                    ++left;
                    Entry& entry = (*memory_->entries)[at];
                    if (written != nullptr) entry.key = written->key;
                    const uint32_t what_lasts = written != nullptr ? written->lasting : lasting(entry.value);
                    const uint64_t kept_ns = resume(entry.key, what_lasts, entry.value, now);
                    (*memory_->deadlines)[at] = KeyedEntry<Value>::later(now, kept_ns);
                }
                return left;
            }));
        });
    }

private:
    /// So many entries are there where the device had more, or others.
    void count_left(uint64_t left) {
        auto& counts = *memory_->counts;
        const uint64_t before = entries();
        if (left < before) {
            memory_->lost += before - left;
            counts[static_cast<size_t>(KeyedCount::removed)] += before - left;
        } else {
            counts[static_cast<size_t>(KeyedCount::created)] += left - before;
        }
    }
    /// Some places, copied.
    struct Part {
        static constexpr uint64_t kBucketBytes = State::kWays *
                                                 (2 * sizeof(uint32_t) + sizeof(uint64_t) + sizeof(Entry));
        static constexpr uint64_t kPlaces = std::min<uint64_t>(256, StateReader::kMax / kBucketBytes) * State::kWays;
        static_assert(kPlaces > 0, "a bucket is copied at once");
        std::vector<uint32_t> tags = std::vector<uint32_t>(kPlaces), tags_before = tags;
        std::vector<uint64_t> deadlines = std::vector<uint64_t>(kPlaces);
        std::vector<Entry> entries = std::vector<Entry>(kPlaces);
        uint64_t count = 0;
        bool has(uint64_t i, uint64_t until) const { return tags[i] != 0 && deadlines[i] <= until; }
        bool has_any(uint64_t from, uint64_t end, uint64_t until) const {
            while (from < end && !has(from, until)) ++from;
            return from < end;
        }
    };
    uint64_t state_hash(const Key& key) const { return memory_->copy->hash(key); }
    /// Bucket by bucket, which a packet has to itself, too.
    void copy(uint64_t first, Part& part, uint64_t until) const {
        for (uint64_t i = 0; i < part.count; i += State::kWays) {
            const uint64_t from = first + i;
            const std::lock_guard alone(key_lock(static_cast<uint32_t>(from / State::kWays)));
            std::copy_n(memory_->tags->data() + from, State::kWays, part.tags.data() + i);
            std::copy_n(memory_->deadlines->data() + from, State::kWays, part.deadlines.data() + i);
            if (!part.has_any(i, i + State::kWays, until)) continue;
            std::copy_n(memory_->entries->data() + from, State::kWays, part.entries.data() + i);
        }
    }
    /// What has the same tag before and behind is one entry.
    bool read(uint64_t first, Part& part, uint64_t until, StateReader& reader) const {
        const auto piece = [&](const auto& all, auto& into) {
            return StateReader::Piece{all.data(), first * sizeof(all[0]), into.data(), part.count * sizeof(all[0])};
        };
        const StateReader::Piece tags[] = {piece(*memory_->tags, part.tags_before),
                                           piece(*memory_->deadlines, part.deadlines)};
        if (!reader.read(tags)) return false;
        part.tags = part.tags_before;
        if (!part.has_any(0, part.count, until)) return true;
        const StateReader::Piece rest[] = {piece(*memory_->entries, part.entries),
                                           piece(*memory_->deadlines, part.deadlines),
                                           piece(*memory_->tags, part.tags)};
        if (!reader.read(rest)) return false;
        for (uint64_t i = 0; i < part.count; ++i)
            if (part.tags[i] != part.tags_before[i]) part.tags[i] = 0;
        return true;
    }

    struct Memory {
        uint64_t seed = 0, lost = 0;
        std::atomic<bool> given_up{false};
        /// By the first who finds the device gone; the others wait until the table can be used.
        template <class Do>
        void give_up(Do&& what) {
            const std::lock_guard alone(giving_up);
            if (!given_up) what();
            given_up = true;
        }
        std::mutex giving_up;
        std::shared_ptr<ZeroPageVector<uint32_t>> tags;
        std::shared_ptr<ZeroPageVector<uint64_t>> deadlines;
        std::shared_ptr<ZeroPageVector<Entry>> entries;
        std::optional<JournalCopy<State>> copy;
        std::shared_ptr<std::vector<uint64_t>> counts;
    };
    const KeyedOptions options_;
    const uint32_t buckets_;
    std::shared_ptr<Memory> memory_;
};

/// What the host half of an NF with state per key is derived from: has its table, and the state of the generation
/// before.
template <class Device>
class KeyedFunction : public NetworkFunction, public KeepsJournal {
public:
    const Image& image() const override { return image_; }
    std::vector<Statistic> statistics() const override { return table_.statistics(); }
    void device_lost() override {
        if (!keeps_journal()) return table_.lose();
        table_.recover([](const auto& value) { return State::template lasting<Device>(value); },
                       [this](const auto& key, [[maybe_unused]] uint32_t lasting, auto& value, uint64_t now_ns) {
                           return resume(key, lasting, value, now_ns);
                       });
    }
    bool keeps_journal() const override { return HasJournal<Device> && table_.keeps_journal(); }
    uint32_t apply(const uint8_t* records, uint32_t bytes, uint16_t node, uint64_t batch) override {
        return table_.written().apply(records, bytes, node, batch);
    }
    void returned() override { table_.written().returned(); }
    void make_present() const override { table_.make_present(image_); }
    void reached(uint64_t now_ns) override { table_.written().reached(now_ns); }
    void missed() override { table_.written().miss(); }

protected:
    using Tables = typename Device::Tables;
    using State = decltype(Tables::state);
    using Table = KeyedTable<typename State::Key, typename State::Value>;

    /// `what`: names the state in messages.
    KeyedFunction(const KeyedOptions& options, const Environment& environment, const std::string& what)
        : table_(options, environment, table_of(environment.previous), HasLasting<Device>, parts_of_value()),
          tables_(image_.start<Tables>()) {
        table_.attach(image_, tables_.state, what);
    }
    /// To be filled by the constructor.
    Tables& tables() { return tables_; }
    Image& image_to_fill() { return image_; }
    const Table& table() const { return table_; }

private:
    uint64_t resume(const typename State::Key& key, [[maybe_unused]] uint32_t lasting, typename State::Value& value,
                    uint64_t now_ns) const {
        if constexpr (HasLasting<Device>) return Device::resume(tables_, key, lasting, value, now_ns);
        else if constexpr (KeepsParts<Device>) return Device::resume(tables_, key, value, now_ns);
        else return tables_.state.timeout_ns;
    }
    static std::span<const KeptParts> parts_of_value() {
        if constexpr (KeepsParts<Device>) return Device::parts;
        else return {};
    }
    static const Table* table_of(NetworkFunction* previous) {
        auto* const own = dynamic_cast<KeyedFunction*>(previous);
        return own != nullptr ? &own->table_ : nullptr;
    }
    Table table_;
    Image image_;
    Tables& tables_;
};

}  // namespace millrace::nf
