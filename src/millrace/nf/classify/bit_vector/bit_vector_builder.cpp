#include "millrace/nf/classify/bit_vector/bit_vector_builder.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace millrace::nf::classify {
namespace {

std::vector<const Box*> family_of(const RuleSet& rules, std::span<const uint32_t> order, bool ipv6) {
    std::vector<const Box*> boxes;
    for (const uint32_t index : order)
        if (const Box& box = rules.boxes[index]; ipv6 ? box.ipv6 : box.ipv4) boxes.push_back(&box);
    return boxes;
}

bool inside(const TriePrefix& inner, const TriePrefix& outer) {
    const uint64_t high_mask = outer.length == 0 ? 0 : ~uint64_t{0} << (outer.length >= 64 ? 0 : 64 - outer.length);
    const uint64_t low_mask = outer.length <= 64 ? 0 : ~uint64_t{0} << (128 - outer.length);
    return inner.length >= outer.length && (inner.high & high_mask) == outer.high &&
           (inner.low & low_mask) == outer.low;
}

}  // namespace

BitVectorBuilder::BitVectorBuilder(const RuleSet& rules, std::span<const uint32_t> order, bool ipv6,
                                   uint64_t limit_bytes)
    : boxes_(family_of(rules, order, ipv6)), store_(boxes_.size(), limit_bytes) {
    if (boxes_.empty()) return;
    src_ = build_addresses(&Box::src);
    dst_ = build_addresses(&Box::dst);
    src_port_ = build_ports(&Box::src_port);
    dst_port_ = build_ports(&Box::dst_port);
    tells_connections_ = std::ranges::any_of(boxes_, [](const Box* box) { return !box->connections.any(); });
    protocols_ = build_bytes(&Box::protocol, false, false);
    flags_ = build_bytes(&Box::tcp_flags, true, tells_connections_);
    for (const Box* box : boxes_) rules_.push_back(box->rule);
    bytes_ = store_.bytes() + src_.bytes() + dst_.bytes() + 4 * (protocols_.size() + flags_.size() + rules_.size());
    for (const PortArrays* ports : {&src_port_, &dst_port_})
        bytes_ += 2 * ports->starts.size() + 4 * (ports->values.size() + ports->buckets.size());
    if (bytes_ > limit_bytes)
        throw TablesTooLarge("the tables of these rules take " + std::to_string(bytes_) + " bytes");
}

/// The vector of a prefix holds its own rules and those of every prefix around it.
TrieArrays BitVectorBuilder::build_addresses(Prefix Box::* side) {
    std::vector<TriePrefix> all;  // here `value` is the position
    for (uint32_t position = 0; position < boxes_.size(); ++position) {
        const Prefix& prefix = boxes_[position]->*side;
        all.push_back({high_half(prefix), low_half(prefix), prefix.length, position});
    }
    std::sort(all.begin(), all.end(), [](const TriePrefix& a, const TriePrefix& b) {
        return std::tie(a.high, a.low, a.length, a.value) < std::tie(b.high, b.low, b.length, b.value);
    });

    struct Open {
        TriePrefix prefix;
        VectorStore::Row row;
    };
    const uint32_t otherwise = store_.add(store_.empty_row());
    std::vector<Open> path = {{{}, store_.empty_row()}};  // the prefixes around the current one
    std::vector<TriePrefix> distinct;
    std::vector<uint32_t> positions;
    for (size_t i = 0; i < all.size();) {
        TriePrefix prefix = all[i];
        positions.clear();
        for (; i < all.size() &&
               std::tie(all[i].high, all[i].low, all[i].length) == std::tie(prefix.high, prefix.low, prefix.length);
             ++i)
            positions.push_back(all[i].value);
        while (!inside(prefix, path.back().prefix)) path.pop_back();
        VectorStore::Row row = path.back().row;
        store_.assign(row, positions, true);
        prefix.value = store_.add(row);
        distinct.push_back(prefix);
        path.push_back({prefix, std::move(row)});
    }
    return build_trie(distinct, otherwise);
}

/// Goes through the ports from 0 up; at each port where ranges begin or end, an interval begins.
BitVectorBuilder::PortArrays BitVectorBuilder::build_ports(PortRange Box::* side) {
    struct Change {
        std::vector<uint32_t> begin, end;
    };
    std::map<uint32_t, Change> changes;
    changes[0];
    std::vector<uint32_t> wide;
    for (uint32_t position = 0; position < boxes_.size(); ++position) {
        const PortRange& range = boxes_[position]->*side;
        if (range.any()) wide.push_back(position);
        changes[range.low].begin.push_back(position);
        if (range.high < 0xffff) changes[range.high + 1u].end.push_back(position);
    }
    PortArrays arrays;
    VectorStore::Row row = store_.empty_row();
    store_.assign(row, wide, true);
    arrays.no_ports = store_.add(row);

    row = store_.empty_row();
    for (const auto& [port, change] : changes) {
        store_.assign(row, change.end, false);
        store_.assign(row, change.begin, true);
        arrays.starts.push_back(static_cast<uint16_t>(port));
        arrays.values.push_back(store_.add(row));
    }
    for (uint32_t bucket = 0; bucket < 256; ++bucket) {
        const auto after = std::upper_bound(arrays.starts.begin(), arrays.starts.end(), bucket * 256);
        arrays.buckets.push_back(static_cast<uint32_t>(after - arrays.starts.begin()) - 1);
    }
    arrays.buckets.push_back(static_cast<uint32_t>(arrays.starts.size()) - 1);
    return arrays;
}

/// A vector for each value of a byte, and one more for its absence if `may_be_absent`; all of them for each kind of
/// connection if boxes tell these apart.
std::vector<uint32_t> BitVectorBuilder::build_bytes(ByteMatch Box::* field, bool may_be_absent,
                                                    bool tells_connections) {
    struct Asked {
        ByteMatch match;
        ConnectionSet connections;
        auto key() const { return std::tuple(match.value, match.mask, connections.bits); }
        bool operator<(const Asked& other) const { return key() < other.key(); }
    };
    std::map<Asked, std::vector<uint32_t>> by_asked;
    for (uint32_t position = 0; position < boxes_.size(); ++position) {
        const Box& box = *boxes_[position];
        by_asked[{box.*field, tells_connections ? box.connections : ConnectionSet{}}].push_back(position);
    }
    std::vector<uint32_t> vectors;
    std::map<std::vector<bool>, uint32_t> known;  // by which of what is asked holds
    const auto vector_of = [&](Connection connection, uint32_t byte) {
        std::vector<bool> holds;
        for (const auto& [asked, positions] : by_asked)
            holds.push_back(asked.connections.contains(connection) &&
                            (byte == 256 ? asked.match.any() : asked.match.contains(static_cast<uint8_t>(byte))));
        auto found = known.find(holds);
        if (found == known.end()) {
            VectorStore::Row row = store_.empty_row();
            size_t i = 0;
            for (const auto& [asked, positions] : by_asked)
                if (holds[i++]) store_.assign(row, positions, true);
            found = known.emplace(std::move(holds), store_.add(row)).first;
        }
        return found->second;
    };
    for (unsigned i = 0; i < (tells_connections ? kConnections : 1); ++i)
        for (uint32_t byte = 0; byte < (may_be_absent ? 257 : 256); ++byte)
            vectors.push_back(vector_of(static_cast<Connection>(i), byte));
    return vectors;
}

void BitVectorBuilder::attach(Image& image, BitVectorEngine::Tables& tables) {
    if (boxes_.empty()) return;
    const auto attach_trie = [&](PrefixTrie::Tables& to, TrieArrays& from) {
        image.attach_some(to.top, std::move(from.top));
        image.attach_some(to.nodes, std::move(from.nodes));
        image.attach_some(to.leaves, std::move(from.leaves));
        to.top_bits = from.top_bits;
    };
    const auto attach_ports = [&](PortIntervals::Tables& to, PortArrays& from) {
        image.attach_some(to.starts, std::move(from.starts));
        image.attach_some(to.values, std::move(from.values));
        image.attach_some(to.buckets, std::move(from.buckets));
        to.no_ports = from.no_ports;
    };
    attach_trie(tables.src, src_);
    attach_trie(tables.dst, dst_);
    attach_ports(tables.src_port, src_port_);
    attach_ports(tables.dst_port, dst_port_);
    image.attach_some(tables.protocols, std::move(protocols_));
    image.attach_some(tables.flags, std::move(flags_));
    tables.connection_step = tells_connections_ ? BitVectorEngine::kFlagVectors : 0;
    tables.vectors.chunks = store_.chunks();
    image.attach_some(tables.vectors.rows, store_.take_rows());
    image.attach_some(tables.vectors.words, store_.take_words());
    image.attach_some(tables.rules, std::move(rules_));
}

}  // namespace millrace::nf::classify
