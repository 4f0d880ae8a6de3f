// Looking through the bytes of a payload, all lanes of the packet together.
#pragma once

#include "millrace/packet/lanes.hpp"

namespace millrace::nf::nids {

/// The first i in [begin, end) for which `holds(i)` does, `end` when there is none. It may be asked of any i of them.
template <class Lanes, class Holds>
MILLRACE_DEVICE uint32_t first_where(Lanes lanes, uint32_t begin, uint32_t end, Holds&& holds) {
    if constexpr (Lanes::count == 1) {
        while (begin < end && !holds(begin)) ++begin;
        return begin < end ? begin : end;
    } else {
        // Four loads of each lane are on their way at once.
        constexpr uint32_t kNone = 0xffffffffu, kAtOnce = Lanes::count * 4;
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (; begin < end; begin += kAtOnce) {
            const uint32_t found = lanes.minimum(smaller(kAtOnce, end - begin),
                                                 [&](uint32_t k) { return holds(begin + k) ? begin + k : kNone; });
            if (found != kNone) return found;
        }
        return end;
    }
}

}  // namespace millrace::nf::nids
