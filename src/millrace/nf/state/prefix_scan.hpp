// Packets of one key that a block of a GPU's threads decides on in one pass, in sequence. Device code only.
//
// Some packets do to an entry what does not depend on it: they raise words of it, or add to them. What many of them do
// is then known from what each does, by an associative operator, so that all threads find out at the same time what
// the packets before their own have done: a prefix scan (G. E. Blelloch, "Prefix Sums and Their Applications",
// 1990). Each looks whether its packet does what it was taken to do, and the pass ends at the first that does not.
#pragma once

#include "millrace/nf/state/ahead.hpp"
#include "millrace/nf/state/key_run.hpp"

#if MILLRACE_GPU

namespace millrace::nf {

/// Whether packets of `Nf` have effects that can be scanned (README.md).
template <class Nf>
concept HasEffects = requires { typename Nf::Effect; };

/// For an `Nf` that decides ahead, and has effects.
template <class Nf>
class PrefixScan {
public:
    using State = decltype(Nf::Tables::state);
    using Value = typename State::Value;
    using Entry = KeyedEntry<Value>;
    using Effect = typename Nf::Effect;

    /// Decides on packets of `run`, of which this thread has one, as Together::decide does; `place`: of their entry, or
    /// kNoPlace; `has_key`: this one has the entry's key. Returns how many, from the first one on. All threads of the
    /// block come together.
    MILLRACE_DEVICE static uint32_t decide(Packet* packet, const typename Nf::Tables& tables,
                                           const WantedAhead<Nf>* wanted, const KeyRun& run, uint64_t place,
                                           bool has_key, const InBatch& in, Decision& decision) {
        const State& state = tables.state;
        const bool has_place = place != State::kNoPlace;
        Value value{};
        Effect all{};
        uint64_t now = 0, deadline = 0, kept_ns = 0;
        bool is_one = false;
        if (has_key) {
            value = state.entries[place].value;
            deadline = state.deadlines[place];
            now = packet->time_ns();
            kept_ns = Effect::kept_ns(tables, wanted->key, value);
            is_one = deadline != Entry::kRemoved && has_effect(*packet, *wanted, value, all);
            if (!is_one) all = Effect{};
        }
        // What the packets of the key up to this one do, those of this warp, then those before.
        for (uint32_t by = 1; by < 32; by *= 2) {
            Effect some = from_lane_below(all, by);
            if (run.lane < run.first_lane + by) continue;
            some.append(all);
            all = some;
        }
        Effect before = from_lane_below(all, 1);
        uint64_t now_before = __shfl_up_sync(KeyRun::kAll, static_cast<unsigned long long>(now), 1);
        if (run.lane == 31) {
            shared().effects[run.warp] = all;
            shared().times[run.warp] = now;
        }
        __syncthreads();
        if (run.lane == run.first_lane) before = Effect{};
        if (run.from_before) {
            Effect carried{};
            for (uint32_t from = run.warp_of_first; from < run.warp; ++from) carried.append(shared().effects[from]);
            Effect own = carried;
            own.append(before);
            before = own;
            carried.append(all);
            all = carried;
            if (run.lane == 0) now_before = shared().times[run.warp - 1];
        }
        if (threadIdx.x != run.head) deadline = Entry::later(now_before, kept_ns);
        const bool holds = is_one && deadline >= now && lets(before, *packet, *wanted, value);
        run.publish(!holds, shared().stops);
        __syncthreads();
        const uint32_t decided = has_place ? run.first_of(shared().stops) - run.head : 0;
        if (threadIdx.x >= run.head + decided) return decided;
        Value left = value;
        all.apply(left);
        decision = Effect::decide(*packet, left);
        if (threadIdx.x + 1 != run.head + decided) return decided;
        state.entries[place].value = left;
        state.deadlines[place] = Entry::later(now, kept_ns);
        if (WantedAhead<Nf>::changes(value, left)) state.entries[place].changed = in.number;
        if (in.journal != nullptr && State::template lasting<Nf>(value) != State::template lasting<Nf>(left))
            state.write_down(place, State::template lasting<Nf>(left), in);
        state.add(KeyedCount::scanned, decided);
        return decided;
    }

private:
    /// What warps tell each other.
    struct Shared {
        Effect effects[KeyRun::kWarps];
        uint64_t times[KeyRun::kWarps];
        uint32_t stops[KeyRun::kWarps];
    };
    MILLRACE_DEVICE static Shared& shared() {
        __shared__ Shared own;
        return own;
    }
    MILLRACE_DEVICE static bool has_effect(const Packet& packet, const WantedAhead<Nf>& wanted, const Value& value,
                                           Effect& effect) {
        if constexpr (HasNoted<Nf>) return Effect::by(packet, wanted.noted, value, effect);
        else return Effect::by(packet, value, effect);
    }
    MILLRACE_DEVICE static bool lets(const Effect& before, const Packet& packet, const WantedAhead<Nf>& wanted,
                                     const Value& value) {
        if constexpr (HasNoted<Nf>) return before.lets(packet, wanted.noted, value);
        else return before.lets(packet, value);
    }
    MILLRACE_DEVICE static Effect from_lane_below(const Effect& effect, uint32_t by) {
        static_assert(sizeof(Effect) % sizeof(uint32_t) == 0, "an effect is made of words of four bytes");
        uint32_t words[sizeof(Effect) / sizeof(uint32_t)];
        memcpy(words, &effect, sizeof words);
#pragma unroll
        for (uint32_t w = 0; w < sizeof words / sizeof words[0]; ++w)
            words[w] = __shfl_up_sync(KeyRun::kAll, words[w], by);
        Effect below;
        memcpy(&below, words, sizeof words);
        return below;
    }
};

}  // namespace millrace::nf

#endif
