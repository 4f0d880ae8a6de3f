#include "millrace/exec/fragments/reassembler.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>

#include "millrace/io/metadata.hpp"
#include "millrace/packet/checksum.hpp"

namespace millrace::exec {
namespace {

constexpr uint8_t kNotEct = 1 << 0, kCe = 1 << 3;  // bits of Partial::ecn_seen

int register_mark() {
    static const int at = [] {
        rte_mbuf_dynfield field{};
        std::strncpy(field.name, "millrace_whole", sizeof field.name - 1);
        field.size = sizeof(WholeMark);
        field.align = alignof(WholeMark);
        return rte_mbuf_dynfield_register(&field);
    }();
    if (at < 0) throw std::runtime_error("other libraries have taken all room in the mbuf");
    return at;
}

io::PoolOptions pool_options(uint32_t packets, uint32_t headroom_bytes, uint32_t tailroom_bytes) {
    io::PoolOptions options;
    options.packets = packets;
    options.headroom_bytes = headroom_bytes;
    options.tailroom_bytes = tailroom_bytes;
    options.max_frame_bytes = io::longest_frame(headroom_bytes) - tailroom_bytes;
    return options;
}

}  // namespace

WholePackets::WholePackets(uint32_t packets, uint32_t headroom_bytes, uint32_t tailroom_bytes)
    : pool_("whole", pool_options(packets, headroom_bytes, tailroom_bytes)),
      most_payload_(pool_.max_frame_bytes() - kMaxHead), mark_at_(register_mark()) {}

Reassembler::Reassembler(const chain::Reassembly& limits, WholePackets& buffers, size_t ports, ChainCounters& counters)
    : limits_(limits), buffers_(buffers), counters_(counters),
      seed_(std::random_device{}() * uint64_t{0x9e3779b97f4a7c15}), partials_(limits.max_packets),
      by_key_(std::bit_ceil(size_t{2} * limits.max_packets), kNone), by_source_(by_key_.size(), kNone),
      lines_(ports + 1) {
    for (uint32_t i = 0; i < partials_.size(); ++i) partials_[i].next_of_key = i + 1;
    partials_.back().next_of_key = kNone;
}

/// Whoever sends fragments does not know the seed, and can't choose those that share a hash chain.
uint64_t Reassembler::hash(const FragmentKey& key, bool source_only) const {
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

uint32_t& Reassembler::key_bucket(const FragmentKey& key) { return by_key_[hash(key, false) & (by_key_.size() - 1)]; }
uint32_t& Reassembler::source_bucket(const FragmentKey& key) {
    return by_source_[hash(key, true) & (by_source_.size() - 1)];
}

uint32_t Reassembler::find(const FragmentKey& key) {
    uint32_t index = key_bucket(key);
    while (index != kNone && std::memcmp(&partials_[index].key, &key, sizeof key) != 0)
        index = partials_[index].next_of_key;
    return index;
}

/// Has the oldest make way: in a flood what belongs together comes close together, and the oldest is what has waited in
/// vain.
void Reassembler::make_room(const FragmentKey& key) {
    uint32_t of_source = 0, oldest = kNone;
    for (uint32_t i = source_bucket(key); i != kNone; i = partials_[i].next_of_source) {
        const FragmentKey& other = partials_[i].key;
        if (std::memcmp(other.src, key.src, sizeof key.src) != 0 || other.version != key.version ||
            other.port != key.port || std::memcmp(other.vlans, key.vlans, sizeof key.vlans) != 0)
            continue;
        ++of_source;
        oldest = i;
    }
    if (of_source >= limits_.max_per_source) {
        give_up(oldest, FragmentDrop::source_full);
        remove(oldest);
    }
    if (free_ != kNone) return;
    const Line* line = &line_of(key.port);
    for (size_t i = 0; line->oldest == kNone; ++i) line = &lines_[i];
    oldest = line->oldest;
    give_up(oldest, FragmentDrop::table_full);
    remove(oldest);
}

uint32_t Reassembler::begin(const FragmentKey& key) {
    make_room(key);
    const uint32_t index = free_;
    Partial& partial = partials_[index];
    free_ = partial.next_of_key;
    Line& line = line_of(key.port);
    partial.key = key;
    partial.packet = nullptr;
    partial.since_ns = line.now_ns;
    partial.bytes = 0;
    partial.ecn_seen = 0;
    partial.head_bytes = partial.total = partial.filled = partial.pieces = partial.largest = partial.largest_df = 0;
    uint32_t& same_key = key_bucket(key);
    partial.next_of_key = std::exchange(same_key, index);
    uint32_t& same_source = source_bucket(key);
    partial.next_of_source = std::exchange(same_source, index);
    partial.older = line.newest;
    partial.newer = kNone;
    (line.newest == kNone ? line.oldest : partials_[line.newest].newer) = index;
    line.newest = index;
    return index;
}

void Reassembler::remove(uint32_t index) {
    Partial& partial = partials_[index];
    const auto unlink = [&](uint32_t& head, uint32_t Partial::* next) {
        uint32_t* link = &head;
        while (*link != index) link = &(partials_[*link].*next);
        *link = partial.*next;
    };
    unlink(key_bucket(partial.key), &Partial::next_of_key);
    unlink(source_bucket(partial.key), &Partial::next_of_source);
    Line& line = line_of(partial.key.port);
    (partial.older == kNone ? line.oldest : partials_[partial.older].newer) = partial.newer;
    (partial.newer == kNone ? line.newest : partials_[partial.newer].older) = partial.older;
    partial.next_of_key = std::exchange(free_, index);
}

/// Drops what there is of a packet. What comes of it from now on is dropped for the same reason.
void Reassembler::give_up(uint32_t index, FragmentDrop reason) {
    Partial& partial = partials_[index];
    if (partial.packet == nullptr) return;
    rte_pktmbuf_free(std::exchange(partial.packet, nullptr));
    counters_.fragment_drops[static_cast<size_t>(reason)].add(partial.pieces);
    counters_.received_bytes.add(partial.bytes);
    held_ -= partial.pieces;
    partial.reason = reason;
}

void Reassembler::expire(Line& line) {
    const auto timeout = static_cast<uint64_t>(limits_.timeout.count());
    while (line.oldest != kNone && line.now_ns - partials_[line.oldest].since_ns >= timeout) {
        const uint32_t oldest = line.oldest;
        give_up(oldest, FragmentDrop::timeout);
        remove(oldest);
    }
}

void Reassembler::advance(uint16_t port, uint64_t timestamp_ns) {
    Line& line = line_of(port);
    if (timestamp_ns > line.last_ns) {
        // The first one sets the clock.
        line.now_ns += line.last_ns != 0 ? timestamp_ns - line.last_ns : 0;
        line.last_ns = timestamp_ns;
        expire(line);
    } else if (line.last_ns - timestamp_ns > static_cast<uint64_t>(limits_.timeout.count())) {
        line.last_ns = timestamp_ns;  // it has begun anew
    }
}

void Reassembler::pass_time(uint64_t elapsed_ns) {
    for (Line& line : lines_) {
        line.now_ns += elapsed_ns;
        if (line.last_ns != 0) line.last_ns += elapsed_ns;
        expire(line);
    }
}

void Reassembler::drop_all(FragmentDrop reason) {
    for (Line& line : lines_)
        while (line.oldest != kNone) {
            const uint32_t oldest = line.oldest;
            give_up(oldest, reason);
            remove(oldest);
        }
}

void Reassembler::drop(rte_mbuf* mbuf, FragmentDrop reason) {
    counters_.received_packets.add(1);
    counters_.received_bytes.add(mbuf->data_len);
    counters_.fragment_drops[static_cast<size_t>(reason)].add(1);
    rte_pktmbuf_free(mbuf);
}

rte_mbuf* Reassembler::add(rte_mbuf* mbuf, const Fragment& fragment) {
    uint32_t index = find(fragment.key);
    if (index == kNone) {
        index = begin(fragment.key);
        if (!buffers_.pool().allocate_raw(&partials_[index].packet, 1)) {
            partials_[index].packet = nullptr;
            remove(index);
            drop(mbuf, FragmentDrop::no_buffer);
            return nullptr;
        }
    }
    Partial& partial = partials_[index];
    if (partial.packet == nullptr) {
        drop(mbuf, partial.reason);
        return nullptr;
    }
    FragmentDrop why{};
    if (!place(partial, rte_pktmbuf_mtod(mbuf, const uint8_t*), fragment, why)) {
        if (why != FragmentDrop::duplicate) give_up(index, why);
        drop(mbuf, why);
        return nullptr;
    }
    const auto ip_bytes = static_cast<uint16_t>(fragment.payload_at + fragment.payload_bytes - fragment.l3_at);
    partial.largest = std::max(partial.largest, ip_bytes);
    if (fragment.dont_fragment) partial.largest_df = std::max(partial.largest_df, ip_bytes);
    partial.ecn_seen |= static_cast<uint8_t>(1 << fragment.ecn);
    partial.bytes += mbuf->data_len;
    ++held_;
    const bool complete = partial.total != 0 && partial.filled == partial.total;
    const bool ecn_holds = (partial.ecn_seen & kCe) == 0 || (partial.ecn_seen & kNotEct) == 0;
    if (!complete || !ecn_holds) {
        counters_.received_packets.add(1);
        rte_pktmbuf_free(mbuf);
        if (complete) give_up(index, FragmentDrop::bad_ecn);
        return nullptr;
    }
    io::set_packet_metadata(partial.packet, io::packet_timestamp_ns(mbuf), io::packet_number(mbuf));
    partial.packet->port = mbuf->port;
    rte_pktmbuf_free(mbuf);
    return finish(index);
}

/// Copies a fragment to its place. False, and `why`, if it can't be there; only for a duplicate the packet goes on.
bool Reassembler::place(Partial& partial, const uint8_t* frame, const Fragment& fragment, FragmentDrop& why) {
    const auto refuse = [&](FragmentDrop reason) {
        why = reason;
        return false;
    };
    const uint32_t begin = fragment.offset, end = begin + fragment.payload_bytes;
    const uint8_t* const payload = frame + fragment.payload_at;
    const bool ipv6 = fragment.key.version == 6;
    if (fragment.payload_bytes == 0 || (fragment.more && fragment.payload_bytes % 8 != 0) ||
        (ipv6 && fragment.next == ip::kProtocolFragment))
        return refuse(FragmentDrop::bad_place);
    if (end > buffers_.most_payload() || fragment.head_bytes > WholePackets::kMaxHead)
        return refuse(FragmentDrop::too_long);
    if (begin == 0 ? !holds_headers({payload, fragment.payload_bytes}, fragment.next, ipv6)
                   : begin == 8 && fragment.next == ip::kProtocolTcp)
        return refuse(FragmentDrop::tiny);
    // The first piece that begins at or behind this one.
    Piece* const all = partial.at.data();
    Piece* const last = all + partial.pieces;
    Piece* const behind = std::lower_bound(all, last, begin, [](const Piece& p, uint32_t at) { return p.begin < at; });
    if (behind != last && behind->begin == begin && behind->end == end &&
        std::memcmp(payload_of(partial) + begin, payload, fragment.payload_bytes) == 0 &&
        (fragment.more || partial.total == end))
        return refuse(FragmentDrop::duplicate);
    if ((behind != last && behind->begin < end) || (behind != all && behind[-1].end > begin))
        return refuse(FragmentDrop::overlap);
    if (fragment.more ? partial.total != 0 && end >= partial.total : partial.total != 0 || behind != last)
        return refuse(FragmentDrop::bad_place);
    if (partial.pieces == kMaxPieces) return refuse(FragmentDrop::too_many);
    std::move_backward(behind, last, last + 1);
    *behind = {static_cast<uint16_t>(begin), static_cast<uint16_t>(end)};
    ++partial.pieces;
    if (!fragment.more) partial.total = static_cast<uint16_t>(end);
    partial.filled = static_cast<uint16_t>(partial.filled + fragment.payload_bytes);
    std::copy_n(payload, fragment.payload_bytes, payload_of(partial) + begin);
    if (begin == 0) {
        partial.head_bytes = fragment.head_bytes;
        partial.l3_at = fragment.l3_at;
        partial.next = fragment.next;
        partial.next_at = fragment.next_at;
        std::copy_n(frame, fragment.head_bytes, payload_of(partial) - fragment.head_bytes);
    }
    return true;
}

/// The packet of all its fragments, with the headers of the first one (RFC 791, section 3.2; RFC 8200, section 4.5).
rte_mbuf* Reassembler::finish(uint32_t index) {
    Partial& partial = partials_[index];
    rte_mbuf* const packet = std::exchange(partial.packet, nullptr);
    packet->data_off = static_cast<uint16_t>(buffers_.payload_at() - partial.head_bytes);
    packet->data_len = static_cast<uint16_t>(partial.head_bytes + partial.total);
    packet->pkt_len = packet->data_len;
    packet->ol_flags = 0;
    uint8_t* const frame = rte_pktmbuf_mtod(packet, uint8_t*);
    uint8_t* const header = frame + partial.l3_at;
    const auto ip_bytes = static_cast<uint16_t>(packet->data_len - partial.l3_at);
    const bool congested = (partial.ecn_seen & kCe) != 0;
    if (partial.key.version == 4) {
        if (congested) header[1] |= 3;
        store_be16(header + 2, ip_bytes);
        // As Linux has it: a sender that looks for the path's MTU goes on with that.
        store_be16(header + 6, partial.largest_df != 0 && partial.largest_df == partial.largest ? 0x4000 : 0);
        store_be16(header + 10, 0);
        store_be16(header + 10, checksum(header, partial.head_bytes - partial.l3_at));
    } else {
        if (congested) header[1] |= 0x30;
        store_be16(header + 4, static_cast<uint16_t>(ip_bytes - ip::kIpv6Bytes));
        frame[partial.next_at] = partial.next;
    }
    *buffers_.mark(packet) = {partial.key.id, partial.largest, partial.key.version, partial.next};
    counters_.reassembled.add(1);
    counters_.joined.add(partial.pieces - 1u);
    // The engine counts the whole packet's bytes.
    counters_.received_bytes.add(partial.bytes - packet->data_len);
    held_ -= partial.pieces;
    remove(index);
    return packet;
}

}  // namespace millrace::exec
