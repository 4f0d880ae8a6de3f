#include "millrace/nftest/packets/field_map.hpp"

#include <algorithm>

#include "millrace/packet/field_ranges.hpp"

namespace millrace::nftest {

std::vector<Fields> fields_of_bytes(const Frame& frame, const Layers& layers) {
    std::vector<Fields> map(frame.size(), field::payload);
    for_each_field(static_cast<uint32_t>(frame.size()), layers,
                   [&](uint32_t at, uint32_t bytes, Fields fields) { std::fill_n(map.begin() + at, bytes, fields); });
    return map;
}

}  // namespace millrace::nftest
