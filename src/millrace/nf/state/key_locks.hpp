// Who has a bucket of state per key, where the CPU runs the function.
#pragma once

#include <cstdint>
#include <iterator>

#include "millrace/base/spin_lock.hpp"

namespace millrace::nf {

/// Packets of a key, one at a time; and whoever reads the state beside them. Keys share locks, as there may be
/// millions.
inline SpinLock& key_lock(uint32_t key) {
    struct alignas(64) Padded {
        SpinLock lock;
    };
    static Padded locks[4096];
    return locks[key % std::size(locks)].lock;
}

}  // namespace millrace::nf
