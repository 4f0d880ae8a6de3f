// Entries that end by themselves, in a table with room for so many.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::nf::nids {

/// Lets go of what has ended before `now_ns`; where that are none, of the half that would end first. How many were
/// forgotten before their end. `end_of`: of an entry, its last instant.
template <class Entries, class EndOf>
size_t make_room(Entries& entries, size_t most, uint64_t now_ns, EndOf&& end_of) {
    std::erase_if(entries, [&](const auto& entry) { return end_of(entry.second) < now_ns; });
    if (entries.size() < most) return 0;
    std::vector<uint64_t> ends;
    ends.reserve(entries.size());
    for (const auto& [key, entry] : entries) ends.push_back(end_of(entry));
    const auto middle = ends.begin() + static_cast<ptrdiff_t>(ends.size() / 2);
    std::nth_element(ends.begin(), middle, ends.end());
    const uint64_t oldest = *middle;
    return std::erase_if(entries, [&](const auto& entry) { return end_of(entry.second) <= oldest; });
}

}  // namespace millrace::nf::nids
