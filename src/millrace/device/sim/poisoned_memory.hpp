// Memory of a simulated device: what nobody has written reads as poison, and costs next to nothing to set aside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::device::sim {

/// Owns `bytes` of memory that begin as `content` and, behind it, as kPoison. Large ones are a file's pages, copied
/// when they are written to, between pages that nobody may touch: an access beyond the end faults.
class PoisonedMemory {
public:
    static constexpr uint8_t kPoison = 0xa5;
    /// Of the address, and what the end is rounded up to.
    static constexpr size_t kAlignment = 256;

    /// Throws std::bad_alloc.
    explicit PoisonedMemory(size_t bytes, std::span<const uint8_t> content = {});
    ~PoisonedMemory();
    PoisonedMemory(const PoisonedMemory&) = delete;
    PoisonedMemory& operator=(const PoisonedMemory&) = delete;

    uint8_t* data() const { return data_; }
    size_t size() const { return bytes_; }

private:
    void map();
    void map_anew(size_t content);

    const size_t bytes_;
    uint8_t* data_ = nullptr;
    void* mapping_ = nullptr;  // null: data_ is of the heap
    size_t mapped_bytes_ = 0;
};

}  // namespace millrace::device::sim
