#include "millrace/nf/nids/alerts/threshold.hpp"

#include <algorithm>
#include <string_view>

#include "millrace/nf/nids/alerts/expiring.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::nf::nids {
namespace {

bool contains(const AddressRanges& addresses, const uint8_t* address, uint8_t version) {
    if (version == 4) return addresses.v4.contains(load_be32(address));
    return version == 6 && addresses.v6.contains(Wide{load_be64(address)} << 64 | load_be64(address + 8));
}

}  // namespace

bool is_suppressed(const Rule& rule, const Event& event) {
    return std::any_of(rule.suppressions.begin(), rule.suppressions.end(), [&](const Suppression& suppression) {
        if (!suppression.src && !suppression.dst) return true;
        return (suppression.src && contains(suppression.addresses, event.src, event.ip_version)) ||
               (suppression.dst && contains(suppression.addresses, event.dst, event.ip_version));
    });
}

size_t ThresholdTable::Hash::operator()(const Key& key) const {
    const std::string_view bytes(reinterpret_cast<const char*>(key.addresses.data()), key.addresses.size());
    return std::hash<std::string_view>{}(bytes) ^
           (static_cast<size_t>(key.gid) << 32 | key.sid) * 0x9e3779b97f4a7c15ull;
}

bool ThresholdTable::admits(const Rule& rule, const Event& event, uint64_t timestamp_ns) {
    if (!rule.threshold) return true;
    const Threshold& threshold = *rule.threshold;
    Key key{rule.gid, rule.sid};
    const bool src = threshold.track == Threshold::Track::by_src || threshold.track == Threshold::Track::by_both;
    const bool dst = threshold.track == Threshold::Track::by_dst || threshold.track == Threshold::Track::by_both;
    if (src) std::copy(std::begin(event.src), std::end(event.src), key.addresses.begin());
    if (dst) std::copy(std::begin(event.dst), std::end(event.dst), key.addresses.begin() + 16);

    if (entries_.size() >= kMaxEntries && !entries_.contains(key))
        forgotten_ += make_room(entries_, kMaxEntries, timestamp_ns, [](const Entry& entry) { return entry.end_ns; });
    const auto [at, is_new] = entries_.try_emplace(key);
    Entry& entry = at->second;
    const Entry fresh{timestamp_ns + uint64_t{threshold.seconds} * 1'000'000'000, 0};
    // A window begins with the alert that finds none, and its last instant belongs to it.
    if (is_new || timestamp_ns > entry.end_ns) entry = fresh;
    ++entry.count;
    switch (threshold.type) {
        case Threshold::Type::limit: return entry.count <= threshold.count;
        case Threshold::Type::both: return entry.count == threshold.count;
        case Threshold::Type::detection: return entry.count > threshold.count;
        case Threshold::Type::threshold:
            if (entry.count < threshold.count) return false;
            entry = fresh;
            return true;
    }
    return true;
}

}  // namespace millrace::nf::nids
