// Memory in which the kernels of a batch keep what none but them needs.
#pragma once

#include <bit>
#include <cstddef>

#include "millrace/device/kernel/batch.hpp"

namespace millrace::device {

/// The arrays of a batch of at most `packets`, one behind the other.
class BatchWork {
public:
    explicit BatchWork(size_t packets) : packets_((packets + kAlign - 1) / kAlign * kAlign) {}
    size_t bytes() const {
        return packets_ * (sizeof(Packet) + sizeof(uint64_t) + sizeof(Decision) + (1 + kKeptWords) * sizeof(uint32_t) +
                           2 * sizeof(uint16_t)) +
               std::bit_ceil(2 * packets_) * sizeof(uint64_t);
    }
    /// Tells a batch where they lie in `memory`, which begins at a multiple of 64.
    void place(BatchView& view, uint8_t* memory) const {
        const auto next = [&]<class T>(T*& array, size_t of_each = 1) {
            array = reinterpret_cast<T*>(memory);
            memory += packets_ * of_each * sizeof(T);
        };
        next(view.packets);
        next(view.bases);
        next(view.decisions);
        next(view.kept, kKeptWords);
        next(view.keys);
        next(view.ranks);
        next(view.at);
        next(view.key_table);  // of another length: the last
    }

private:
    static constexpr size_t kAlign = 64;  ///< packets, so that each array begins at a multiple of 64 bytes
    size_t packets_;
};

}  // namespace millrace::device
