// Packets of one key that a block of a GPU's threads decides on together, in sequence, with what comes of them one
// after the other. Device code only.
//
// What a packet leaves of the entry is what the next one finds there: x(k + 1) = f(k, x(k)). The threads solve that by
// fixed-point iteration. Each decides on its packet with a guess of what the packets before it have left. From what
// comes of all of them the next guess is made, until no guess changes any more. The first packet's is right from the
// beginning, and each round makes at least one more right. So the result is the one of the sequence, whatever the
// guesses; good ones save rounds. A word of the value is guessed to be as the last packet has left it that has changed
// it; a word of its `tally` or its `sums` to be what all packets have added to it. Where few packets change what
// decides on others, that is right at once.
//
// Wrong guesses can make each other: a packet that would change nothing, seeing a wrong word, changes it, and so the
// next one sees a wrong one, too. Such a chain goes away by one packet a round. So in every sixth round only those
// count whose guess is right.
#pragma once

#include "millrace/nf/state/prefix_scan.hpp"

#if MILLRACE_GPU

namespace millrace::nf {

/// For an `Nf` that decides ahead (README.md): its `process` may run more than once for a packet.
template <class Nf>
class Together {
public:
    using State = decltype(Nf::Tables::state);
    using Value = typename State::Value;
    using Entry = KeyedEntry<Value>;

    /// Decides on packets of the block, one of each thread. Packets of a key are those of threads `head` to `end`, this
    /// one included, in order of arrival; `first` is what the first of them wants, `wanted` what this one does. A
    /// thread without a packet has null. Returns how many packets of the key have been decided on, from the first one
    /// on; their threads have `decision`, and the entry is written down for the batch, for all threads behind the
    /// next barrier. 0: the first one has no entry, or it has timed out, or it is alone; it must be decided on by
    /// itself. All threads of the block come together.
    MILLRACE_DEVICE static uint32_t decide(Packet* packet, const typename Nf::Tables& tables,
                                           const WantedAhead<Nf>* wanted, const WantedAhead<Nf>* first, uint32_t head,
                                           uint32_t end, const InBatch& in_batch, Decision& decision) {
        const State& state = tables.state;
        const InBatch in = state.template journaled_by<Nf>(in_batch);
        const bool is_alone = end - head == 1;
        uint64_t place = State::kNoPlace;
        if (packet != nullptr && first->lookup != Lookup::none && (HasEffects<Nf> || !is_alone))
            place = state.place_of(first->key, first->hash);
        const bool has_place = place != State::kNoPlace;
        // Another key of the bucket, which is rare, ends the run.
        const bool has_key = has_place && KeyWords<typename State::Key>::same(wanted->key, first->key);
        const uint64_t now = has_key ? packet->time_ns() : 0;
        const Run run(has_place ? head : threadIdx.x, has_place ? end : threadIdx.x + 1);
        uint32_t decided = 0;
        if constexpr (HasEffects<Nf>)
            decided = PrefixScan<Nf>::decide(packet, tables, wanted, run, place, has_key, in, decision);
        const bool is_guessed = has_place && decided == 0 && !is_alone;
        if (__syncthreads_count(is_guessed) == 0) return decided;

        Left found{}, before, after;
        if (is_guessed) found.set(state.entries[place].value, state.deadlines[place]);
        for (uint32_t w = 0; w < kWords; ++w) before.words[w] = after.words[w] = found.words[w];
        bool is_settled = !is_guessed, is_off = is_guessed, has_ended = false;
        uint32_t changed = 0, touched = 0;  // bits of words: by this packet; by any of the warp's, ever
        for (uint32_t round = 1; round <= kMaxRounds; ++round) {
            if (is_off) {
                for (uint32_t w = 0; w < kWords; ++w) after.words[w] = before.words[w];
                // Nothing may be left of it for this packet.
                const uint64_t deadline = before.long_word(kDeadline);
                has_ended = deadline < now || deadline == Entry::kRemoved;
                if (has_key && !has_ended) decision = process(*wanted, *packet, tables, after, deadline, now);
                changed = 0;
                for (uint32_t w = 0; w < kWords; ++w) changed |= (after.words[w] != before.words[w] ? 1u : 0u) << w;
            }
            const bool counts = !is_settled && (round % kBetweenRestarts != 0 || threadIdx.x <= run.head + decided);
            is_off = run.guess_next(is_settled, counts, changed, touched, found, before, after);
            // Whatever a value's padding says, so many are right.
            run.publish(!is_settled && (is_off || !counts) && threadIdx.x >= run.head + round, shared().wrong);
            run.publish(!is_settled && (!has_key || has_ended), shared().stops);
            __syncthreads();
            if (!is_settled) {
                const uint32_t wrong = run.first_of(shared().wrong), stop = run.first_of(shared().stops);
                decided = smaller(wrong, stop) - run.head;
                is_settled = stop <= wrong;
                if (is_settled) is_off = false;
            }
            if (__syncthreads_count(!is_settled) == 0) break;
        }

        if (!is_guessed || threadIdx.x >= run.head + decided) return decided;
        const uint32_t deciding = ((1u << kValueWords) - 1) & ~bits_of<Tally>();
        if ((changed & deciding) != 0) state.entries[place].changed = in.number;
        if (threadIdx.x + 1 == run.head + decided) write_down(state, place, after, now, in);
        return decided;
    }

private:
    /// Behind so many rounds what is right is taken as it is, and the rest begins anew.
    static constexpr uint32_t kMaxRounds = 32;
    static constexpr uint32_t kBetweenRestarts = 6;  ///< with 4 or 5 there are hardly more rounds, with 3 up to five
                                                     ///< times

    static constexpr uint32_t kValueWords = sizeof(Value) / sizeof(uint32_t), kDeadline = (kValueWords + 1) / 2 * 2,
                              kWords = kDeadline + 2;
    static_assert(kWords <= 32, "values that are decided on ahead have 120 bytes at most");

    /// What a packet leaves to the next one of its key: the value, and when the entry times out. Here they are words
    /// and nothing else: compilers take it that no memory is now of one type, now of another.
    struct Left {
        alignas(16) uint32_t words[kWords];

        MILLRACE_DEVICE Value value() const {
            Value own;
            memcpy(&own, words, sizeof own);
            return own;
        }
        MILLRACE_DEVICE void set(const Value& value, uint64_t deadline) {
            memcpy(words, &value, sizeof value);
            set_long_word(kDeadline, deadline);
        }
        MILLRACE_DEVICE uint64_t long_word(uint32_t w) const { return words[w] | uint64_t{words[w + 1]} << 32; }
        MILLRACE_DEVICE void set_long_word(uint32_t w, uint64_t to) {
            words[w] = static_cast<uint32_t>(to);
            words[w + 1] = static_cast<uint32_t>(to >> 32);
        }
    };

    // Words that are guessed by sums: those of the tally, then those of the sums.
    using Tally = TallyOf<Value>;
    using Sums = SumsOf<Value>;
    static constexpr uint32_t kSums = Tally::kWords + Sums::kWords;
    MILLRACE_DEVICE static uint32_t word_of_sum(uint32_t s) {
        return s < Tally::kWords ? Tally::first() + 2 * s : Sums::first() + 2 * (s - Tally::kWords);
    }
    template <class Member>
    MILLRACE_DEVICE static uint32_t bits_of() {
        return ((1u << 2 * Member::kWords) - 1) << Member::first();
    }

    MILLRACE_DEVICE_CALL static Decision process(const WantedAhead<Nf>& wanted, Packet& packet,
                                                 const typename Nf::Tables& tables, Left& left,
                                                 uint64_t deadline_before, uint64_t now) {
        Value value = left.value();
        uint64_t deadline = Entry::later(now, tables.state.timeout_ns);
        const Decision decision = State::template process<Nf>(
            wanted, packet, tables, Entry(&value, &deadline, deadline_before, now, false, false));
        left.set(value, deadline);
        return decision;
    }
    MILLRACE_DEVICE_CALL static void write_down(const State& state, uint64_t place, const Left& left, uint64_t now,
                                                const InBatch& in) {
        const Value value = left.value();
        const uint32_t what_lasts = State::template lasting<Nf>(value);
        const bool lasts = in.journal != nullptr &&
                           State::template lasting<Nf>(state.entries[place].value) != what_lasts;
        state.entries[place].value = value;
        state.deadlines[place] = left.long_word(kDeadline);
        state.settle(Entry(&state.entries[place].value, &state.deadlines[place], 0, now, false, false), in, lasts,
                     what_lasts);
    }

    /// What warps tell each other.
    struct Shared {
        uint32_t left[KeyRun::kWarps][kWords];
        uint64_t added[KeyRun::kWarps][kSums + 1];
        uint32_t written[KeyRun::kWarps], wrong[KeyRun::kWarps], stops[KeyRun::kWarps];
    };
    MILLRACE_DEVICE static Shared& shared() {
        __shared__ Shared own;
        return own;
    }
    struct Run : KeyRun {
        using KeyRun::KeyRun;
        /// Makes `before` of what was `found` and what all that count have left, `after`: the next guess. Whether it is
        /// another than it was.
        MILLRACE_DEVICE bool guess_next(bool is_settled, bool counts, uint32_t changed, uint32_t& touched,
                                        const Left& found, Left& before, const Left& after) const {
            Shared& block = shared();
            const uint32_t sums = bits_of<Tally>() | bits_of<Sums>();
            if (!counts) changed = 0;
            touched |= __reduce_or_sync(kAll, changed);
            // What the last lane's packets leave to those in the next warp.
            uint32_t written = 0;
            for (uint32_t rest = goes_on ? touched & ~sums : 0; rest != 0; rest &= rest - 1) {
                const uint32_t w = lowest(rest), writers = __ballot_sync(kAll, (changed >> w & 1) != 0) & of_last;
                if (writers == 0) continue;
                written |= 1u << w;
                if (lane == highest(writers)) block.left[warp][w] = after.words[w];
            }
            if (lane == 0) block.written[warp] = written;
            uint64_t added_below[kSums + 1];
#pragma unroll 1
            for (uint32_t s = 0; s < kSums; ++s) {
                const uint32_t w = word_of_sum(s);
                const uint64_t added = counts ? after.long_word(w) - before.long_word(w) : 0;
                uint64_t all = added;  // of the lanes with the key, up to this one
                for (uint32_t by = 1; by < 32; by *= 2) {
                    const uint64_t some = __shfl_up_sync(kAll, static_cast<unsigned long long>(all), by);
                    if (lane >= first_lane + by) all += some;
                }
                added_below[s] = all - added;
                if (lane == 31) block.added[warp][s] = all;
            }
            __syncthreads();
            // By warps before this one, of the first lane's key.
            uint32_t carried = 0;
            for (uint32_t from = warp_of_first; from < warp; ++from) carried |= block.written[from];
            touched |= carried;
            bool is_off = false;
            for (uint32_t rest = touched & ~sums; rest != 0; rest &= rest - 1) {
                const uint32_t w = lowest(rest), writers = __ballot_sync(kAll, (changed >> w & 1) != 0) & below;
                uint32_t guess = __shfl_sync(kAll, after.words[w], writers == 0 ? 0 : highest(writers));
                if (is_settled) continue;
                if (writers == 0) {
                    guess = found.words[w];
                    for (uint32_t from = warp_of_first; from_before && from < warp; ++from)
                        if ((block.written[from] >> w & 1) != 0) guess = block.left[from][w];
                }
                is_off |= guess != before.words[w];
                before.words[w] = guess;
            }
#pragma unroll 1
            for (uint32_t s = 0; s < kSums && !is_settled; ++s) {
                const uint32_t w = word_of_sum(s);
                uint64_t guess = found.long_word(w) + added_below[s];
                for (uint32_t from = warp_of_first; from_before && from < warp; ++from) guess += block.added[from][s];
                is_off |= guess != before.long_word(w);
                before.set_long_word(w, guess);
            }
            return is_off;
        }
    };
};

}  // namespace millrace::nf

#endif
