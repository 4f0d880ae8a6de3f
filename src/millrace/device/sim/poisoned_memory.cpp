#include "millrace/device/sim/poisoned_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace millrace::device::sim {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kFileBytes = size_t{4} << 20;
/// Below that a page fault for each page costs more than writing.
constexpr size_t kSmall = size_t{256} << 10;

constexpr size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// A file of poison that all large memory is mapped from; below 0: there is none.
int poison_file() {
    static const int file = [] {
        const int made = memfd_create("millrace-poison", MFD_CLOEXEC);
        const std::vector<uint8_t> poison(kFileBytes, PoisonedMemory::kPoison);
        if (made >= 0 && write(made, poison.data(), poison.size()) == static_cast<ssize_t>(poison.size())) return made;
        if (made >= 0) close(made);
        return -1;
    }();
    return file;
}

}  // namespace

PoisonedMemory::PoisonedMemory(size_t bytes, std::span<const uint8_t> content) : bytes_(bytes) {
    if (bytes_ >= kSmall) {
        map();
        map_anew(content.size());
        std::copy(content.begin(), content.end(), data_);
        return;
    }
    data_ = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, round_up(std::max<size_t>(bytes_, 1), kAlignment)));
    if (data_ == nullptr) throw std::bad_alloc();
    std::copy(content.begin(), content.end(), data_);
    std::memset(data_ + content.size(), kPoison, bytes_ - content.size());
}

void PoisonedMemory::map() {
    const size_t used = round_up(bytes_, kPage);
    mapped_bytes_ = used + 2 * kPage;
    void* const mapping = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    mapping_ = mapping;
    uint8_t* const begin = static_cast<uint8_t*>(mapping_) + kPage;
    const int file = poison_file();
    bool mapped = file >= 0;
    for (size_t at = 0; at < used && mapped; at += kFileBytes)
        mapped = mmap(begin + at, std::min(kFileBytes, used - at), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                      file, 0) != MAP_FAILED;
    if (!mapped) {
        if (mprotect(begin, used, PROT_READ | PROT_WRITE) != 0) {
            munmap(mapping_, mapped_bytes_);
            throw std::bad_alloc();
        }
        std::memset(begin, kPoison, used);
    }
    data_ = begin + used - round_up(bytes_, kAlignment);
}

/// Takes other pages for those that are about to be written from end to end: to copy poison for each of them would take
/// longer than to write it, and these may be large ones. Where there are none, the old ones stay.
void PoisonedMemory::map_anew(size_t content) {
    uint8_t* const begin = static_cast<uint8_t*>(mapping_) + kPage;
    const size_t first = round_up(static_cast<size_t>(data_ - begin), kPage);
    const size_t end = (static_cast<size_t>(data_ - begin) + content) / kPage * kPage;
    if (end < first + kSmall) return;
    void* const pages = mmap(begin + first, end - first, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (pages != MAP_FAILED) madvise(pages, end - first, MADV_HUGEPAGE);
}

PoisonedMemory::~PoisonedMemory() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
    else std::free(data_);
}

}  // namespace millrace::device::sim
