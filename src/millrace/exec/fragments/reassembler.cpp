#include "millrace/exec/fragments/reassembler.hpp"

#include <algorithm>
#include <cstring>
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
    : limits_(limits), buffers_(buffers), counters_(counters), partials_(limits.max_packets, ports),
      clocks_(partials_.lines()) {}

/// Has the oldest make way: in a flood what belongs together comes close together, and the oldest is what has waited in
/// vain.
void Reassembler::make_room(const FragmentKey& key) {
    const Partials::OfSource own = partials_.of_source(key);
    if (own.packets >= limits_.max_per_source) {
        give_up(own.oldest, FragmentDrop::source_full);
        partials_.remove(own.oldest);
    }
    if (!partials_.is_full()) return;
    uint32_t oldest = partials_.oldest(partials_.line_of(key.port));
    if (oldest == Partials::kNone) oldest = partials_.oldest_of_any();
    give_up(oldest, FragmentDrop::table_full);
    partials_.remove(oldest);
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

void Reassembler::expire(size_t line) {
    const auto timeout = static_cast<uint64_t>(limits_.timeout.count());
    for (uint32_t oldest = partials_.oldest(line);
         oldest != Partials::kNone && clocks_[line].now_ns - partials_[oldest].since_ns >= timeout;
         oldest = partials_.oldest(line)) {
        give_up(oldest, FragmentDrop::timeout);
        partials_.remove(oldest);
    }
}

void Reassembler::advance(uint16_t port, uint64_t timestamp_ns) {
    const size_t line = partials_.line_of(port);
    Clock& clock = clocks_[line];
    if (timestamp_ns > clock.last_ns) {
        // The first one sets the clock.
        clock.now_ns += clock.last_ns != 0 ? timestamp_ns - clock.last_ns : 0;
        clock.last_ns = timestamp_ns;
        expire(line);
    } else if (clock.last_ns - timestamp_ns > static_cast<uint64_t>(limits_.timeout.count())) {
        clock.last_ns = timestamp_ns;  // it has begun anew
    }
}

void Reassembler::pass_time(uint64_t elapsed_ns) {
    for (size_t line = 0; line < clocks_.size(); ++line) {
        clocks_[line].now_ns += elapsed_ns;
        if (clocks_[line].last_ns != 0) clocks_[line].last_ns += elapsed_ns;
        expire(line);
    }
}

void Reassembler::drop_all(FragmentDrop reason) {
    for (uint32_t left = partials_.oldest_of_any(); left != Partials::kNone; left = partials_.oldest_of_any()) {
        give_up(left, reason);
        partials_.remove(left);
    }
}

void Reassembler::drop(rte_mbuf* mbuf, FragmentDrop reason) {
    counters_.received_packets.add(1);
    counters_.received_bytes.add(mbuf->data_len);
    counters_.fragment_drops[static_cast<size_t>(reason)].add(1);
    rte_pktmbuf_free(mbuf);
}

rte_mbuf* Reassembler::add(rte_mbuf* mbuf, const Fragment& fragment) {
    uint32_t index = partials_.find(fragment.key);
    if (index == Partials::kNone) {
        make_room(fragment.key);
        index = partials_.begin(fragment.key, clocks_[partials_.line_of(fragment.key.port)].now_ns);
        if (!buffers_.pool().allocate_raw(&partials_[index].packet, 1)) {
            partials_[index].packet = nullptr;
            partials_.remove(index);
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
    Partial::Piece* const all = partial.at.data();
    Partial::Piece* const last = all + partial.pieces;
    const auto is_before = [](const Partial::Piece& piece, uint32_t at) { return piece.begin < at; };
    Partial::Piece* const behind = std::lower_bound(all, last, begin, is_before);
    if (behind != last && behind->begin == begin && behind->end == end &&
        std::memcmp(payload_of(partial) + begin, payload, fragment.payload_bytes) == 0 &&
        (fragment.more || partial.total == end))
        return refuse(FragmentDrop::duplicate);
    if ((behind != last && behind->begin < end) || (behind != all && behind[-1].end > begin))
        return refuse(FragmentDrop::overlap);
    if (fragment.more ? partial.total != 0 && end >= partial.total : partial.total != 0 || behind != last)
        return refuse(FragmentDrop::bad_place);
    if (partial.pieces == Partial::kMaxPieces) return refuse(FragmentDrop::too_many);
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
    partials_.remove(index);
    return packet;
}

}  // namespace millrace::exec
