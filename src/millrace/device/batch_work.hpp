// Memory in which the kernels of a batch keep what none but them needs.
#pragma once

#include <bit>
#include <cstddef>

#include "millrace/device/kernel/batch.hpp"

namespace millrace::device {

/// The arrays of a batch of at most `packets`, one behind the other.
class BatchWork {
public:
    /// `in_parts`: functions in parts run (nf::Parts), which keep something of each packet between these.
    BatchWork(size_t packets, bool in_parts)
        : packets_((packets + kAlign - 1) / kAlign * kAlign), kept_words_(in_parts ? kKeptWords : 0) {}
    size_t bytes() const {
        return packets_ * (sizeof(Packet) + sizeof(uint64_t) + sizeof(Decision) + (1 + kept_words_) * sizeof(uint32_t) +
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
        if (kept_words_ != 0) next(view.kept, kept_words_);
        next(view.keys);
        next(view.ranks);
        next(view.at);
        next(view.key_table);  // of another length: the last
    }

private:
    static constexpr size_t kAlign = 64;  ///< packets, so that each array begins at a multiple of 64 bytes
    size_t packets_, kept_words_;
};

}  // namespace millrace::device
