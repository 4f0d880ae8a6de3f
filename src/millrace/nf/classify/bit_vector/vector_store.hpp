// Builds the tables of BitVectors: rows of chunks, every different block and row stored once.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "millrace/nf/classify/bit_vector/bit_vectors.hpp"

namespace millrace::nf::classify {

/// The tables would take more memory than allowed.
struct TablesTooLarge : std::length_error {
    using std::length_error::length_error;
};

/// Runs of `width` elements, numbered in the order in which they first came. T has no padding.
template <class T>
class UniqueRuns {
public:
    explicit UniqueRuns(size_t width) : width_(width), slots_(64, kFree) {}

    /// The number of the run at `run`, which is added unless it is known.
    uint32_t add(const T* run) {
        if (2 * (count_ + 1) > slots_.size()) grow();
        uint32_t& slot = slots_[slot_of(run)];
        if (slot == kFree) {
            slot = count_++;
            runs_.insert(runs_.end(), run, run + width_);
        }
        return slot;
    }
    const T* operator[](uint32_t number) const { return runs_.data() + number * width_; }
    uint64_t bytes() const { return runs_.size() * sizeof(T); }
    std::vector<T> take() { return std::move(runs_); }

private:
    static constexpr uint32_t kFree = 0xffffffffu;

    size_t slot_of(const T* run) const {
        const std::string_view bytes(reinterpret_cast<const char*>(run), width_ * sizeof(T));
        const size_t mask = slots_.size() - 1;
        size_t at = std::hash<std::string_view>{}(bytes)&mask;
        while (slots_[at] != kFree && std::memcmp((*this)[slots_[at]], run, bytes.size()) != 0) at = (at + 1) & mask;
        return at;
    }
    void grow() {
        slots_.assign(2 * slots_.size(), kFree);
        for (uint32_t number = 0; number < count_; ++number) slots_[slot_of((*this)[number])] = number;
    }

    size_t width_;
    uint32_t count_ = 0;
    std::vector<T> runs_;
    std::vector<uint32_t> slots_;  // open addressing; a power of two, at most half full
};

class VectorStore {
public:
    /// A vector under construction. Copying one is how a nested prefix starts from its parent.
    using Row = std::vector<BitVectors::Chunk>;

    /// For vectors of `bits` bits. Throws TablesTooLarge, here and later, beyond `limit_bytes`.
    VectorStore(size_t bits, uint64_t limit_bytes);

    Row empty_row() const { return Row(chunks_, {0, 0}); }
    /// Sets or clears the bits at `positions`, which ascend.
    void assign(Row& row, std::span<const uint32_t> positions, bool value);
    /// The number of the vector that equals `row`.
    uint32_t add(const Row& row);

    uint32_t chunks() const { return chunks_; }
    uint64_t bytes() const { return rows_.bytes() + blocks_.bytes(); }
    std::vector<BitVectors::Chunk> take_rows() { return rows_.take(); }
    std::vector<uint32_t> take_words() { return blocks_.take(); }

private:
    void check_limit() const;

    uint32_t chunks_;
    uint64_t limit_bytes_;
    UniqueRuns<BitVectors::Chunk> rows_;
    UniqueRuns<uint32_t> blocks_;
};

}  // namespace millrace::nf::classify
