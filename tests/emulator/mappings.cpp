#include "mappings.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>

namespace emulator {
namespace {

bool is_whole(uint64_t value) { return value % Mappings::kGranularity == 0; }
void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }
/// What is there keeps its place, and may not be touched.
bool close_off(uintptr_t address, size_t bytes) {
    return mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
           MAP_FAILED;
}

}  // namespace

bool Mappings::reserve(size_t bytes, size_t alignment, uintptr_t& address) {
    if (alignment == 0) alignment = kGranularity;
    if (bytes == 0 || !is_whole(bytes) || !std::has_single_bit(alignment)) return false;
    void* const all = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return false;
    const auto begin = reinterpret_cast<uintptr_t>(all);
    address = (begin + alignment - 1) / alignment * alignment;
    if (address > begin) munmap(all, address - begin);
    if (const uintptr_t end = address + bytes; end < begin + bytes + alignment)
        munmap(pointer(end), begin + bytes + alignment - end);
    const std::lock_guard lock(mutex_);
    reserved_[address] = bytes;
    return true;
}

bool Mappings::unreserve(uintptr_t address, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = reserved_.find(address);
    if (found == reserved_.end() || found->second != bytes) return false;
    if (const auto inside = mapped_.lower_bound(address); inside != mapped_.end() && inside->first < address + bytes)
        return false;
    munmap(pointer(address), bytes);
    reserved_.erase(found);
    return true;
}

uint64_t Mappings::create(size_t bytes) {
    if (bytes == 0 || !is_whole(bytes)) return 0;
    const int file = memfd_create("emulated-memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return 0;
    const std::lock_guard lock(mutex_);
    memories_[next_] = {file, bytes};
    return next_++;
}

size_t Mappings::end(std::map<uint64_t, Memory>::iterator memory) {
    if (!memory->second.released || memory->second.mapped > 0) return 0;
    const size_t bytes = memory->second.bytes;
    close(memory->second.file);
    memories_.erase(memory);
    return bytes;
}

bool Mappings::release(uint64_t memory, size_t& bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = memories_.find(memory);
    if (found == memories_.end() || found->second.released) return false;
    found->second.released = true;
    bytes = end(found);
    return true;
}

bool Mappings::map(uintptr_t address, size_t bytes, size_t offset, uint64_t memory) {
    const std::lock_guard lock(mutex_);
    const auto made = memories_.find(memory);
    // The driver of an H100 maps no part of what was created.
    if (made == memories_.end() || made->second.released || !is_whole(address) || offset != 0 ||
        bytes != made->second.bytes)
        return false;
    auto range = reserved_.upper_bound(address);
    if (range == reserved_.begin()) return false;
    --range;
    if (address + bytes > range->first + range->second) return false;
    const auto next = mapped_.lower_bound(address);
    if (next != mapped_.end() && next->first < address + bytes) return false;
    if (next != mapped_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address) return false;
    if (mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, made->second.file, 0) == MAP_FAILED)
        return false;
    mapped_[address] = {bytes, memory, false};
    ++made->second.mapped;
    return true;
}

bool Mappings::unmap(uintptr_t address, size_t bytes, size_t& bytes_back) {
    const std::lock_guard lock(mutex_);
    const auto first = mapped_.find(address);
    auto last = first;
    uintptr_t at = address;
    for (; last != mapped_.end() && last->first == at && at < address + bytes; ++last) at += last->second.bytes;
    if (first == mapped_.end() || at != address + bytes) return false;
    close_off(address, bytes);
    for (auto one = first; one != last; ++one) {
        const auto memory = memories_.find(one->second.memory);
        --memory->second.mapped;
        bytes_back += end(memory);
    }
    mapped_.erase(first, last);
    return true;
}

bool Mappings::open(uintptr_t address, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto first = mapped_.find(address);
    auto last = first;
    uintptr_t at = address;
    for (; last != mapped_.end() && last->first == at && at < address + bytes; ++last) at += last->second.bytes;
    if (first == mapped_.end() || at != address + bytes) return false;
    if (mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) != 0) return false;
    for (auto one = first; one != last; ++one) one->second.opened = true;
    return true;
}

bool Mappings::may_touch(uintptr_t address, size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto found = mapped_.upper_bound(address);
    if (found == mapped_.begin()) return false;
    --found;
    for (uintptr_t at = found->first; found != mapped_.end() && found->first == at && found->second.opened; ++found) {
        at += found->second.bytes;
        if (address + bytes <= at) return true;
    }
    return false;
}

}  // namespace emulator
