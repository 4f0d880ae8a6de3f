#include "millrace/exec/fragments/partials.hpp"

#include <bit>
#include <cstring>
#include <random>
#include <utility>

#include "millrace/packet/bytes.hpp"

namespace millrace::exec {

Partials::Partials(uint32_t packets, size_t ports)
    : seed_(std::random_device{}() * uint64_t{0x9e3779b97f4a7c15}), partials_(packets),
      by_key_(std::bit_ceil(size_t{2} * packets), kNone), by_source_(by_key_.size(), kNone), ages_(ports + 1) {
    for (uint32_t i = 0; i < partials_.size(); ++i) partials_[i].next_of_key = i + 1;
    partials_.back().next_of_key = kNone;
}

uint64_t Partials::hash(const FragmentKey& key, bool source_only) const {
    uint64_t h = seed_ ^ (uint64_t{key.version} << 32 | uint64_t{key.vlans[0]} << 16 | key.vlans[1]);
    const auto add = [&](uint64_t word) {
        h = (h ^ word) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    };
    add(load_raw<uint64_t>(key.src));
    add(load_raw<uint64_t>(key.src + 8));
    add(key.port);
    if (source_only) return h;
    add(load_raw<uint64_t>(key.dst));
    add(load_raw<uint64_t>(key.dst + 8));
    add(uint64_t{key.id} << 8 | key.protocol);
    return h;
}

uint32_t Partials::find(const FragmentKey& key) {
    uint32_t index = key_bucket(key);
    while (index != kNone && std::memcmp(&partials_[index].key, &key, sizeof key) != 0)
        index = partials_[index].next_of_key;
    return index;
}

Partials::OfSource Partials::of_source(const FragmentKey& key) {
    OfSource found;
    for (uint32_t i = source_bucket(key); i != kNone; i = partials_[i].next_of_source) {
        const FragmentKey& other = partials_[i].key;
        if (std::memcmp(other.src, key.src, sizeof key.src) != 0 || other.version != key.version ||
            other.port != key.port || std::memcmp(other.vlans, key.vlans, sizeof key.vlans) != 0)
            continue;
        ++found.packets;
        found.oldest = i;
    }
    return found;
}

uint32_t Partials::oldest_of_any() const {
    const auto has_any = [](const Ages& ages) { return ages.oldest != kNone; };
    const auto found = std::ranges::find_if(ages_, has_any);
    return found != ages_.end() ? found->oldest : kNone;
}

uint32_t Partials::begin(const FragmentKey& key, uint64_t now_ns) {
    const uint32_t index = free_;
    Partial& partial = partials_[index];
    free_ = partial.next_of_key;
    partial.key = key;
    partial.packet = nullptr;
    partial.since_ns = now_ns;
    partial.bytes = 0;
    partial.ecn_seen = 0;
    partial.head_bytes = partial.total = partial.filled = partial.pieces = partial.largest = partial.largest_df = 0;
    uint32_t& same_key = key_bucket(key);
    partial.next_of_key = std::exchange(same_key, index);
    uint32_t& same_source = source_bucket(key);
    partial.next_of_source = std::exchange(same_source, index);
    Ages& ages = ages_[line_of(key.port)];
    partial.older = ages.newest;
    partial.newer = kNone;
    (ages.newest == kNone ? ages.oldest : partials_[ages.newest].newer) = index;
    ages.newest = index;
    return index;
}

void Partials::remove(uint32_t index) {
    Partial& partial = partials_[index];
    const auto unlink = [&](uint32_t& head, uint32_t Partial::* next) {
        uint32_t* link = &head;
        while (*link != index) link = &(partials_[*link].*next);
        *link = partial.*next;
    };
    unlink(key_bucket(partial.key), &Partial::next_of_key);
    unlink(source_bucket(partial.key), &Partial::next_of_source);
    Ages& ages = ages_[line_of(partial.key.port)];
    (partial.older == kNone ? ages.oldest : partials_[partial.older].newer) = partial.newer;
    (partial.newer == kNone ? ages.newest : partials_[partial.newer].older) = partial.older;
    partial.next_of_key = std::exchange(free_, index);
}

}  // namespace millrace::exec
