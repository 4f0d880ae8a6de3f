// Reserved addresses of the CUDA driver's interface, and memory that is mapped there.
#include "driver.hpp"

using namespace emulator;

namespace {

/// CUmemAllocationProp, CUmemAccessDesc: as far as they are looked at.
struct Place {
    unsigned kind;
    int ordinal;
};
struct Kind {
    unsigned kind, handle_kinds;
    Place place;
};
struct Access {
    Place place;
    unsigned flags;
};
constexpr unsigned kPinned = 1, kOnDevice = 1, kReadsAndWrites = 3;

bool is_own(const Place& place) { return place.kind == kOnDevice && place.ordinal == current->ordinal; }
int answer(bool good) { return good ? kSuccess : kInvalidValue; }

}  // namespace

extern "C" {

int cuMemGetAllocationGranularity(size_t* bytes, const Kind* kind, unsigned) {
    ANSWER_TROUBLE;
    *bytes = Mappings::kGranularity;
    return answer(kind->kind == kPinned && is_own(kind->place));
}
int cuMemAddressReserve(uintptr_t* address, size_t bytes, size_t alignment, uintptr_t, unsigned long long flags) {
    ANSWER_TROUBLE;
    return answer(flags == 0 && current->memory.mappings().reserve(bytes, alignment, *address));
}
int cuMemAddressFree(uintptr_t address, size_t bytes) {
    ANSWER_TROUBLE;
    return answer(current->memory.mappings().unreserve(address, bytes));
}
int cuMemCreate(uint64_t* memory, size_t bytes, const Kind* kind, unsigned long long flags) {
    ANSWER_TROUBLE;
    if (flags != 0 || kind->kind != kPinned || !is_own(kind->place)) return kInvalidValue;
    if (!current->memory.use(bytes)) return kOutOfMemory;
    *memory = current->memory.mappings().create(bytes);
    if (*memory == 0) current->memory.unuse(bytes);
    return answer(*memory != 0);
}
int cuMemRelease(uint64_t memory) {
    ANSWER_TROUBLE;
    size_t bytes = 0;
    const bool good = current->memory.mappings().release(memory, bytes);
    current->memory.unuse(bytes);
    return answer(good);
}
int cuMemMap(uintptr_t address, size_t bytes, size_t offset, uint64_t memory, unsigned long long flags) {
    ANSWER_TROUBLE;
    return answer(flags == 0 && current->memory.mappings().map(address, bytes, offset, memory));
}
int cuMemUnmap(uintptr_t address, size_t bytes) {
    ANSWER_TROUBLE;
    // What runs may still use it: a driver waits for nothing here, and the kernel dies.
    size_t back = 0;
    const bool good = current->memory.mappings().unmap(address, bytes, back);
    current->memory.unuse(back);
    return answer(good);
}
int cuMemSetAccess(uintptr_t address, size_t bytes, const Access* access, size_t count) {
    ANSWER_TROUBLE;
    if (count != 1 || !is_own(access->place) || access->flags != kReadsAndWrites) return kInvalidValue;
    return answer(current->memory.mappings().open(address, bytes));
}
}
