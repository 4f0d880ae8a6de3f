// What the search of a packet has found, for whoever knows its flow later.
#pragma once

#include "millrace/packet/counter.hpp"
#include "millrace/packet/decision.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::nids {

/// The rules that a packet meets by itself, if its flow allows.
struct RuleNote {
    static constexpr uint32_t kMaxRules = 12;
    uint32_t pass = kNoDetail, drop = kNoDetail;  ///< the lowest of those that ask for no flow and say so
    uint32_t count = 0;
    uint32_t rules[kMaxRules];  ///< ascending: those that ask for a flow, and those that alert
};

/// Room for notes of packets between `process` and `commit`: a ring. One that is written over before it was read is
/// lost; the rules are asked again then. There are more than packets that devices search at once, so that no two are
/// written to one place at the same time. A member of NidsTables.
struct RuleNotes {
    static constexpr uint32_t kWords = 16;  ///< of a note: its number, the count, pass, drop, the rules
    static constexpr uint32_t kUsual = 256 * 1024;
    enum Count : uint32_t { kTaken, kLost, kCounts };

    MutableView<uint32_t> words;   ///< kWords a note, of which there is a power of two; none: nothing can be noted
    MutableView<uint64_t> counts;  ///< by Count

    /// By one lane. `alerts`: ascending, at most kMaxRules that differ. The note's number, which is not kNoDetail.
    template <class Alerts>
    MILLRACE_DEVICE uint32_t write(uint32_t pass, uint32_t drop, const Alerts& alerts) const {
        const auto number = static_cast<uint32_t>(add(kTaken)) & kNumbers;
        uint32_t* const at = place(number);
        store(at, kNobodys);
        fence();
        uint32_t count = 0;
        for (uint32_t i = 0; i < alerts.count(); ++i)
            if (i == 0 || alerts[i] != alerts[i - 1]) store(at + 4 + count++, alerts[i]);
        store(at + 1, count);
        store(at + 2, pass);
        store(at + 3, drop);
        fence();
        store(at, number);
        return number;
    }
    /// False where it is lost.
    MILLRACE_DEVICE bool read(uint32_t number, RuleNote& note) const {
        const uint32_t* const at = place(number);
        const bool there = load(at) == number;
        fence();
        note.count = smaller(load(at + 1), RuleNote::kMaxRules);
        note.pass = load(at + 2);
        note.drop = load(at + 3);
        for (uint32_t i = 0; i < note.count; ++i) note.rules[i] = load(at + 4 + i);
        fence();
        if (there && load(at) == number) return true;
        add(kLost);
        return false;
    }

private:
    static constexpr uint32_t kNumbers = 0x7fffffffu, kNobodys = 0xffffffffu;

    MILLRACE_DEVICE uint32_t* place(uint32_t number) const {
        const auto notes = static_cast<uint32_t>(words.size() / kWords);
        return words.data() + uint64_t{number & (notes - 1)} * kWords;
    }
    MILLRACE_DEVICE uint64_t add(Count what) const { return add_atomically(counts[what], 1); }
#if MILLRACE_GPU
    MILLRACE_DEVICE static void store(uint32_t* at, uint32_t value) {
        *reinterpret_cast<volatile uint32_t*>(at) = value;
    }
    MILLRACE_DEVICE static uint32_t load(const uint32_t* at) { return *reinterpret_cast<const volatile uint32_t*>(at); }
    MILLRACE_DEVICE static void fence() { __threadfence(); }
#else
    static void store(uint32_t* at, uint32_t value) { __atomic_store_n(at, value, __ATOMIC_RELAXED); }
    static uint32_t load(const uint32_t* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
    static void fence() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
#endif
};

}  // namespace millrace::nf::nids
