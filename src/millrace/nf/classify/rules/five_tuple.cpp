#include "millrace/nf/classify/rules/five_tuple.hpp"

#include <algorithm>

namespace millrace::nf::classify {
namespace {

/// The values of `key`, each read by `read`; "any" stands alone and gives the empty list.
template <class T, class Read>
std::vector<T> read_list(const Config& map, const std::string& key, Read read) {
    const auto value = map.find(key);
    if (!value) return {};
    const std::vector<Config> items = value->items();
    if (items.empty())
        value->fail("'" + key + "' has no value", "leave '" + key + "' out, or write 'any', to match all");
    std::vector<T> list;
    for (const Config& item : items) {
        if (item.text() == "any") {
            if (items.size() > 1) item.fail("'any' stands in a list with other values", "write 'any' alone");
            return {};
        }
        try {
            list.push_back(read(item.text()));
        } catch (const WordMistake& mistake) {
            item.fail(mistake.message, mistake.hint);
        }
    }
    return list;
}

bool in_any(const std::vector<Prefix>& prefixes, uint8_t ip_version, uint64_t high, uint64_t low) {
    if (prefixes.empty()) return true;
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const Prefix& prefix) {
        return ip_version == (prefix.ipv6 ? 6 : 4) && contains(prefix, high, low);
    });
}

bool in_any(const std::vector<PortRange>& ranges, bool has_ports, uint16_t port) {
    if (ranges.empty()) return true;
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const PortRange& range) { return range.any() || (has_ports && range.contains(port)); });
}

uint64_t load_half(const Prefix& prefix, size_t from) {
    uint64_t half = 0;
    for (size_t i = 0; i < 8; ++i) half = half << 8 | prefix.bytes[from + i];
    return half;
}

}  // namespace

const std::vector<std::string>& FiveTupleMatch::keys() {
    static const std::vector<std::string> kKeys = {"src", "dst", "protocol", "src-port", "dst-port"};
    return kKeys;
}

FiveTupleMatch FiveTupleMatch::parse(const Config& map) {
    FiveTupleMatch match;
    match.src = read_list<Prefix>(map, "src", parse_address);
    match.dst = read_list<Prefix>(map, "dst", parse_address);
    match.protocols = read_list<ByteMatch>(map, "protocol", parse_protocol);
    match.src_ports = read_list<PortRange>(map, "src-port", parse_ports);
    match.dst_ports = read_list<PortRange>(map, "dst-port", parse_ports);
    return match;
}

bool FiveTupleMatch::matches(const HeaderKey& key) const {
    if (key.ip_version == 0) return empty();
    const bool protocol = protocols.empty() ||
                          std::any_of(protocols.begin(), protocols.end(),
                                      [&](const ByteMatch& wanted) { return wanted.contains(key.protocol); });
    return protocol && in_any(src, key.ip_version, key.src_high, key.src_low) &&
           in_any(dst, key.ip_version, key.dst_high, key.dst_low) && in_any(src_ports, key.has_ports(), key.src_port) &&
           in_any(dst_ports, key.has_ports(), key.dst_port);
}

uint64_t high_half(const Prefix& prefix) { return load_half(prefix, 0); }
uint64_t low_half(const Prefix& prefix) { return load_half(prefix, 8); }

bool contains(const Prefix& prefix, uint64_t high, uint64_t low) {
    const unsigned length = prefix.length;
    const uint64_t high_mask = length == 0 ? 0 : ~uint64_t{0} << (length >= 64 ? 0 : 64 - length);
    const uint64_t low_mask = length <= 64 ? 0 : ~uint64_t{0} << (128 - length);
    return (high & high_mask) == high_half(prefix) && (low & low_mask) == low_half(prefix);
}

}  // namespace millrace::nf::classify
