// Memory in which the kernels of a batch keep what none but them needs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "millrace/chain/program.hpp"
#include "millrace/device/kernel/batch.hpp"

namespace millrace::device {

/// What of it not all chains want.
struct WorkNeeds {
    bool in_parts = false;    ///< some NF runs in parts (nf::Parts), and keeps something of each packet between these
    size_t wanted_bytes = 0;  ///< the most of nf::Type::wanted_bytes

    static WorkNeeds of(const chain::Program& program, bool in_parts) {
        WorkNeeds needs{.in_parts = in_parts};
        for (const chain::Node& node : program.nodes)
            needs.wanted_bytes = std::max(needs.wanted_bytes, node.type->wanted_bytes);
        return needs;
    }
    bool covers(const WorkNeeds& other) const {
        return other.in_parts <= in_parts && other.wanted_bytes <= wanted_bytes;
    }
    WorkNeeds with(const WorkNeeds& other) const {
        return {in_parts || other.in_parts, std::max(wanted_bytes, other.wanted_bytes)};
    }
};

/// The arrays of a batch of at most `packets`, one behind the other.
class BatchWork {
public:
    BatchWork(size_t packets, const WorkNeeds& needs)
        : packets_((packets + kAlign - 1) / kAlign * kAlign), kept_words_(needs.in_parts ? kKeptWords : 0),
          wanted_bytes_(needs.wanted_bytes) {}
    size_t bytes() const {
        return packets_ * (sizeof(Packet) + sizeof(uint64_t) + sizeof(Decision) + (1 + kept_words_) * sizeof(uint32_t) +
                           wanted_bytes_ + 2 * sizeof(uint16_t)) +
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
        if (wanted_bytes_ != 0) next(view.wanted, wanted_bytes_);
        next(view.keys);
        next(view.ranks);
        next(view.at);
        next(view.key_table);  // of another length: the last
    }

private:
    static constexpr size_t kAlign = 64;  ///< packets, so that each array begins at a multiple of 64 bytes
    size_t packets_, kept_words_, wanted_bytes_;
};

}  // namespace millrace::device
