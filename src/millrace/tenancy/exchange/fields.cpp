#include "millrace/tenancy/exchange/fields.hpp"

#include <algorithm>

#include "millrace/packet/field_ranges.hpp"

namespace millrace::tenancy {
namespace {

constexpr uint32_t kOptionsBytes = 512;
/// By bit: the longest that a field can be. IPv6's version shares its first byte with what `ip.tos` is there.
constexpr uint32_t kFieldBytes[kFieldCount] = {6, 6, 2, 16, 1, 4, 2,  2, 2, 1, 1, 2, 16, 16, kOptionsBytes,
                                               2, 2, 4, 4,  2, 2, 42, 2, 2, 2, 4, 0, 0};
constexpr uint32_t kArpBytes = 28;

}  // namespace

uint32_t most_bytes(Fields fields, uint32_t payload) {
    uint32_t bytes = fields.overlaps(field::payload) ? payload : 0;
    for (unsigned bit = 0; bit < kFieldCount; ++bit)
        if (fields.bits & (1u << bit)) bytes += kFieldBytes[bit];
    return fields.contains(field::ip) ? std::max(bytes, kArpBytes) : bytes;
}

uint32_t packed_bytes(uint32_t length, const Layers& layers, Fields fields) {
    uint32_t all = 0;
    for_each_declared(length, layers, fields, [&](uint32_t, uint32_t bytes) { all += bytes; });
    return all;
}

void pack(const uint8_t* frame, uint32_t length, const Layers& layers, Fields fields, uint8_t* to) {
    for_each_declared(length, layers, fields,
                      [&](uint32_t at, uint32_t bytes) { to = std::copy_n(frame + at, bytes, to); });
}

void unpack(const uint8_t* from, uint8_t* frame, uint32_t length, const Layers& layers, Fields fields) {
    for_each_declared(length, layers, fields, [&](uint32_t at, uint32_t bytes) {
        std::copy_n(from, bytes, frame + at);
        from += bytes;
    });
}

uint32_t extent(uint32_t length, const Layers& layers, Fields fields) {
    uint32_t end = 0;
    for_each_declared(length, layers, fields, [&](uint32_t at, uint32_t bytes) { end = std::max(end, at + bytes); });
    return end;
}

}  // namespace millrace::tenancy
