// Packets with state per key that a GPU decides on ahead of sequence: optimistic concurrency control (H. T. Kung and
// J. T. Robinson, "On Optimistic Methods for Concurrency Control", 1981).
//
// All packets of a batch are decided on at the same time, on copies of their entries as the batches have left them that
// are through. When the batch is next in sequence, a decision holds if nobody has changed the entry since; what is left
// to do is to write that down. What does not hold is decided on again, in order. Batches wait for each other no longer
// than that takes, and packets of one key need not, as long as none of them changes what decides on the next one.
#pragma once

#include "millrace/nf/state/keyed_state.hpp"

namespace millrace::nf {

/// What a decision ahead of sequence is worth.
enum class Ahead : uint32_t {
    no,       ///< nothing: the packet is decided on in sequence
    passes,   ///< the packet changes nothing that decides on others: at most the value's `tally` and the time-out
    changes,  ///< it changes the entry, or makes it
};

/// Words of 32 bits before a member. Not all compilers have offsetof.
template <class T, class Member>
MILLRACE_DEVICE uint32_t words_before(Member T::* member) {
    constexpr uintptr_t kSomewhere = 4096;
    const auto& there = reinterpret_cast<const T*>(kSomewhere)->*member;
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(&there) - kSomewhere) / 4;
}

/// Members of a value that are made of words of 64 bits.
template <class T>
struct NoWords {
    static constexpr uint32_t kWords = 0;
    MILLRACE_DEVICE static uint64_t* words(const T&) { return nullptr; }
    MILLRACE_DEVICE static uint32_t first() { return 0; }  ///< where they begin in the value, in words of 32 bits
};
template <class Member>
struct SomeWords {
    static constexpr uint32_t kWords = sizeof(Member) / sizeof(uint64_t);
    static_assert(sizeof(Member) % sizeof(uint64_t) == 0 && alignof(Member) == sizeof(uint64_t),
                  "'tally' and 'sums' are made of words of 64 bits");
};
/// The member `tally`, if it has one: packets only add to it, and it decides on nothing.
template <class T>
struct TallyOf : NoWords<T> {};
template <class T>
    requires requires(T& value) { value.tally; }
struct TallyOf<T> : SomeWords<decltype(T::tally)> {
    MILLRACE_DEVICE static uint64_t* words(T& value) { return reinterpret_cast<uint64_t*>(&value.tally); }
    MILLRACE_DEVICE static const uint64_t* words(const T& value) {
        return reinterpret_cast<const uint64_t*>(&value.tally);
    }
    MILLRACE_DEVICE static uint32_t first() { return words_before(&T::tally); }
};
/// The member `sums`, if it has one: packets mostly add to it, or take from it, as much whatever it is (together.hpp).
template <class T>
struct SumsOf : NoWords<T> {};
template <class T>
    requires requires(T& value) { value.sums; }
struct SumsOf<T> : SomeWords<decltype(T::sums)> {
    MILLRACE_DEVICE static uint32_t first() { return words_before(&T::sums); }
};

/// What a packet of `Nf` wants, and what was decided on it ahead of sequence.
template <class Nf>
struct WantedAhead : Wanted<Nf> {
    using State = decltype(Nf::Tables::state);
    using Value = typename State::Value;
    using Tally = TallyOf<Value>;

    /// What it was decided by.
    enum class By : uint32_t {
        no_key,   ///< there is nothing to be known
        entry,    ///< the key's entry
        absent,   ///< that there is none
        refused,  ///< that there is none and no room either
    };

    Ahead what = Ahead::no;
    By by = By::no_key;
    uint32_t through = 0;  ///< the latest batch whose changes it knows, by the lower bits of its number
    Decision decision{};
    uint64_t place = 0;                          ///< of the entry
    uint64_t now = 0;                            ///< when the packet came
    uint64_t deadline_before = 0, deadline = 0;  ///< without the packet, and with it
    uint64_t tally[Tally::kWords + 1] = {};      ///< of one that passes: what it adds; else what was there before
    Value value{};                               ///< of one that changes: what it leaves

    /// Decides on the packet, if it may, knowing what the batches up to `up_to` have changed. Another batch may be
    /// changing the state meanwhile: what comes of that does not hold.
    MILLRACE_DEVICE void decide(Packet& packet, const typename Nf::Tables& tables, bool may, uint32_t up_to) {
        const State& state = tables.state;
        what = Ahead::no;
        if (!may) return;
        by = By::no_key;
        through = up_to;
        now = packet.time_ns();
        Value before{}, after;
        deadline_before = deadline = KeyedEntry<Value>::later(now, state.timeout_ns);
        KeyedEntry<Value> entry;
        bool is_new = false;
        if (this->lookup != Lookup::none) {
            place = state.place_of(this->key, this->hash);
            by = place != State::kNoPlace ? By::entry : By::absent;
            is_new = by == By::absent && this->lookup == Lookup::create;
            if (is_new && state.room_for(this->hash, now) == State::kNoPlace) by = By::refused;
            is_new = is_new && by == By::absent;
            if (by == By::entry) {
                deadline_before = state.deadlines[place];
                if (deadline_before < now) return;  // it ends: in sequence
                before = state.entries[place].value;
            }
            if (by == By::entry || is_new)
                entry = KeyedEntry<Value>(&after, &deadline, deadline_before, now, is_new, false);
            else entry = KeyedEntry<Value>(nullptr, nullptr, 0, now, false, by == By::refused);
        }
        after = before;
        decision = State::template process<Nf>(*this, packet, tables, entry);
        if (deadline == KeyedEntry<Value>::kRemoved) return;
        const bool is_changed = is_new || (by == By::entry && (deadline < deadline_before || changes(before, after)));
        what = is_changed ? Ahead::changes : Ahead::passes;
        if (is_changed) value = after;
        for (uint32_t k = 0; k < Tally::kWords; ++k)
            tally[k] = is_changed ? Tally::words(before)[k] : Tally::words(after)[k] - Tally::words(before)[k];
    }

    /// In sequence: what the decision is worth, as long as no packet of its bucket before it changes anything.
    MILLRACE_DEVICE Ahead holds(const typename Nf::Tables& tables) const {
        const State& state = tables.state;
        if (what == Ahead::no || by == By::no_key) return what;
        if (by == By::entry) {
            const bool is_newer = static_cast<int32_t>(state.entries[place].changed - through) > 0;
            // The entry may be gone, and a packet may have come at 0.
            const uint64_t until = state.deadlines[place];
            if (is_newer || until < now || until == KeyedEntry<Value>::kRemoved) return Ahead::no;
            if (what == Ahead::changes)
                for (uint32_t k = 0; k < Tally::kWords; ++k)
                    if (Tally::words(state.entries[place].value)[k] != tally[k]) return Ahead::no;
            return what;
        }
        if (state.place_of(this->key, this->hash) != State::kNoPlace) return Ahead::no;
        if (this->lookup != Lookup::create) return what;
        const bool has_room = state.room_for(this->hash, now) != State::kNoPlace;
        return has_room == (by == By::absent) ? what : Ahead::no;
    }
    /// Writes down what it makes of the state, for the batch. Of packets that pass many may do so at the same
    /// time.
    MILLRACE_DEVICE Decision apply(Packet& packet, const typename Nf::Tables& tables, Ahead worth,
                                   const InBatch& in_batch) const {
        const State& state = tables.state;
        if (by == By::refused) state.count(KeyedCount::refused);
        if (worth == Ahead::changes) {
            uint64_t at = place;
            if (by == By::absent) {
                at = state.room_for(this->hash, now);
                state.take(at, this->key, this->hash, now, typename State::template OnEndOf<Nf>{packet, tables});
            }
            auto& entry = state.entries[at];
            const InBatch in = state.template journaled_by<Nf>(in_batch);
            const uint32_t what_lasts = State::template lasting<Nf>(value);
            const bool lasts = in.journal != nullptr &&
                               (by == By::absent || State::template lasting<Nf>(entry.value) != what_lasts);
            entry.value = value;
            entry.changed = in.number;
            if (by == By::absent || deadline != deadline_before) state.deadlines[at] = deadline;
            if (lasts) state.write_down(at, what_lasts, in);
        } else if (by == By::entry) {
            for (uint32_t k = 0; k < Tally::kWords; ++k)
                if (tally[k] != 0) add_atomically(Tally::words(state.entries[place].value)[k], tally[k]);
            raise_atomically(state.deadlines[place], deadline);
        }
        return decision;
    }

    /// Decides on the packet in sequence.
    MILLRACE_DEVICE Decision decide_in_sequence(Packet& packet, const typename Nf::Tables& tables,
                                                const InBatch& in_batch) const {
        const State& state = tables.state;
        const InBatch in = state.template journaled_by<Nf>(in_batch);
        const Wanted<Nf> own = *this;
        const KeyedEntry<Value> entry = State::template entry_for<Nf>(own, packet, tables, in);
        const Value before = entry ? *entry : Value{};
        const Decision decided = State::template process<Nf>(own, packet, tables, entry);
        // What was decided ahead of sequence holds on where this changes nothing.
        if (entry && (entry.is_new() || changes(before, *entry)))
            state.entries[state.place_of(entry)].changed = in.number;
        const uint32_t what_lasts = entry ? State::template lasting<Nf>(*entry) : 0;
        const bool lasts = in.journal != nullptr && entry &&
                           (entry.is_new() || State::template lasting<Nf>(before) != what_lasts);
        state.settle(entry, in, lasts, what_lasts);
        return decided;
    }

    /// Whether more of the value is another than the tally.
    MILLRACE_DEVICE static bool changes(Value before, const Value& after) {
        for (uint32_t k = 0; k < Tally::kWords; ++k) Tally::words(before)[k] = Tally::words(after)[k];
        return !KeyWords<Value>::same(before, after);
    }
};

/// What a device keeps of a packet of `Nf` between the step that looks at keys and that which has the state.
template <class Nf>
struct WantedOnDevice {
    using Type = Wanted<Nf>;
};
template <DecidesAhead Nf>
struct WantedOnDevice<Nf> {
    using Type = WantedAhead<Nf>;
};

}  // namespace millrace::nf
