#include "millrace/base/large_pages.hpp"

#include <algorithm>
#include <thread>

namespace millrace {
namespace {

#ifndef MADV_POPULATE_WRITE  // since Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

constexpr size_t kPage = 4096;
/// What a thread takes at least: starting one costs as much as some pages.
constexpr size_t kShare = size_t{64} << 20;

void touch(uint8_t* memory, size_t bytes) {
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return;
    // Workers may be writing there meanwhile: a configuration is read again with the tables that it had.
    for (size_t at = 0; at < bytes; at += kPage) __atomic_fetch_or(memory + at, uint8_t{0}, __ATOMIC_RELAXED);
}

}  // namespace

void make_present(void* memory, size_t bytes) {
    auto* const first = static_cast<uint8_t*>(memory);
    const uintptr_t before = (0 - reinterpret_cast<uintptr_t>(memory)) % kPage;
    if (bytes <= before) return;
    uint8_t* const begin = first + before;
    const size_t whole = (bytes - before) / kPage * kPage;
    const size_t threads = std::clamp<size_t>(whole / kShare, 1, std::max(1u, std::thread::hardware_concurrency()));
    const size_t share = (whole / threads + kPage - 1) / kPage * kPage;
    std::vector<std::jthread> others;
    for (size_t at = share; at < whole; at += share)
        others.emplace_back([=] { touch(begin + at, std::min(share, whole - at)); });
    touch(begin, std::min(share, whole));
}

}  // namespace millrace
