// Lists of numbers that the lanes of a packet have found, one list each, for all lanes to look through together: where
// one lane has found a long list, the others have not found any.
#pragma once

#include "millrace/packet/lanes.hpp"

namespace millrace::nf::nids {

/// No number of any list.
inline constexpr uint32_t kNoNumber = 0xffffffffu;

template <class T>
struct List {
    const T* first = nullptr;
    uint32_t count = 0;
};

/// `T`: what they are lists of, which a number alone makes.
template <class Lanes, class T>
class LaneLists {
public:
    /// The list of a lane, for this lane to set before `join`.
    MILLRACE_DEVICE List<T>& of(uint32_t lane) { return lists_.of(lane); }

    /// Puts the lists one behind the other, the lowest lane's first; all lanes at once. How many numbers they have.
    MILLRACE_DEVICE uint32_t join([[maybe_unused]] Lanes lanes) {
#if MILLRACE_GPU
        const uint32_t own = lists_.of(0).count;
        uint32_t behind = own;
        for (unsigned by = 1; by < Lanes::count; by *= 2) {
            const uint32_t more = __shfl_up_sync(lanes.mask(), behind, by, Lanes::count);
            if (lanes.rank() >= by) behind += more;
        }
        before_.of(0) = behind - own;
        return Lanes::count == 1 ? behind : __shfl_sync(lanes.mask(), behind, Lanes::count - 1, Lanes::count);
#else
        uint32_t total = 0;
        for (uint32_t lane = 0; lane < Lanes::count; ++lane) {
            before_.of(lane) = total;
            total += lists_.of(lane).count;
        }
        return total;
#endif
    }

    /// What they have from the `base`th on, one for each lane; kNoNumber behind the last of `total`. All lanes at once.
    MILLRACE_DEVICE PerLane<T, Lanes> next(uint32_t base, uint32_t total, [[maybe_unused]] Lanes lanes) {
        PerLane<T, Lanes> numbers;
#if MILLRACE_GPU
        numbers.of(0) = number(base + lanes.rank(), total, [&](auto own, uint32_t lane) {
            return Lanes::count == 1 ? own : __shfl_sync(lanes.mask(), own, static_cast<int>(lane), Lanes::count);
        });
#else
        for (uint32_t lane = 0; lane < Lanes::count; ++lane) {
            uint32_t owner = Lanes::count - 1;
            while (before_.of(owner) > base + lane) --owner;
            const uint32_t at = base + lane - before_.of(owner);
            numbers.of(lane) = base + lane < total ? lists_.of(owner).first[at] : T{kNoNumber};
        }
#endif
        return numbers;
    }

private:
#if MILLRACE_GPU
    /// `ask` gives what another lane has of a value that each lane has.
    template <class Ask>
    MILLRACE_DEVICE T number(uint32_t i, uint32_t total, Ask&& ask) {
        uint32_t owner = 0;  // the last lane with at most `i` numbers before its own
        for (unsigned step = Lanes::count / 2; step > 0; step /= 2)
            if (ask(before_.of(0), owner + step) <= i) owner += step;
        const auto first = reinterpret_cast<const T*>(
            ask(reinterpret_cast<unsigned long long>(lists_.of(0).first), owner));
        const uint32_t at = i - ask(before_.of(0), owner);
        return i < total ? first[at] : T{kNoNumber};
    }
#endif

    PerLane<List<T>, Lanes> lists_;
    PerLane<uint32_t, Lanes> before_;  ///< numbers of the lanes before
};

}  // namespace millrace::nf::nids
