// Addresses that were reserved, and memory that was made apart from them and is mapped there: cuMemAddressReserve,
// cuMemCreate, cuMemMap, cuMemSetAccess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace emulator {

/// Those of one GPU. Each function answers whether a driver would: false stands for CUDA_ERROR_INVALID_VALUE.
class Mappings {
public:
    /// Sizes and places are multiples of that.
    static constexpr size_t kGranularity = 2 << 20;

    bool reserve(size_t bytes, size_t alignment, uintptr_t& address);
    /// Nothing may be mapped there any more.
    bool unreserve(uintptr_t address, size_t bytes);
    /// 0: there is none.
    uint64_t create(size_t bytes);
    /// Of memory that is mapped, too: it goes when it is unmapped. `bytes`: what goes back now.
    bool release(uint64_t memory, size_t& bytes);
    /// All within one reservation, and where nothing is mapped.
    bool map(uintptr_t address, size_t bytes, size_t offset, uint64_t memory);
    /// Whole mappings, one or several. `bytes_back`: what goes back now.
    bool unmap(uintptr_t address, size_t bytes, size_t& bytes_back);
    /// Lets kernels and copies touch what is mapped there, without a hole.
    bool open(uintptr_t address, size_t bytes);
    bool may_touch(uintptr_t address, size_t bytes);

private:
    struct Mapped {
        size_t bytes;
        uint64_t memory;
        bool opened;
    };
    struct Memory {
        int file;
        size_t bytes;
        unsigned mapped = 0;
        bool released = false;
    };
    size_t end(std::map<uint64_t, Memory>::iterator memory);

    std::mutex mutex_;
    std::map<uintptr_t, size_t> reserved_;
    std::map<uintptr_t, Mapped> mapped_;
    std::map<uint64_t, Memory> memories_;
    uint64_t next_ = 1;
};

}  // namespace emulator
