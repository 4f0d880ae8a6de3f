#include "millrace/nf/nids/alerts/host_bits.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "millrace/nf/nids/alerts/expiring.hpp"

namespace millrace::nf::nids {

size_t HostBits::Hash::operator()(const Key& key) const {
    const std::string_view bytes(reinterpret_cast<const char*>(key.addresses.data()), key.addresses.size());
    const uint64_t rest = uint64_t{key.name} << 16 | uint64_t{key.ip_version} << 8 | key.is_pair;
    return std::hash<std::string_view>{}(bytes) ^ rest * 0x9e3779b97f4a7c15ull;
}

HostBits::Key HostBits::key_of(const HostBit& bit, const Event& event) {
    Key key;
    key.name = names_.emplace(bit.name, static_cast<uint32_t>(names_.size())).first->second;
    key.ip_version = event.ip_version;
    key.is_pair = bit.track == HostBit::Track::pair;
    const uint8_t *first = event.src, *second = event.dst;
    if (bit.track == HostBit::Track::destination || (key.is_pair && std::memcmp(first, second, 16) > 0))
        std::swap(first, second);
    std::copy_n(first, 16, key.addresses.begin());
    if (key.is_pair) std::copy_n(second, 16, key.addresses.begin() + 16);
    return key;
}

bool HostBits::is_set(const Key& key, uint64_t now_ns) const {
    const auto found = ends_.find(key);
    return found != ends_.end() && now_ns <= found->second;
}

/// As Suricata does it, a bit that is set already keeps its time.
void HostBits::change(const HostBit& bit, const Key& key, uint64_t now_ns) {
    const bool was_set = is_set(key, now_ns);
    if (bit.verb == StateVerb::unset || (bit.verb == StateVerb::toggle && was_set)) return void(ends_.erase(key));
    if (was_set) return;
    if (ends_.size() >= kMaxEntries && !ends_.contains(key))
        forgotten_ += make_room(ends_, kMaxEntries, now_ns, [](uint64_t end) { return end; });
    ends_[key] = now_ns + uint64_t{bit.seconds} * 1'000'000'000;
}

bool HostBits::admit(const Rule& rule, const Event& event, uint64_t timestamp_ns) {
    for (const HostBit& bit : rule.host_bits)
        if (bit.asks() && is_set(key_of(bit, event), timestamp_ns) != (bit.verb == StateVerb::is_set)) return false;
    for (const HostBit& bit : rule.host_bits)
        if (!bit.asks()) change(bit, key_of(bit, event), timestamp_ns);
    return true;
}

}  // namespace millrace::nf::nids
