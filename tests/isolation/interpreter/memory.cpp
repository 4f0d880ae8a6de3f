#include "isolation/interpreter/memory.hpp"

#include <sys/mman.h>

#include <stdexcept>

namespace millrace::test::ptx_machine {

constexpr uint64_t kWindowBytes = uint64_t{1} << 32;

Window::Window(uint64_t begin, uint32_t guard_bytes)
    : begin_(begin), guard_bytes_(guard_bytes), all_bytes_(kWindowBytes + 2 * guard_bytes_) {
    void* made = mmap(nullptr, all_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) throw std::runtime_error("no address space for a window of 4 GiB");
    memory_ = static_cast<uint8_t*>(made);
}

Window::~Window() { munmap(memory_, all_bytes_); }

uint8_t* Window::find(uint64_t address, uint64_t bytes) {
    const uint64_t first = begin_ - guard_bytes_;
    if (address < first || address - first > all_bytes_ || bytes > all_bytes_ - (address - first)) return nullptr;
    return memory_ + (address - first);
}

uint8_t* Window::reach(uint64_t address, uint64_t bytes) {
    const bool within = address >= begin_ && address - begin_ <= kWindowBytes - bytes;
    return within || open_guards_ ? find(address, bytes) : nullptr;
}

std::span<uint8_t> Window::at(uint64_t address, uint64_t bytes) {
    uint8_t* const found = find(address, bytes);
    if (found == nullptr) throw std::out_of_range("bytes that are not in the window");
    return {found, bytes};
}

void Window::clear() { madvise(memory_, all_bytes_, MADV_DONTNEED); }

const char* name_of(Violation::Kind kind) {
    switch (kind) {
        case Violation::Kind::none: return "none";
        case Violation::Kind::outside: return "outside";
        case Violation::Kind::misaligned: return "misaligned";
        case Violation::Kind::unset: return "unset";
        case Violation::Kind::constant: return "constant";
        case Violation::Kind::endless: return "endless";
        case Violation::Kind::deep: return "deep";
    }
    return "";
}

}  // namespace millrace::test::ptx_machine
