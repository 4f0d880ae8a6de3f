// A packet as device code sees it: the frame's bytes, its layers, and room to grow.
#pragma once

#include "millrace/packet/checksum.hpp"
#include "millrace/packet/decision.hpp"
#include "millrace/packet/fields.hpp"
#include "millrace/packet/parse.hpp"

namespace millrace {

inline constexpr uint16_t kNoPort = 0xffff;

/// `out_port` of a packet that leaves by several ports: kPortSet with a bit for each of them, ports beyond the first
/// kPortSetPorts cannot be among them. The executor sends a copy by each, all with the same bytes. With kPortSetPunt
/// one more is punted.
inline constexpr uint16_t kPortSet = 0x8000;
inline constexpr uint16_t kPortSetPunt = 0x2000;
inline constexpr unsigned kPortSetPorts = 13;
MILLRACE_DEVICE constexpr bool is_port_set(uint16_t port) { return port >> 14 == kPortSet >> 14; }

/// What connection tracking has found out about a packet.
enum class Connection : uint8_t { untracked, opening, established, related, invalid };

/// One packet in some device's memory. The object is a handle: it owns nothing; whoever made it
/// keeps the frame's memory, from `data() - headroom()` to `data() + length() + tailroom()`.
/// Accessors do not check that the header in question exists: ask `layers()` first.
class Packet {
public:
    Packet() = default;

    /// A frame of `length` bytes at `data`, the first `present` of which are in this memory.
    MILLRACE_DEVICE void attach(uint8_t* data, uint32_t length, uint32_t present, uint32_t headroom,
                                uint32_t tailroom) {
        data_ = data;
        length_ = length;
        present_ = present;
        headroom_ = static_cast<uint16_t>(smaller(headroom, 0xffffu));
        tailroom_ = static_cast<uint16_t>(smaller(tailroom, 0xffffu));
        events_ = nullptr;
        event_order_ = 0;
        time_ns_ = 0;
        segment_bytes_ = 0;
        connection_ = Connection::untracked;
    }

    // --- the frame ---
    MILLRACE_DEVICE uint8_t* data() const { return data_; }
    MILLRACE_DEVICE uint32_t length() const { return length_; }
    MILLRACE_DEVICE uint32_t present() const { return present_; }
    MILLRACE_DEVICE uint32_t headroom() const { return headroom_; }
    MILLRACE_DEVICE uint32_t tailroom() const { return tailroom_; }

    // --- a frame that is yet to be cut into those of the wire (TSO, GRO) ---
    /// Bytes of payload in each of its segments but the last; 0: it is a frame of the wire.
    MILLRACE_DEVICE uint16_t segment_bytes() const { return segment_bytes_; }
    MILLRACE_DEVICE void set_segment_bytes(uint16_t bytes) { segment_bytes_ = bytes; }
    /// How many frames of the wire it is, of an IP packet.
    MILLRACE_DEVICE uint32_t wire_frames() const {
        return segment_bytes_ == 0 ? 1 : (payload_bytes() + segment_bytes_ - 1u) / segment_bytes_;
    }
    /// Their bytes.
    MILLRACE_DEVICE uint32_t wire_bytes() const { return length_ + (wire_frames() - 1) * layers_.payload_offset; }
    /// Bytes of the longest IP packet among them: what an MTU limits.
    MILLRACE_DEVICE uint32_t longest_ip_bytes() const {
        const uint32_t end = segment_bytes_ == 0
                                 ? layers_.end
                                 : smaller(layers_.end, uint32_t{layers_.payload_offset} + segment_bytes_);
        return end - layers_.l3_offset;
    }

    // --- what is known about it ---
    /// Parses the frame as it stands; the framework has done so before the first NF. An NF that
    /// changes where headers lie calls it again.
    MILLRACE_DEVICE void parse() { millrace::parse(data_, length_, present_, layers_); }
    MILLRACE_DEVICE const Layers& layers() const { return layers_; }
    MILLRACE_DEVICE void set_layers(const Layers& layers) { layers_ = layers; }
    /// For an NF that knows the layers without parsing.
    MILLRACE_DEVICE Layers& layers_to_set() { return layers_; }
    /// Port on which it came in, and the one it shall leave by (kNoPort: the chain's output).
    MILLRACE_DEVICE uint16_t in_port() const { return in_port_; }
    MILLRACE_DEVICE void set_in_port(uint16_t port) { in_port_ = port; }
    MILLRACE_DEVICE uint16_t out_port() const { return out_port_; }
    MILLRACE_DEVICE void set_out_port(uint16_t port) { out_port_ = port; }
    /// Its index in the batch.
    MILLRACE_DEVICE uint32_t index() const { return index_; }
    MILLRACE_DEVICE void set_index(uint32_t index) { index_ = index; }
    /// For NFs with an order key: how many packets with this key came before, in all batches.
    MILLRACE_DEVICE uint64_t ticket() const { return ticket_; }
    MILLRACE_DEVICE void set_ticket(uint64_t ticket) { ticket_ = ticket; }

    /// When it was received or captured, in ns since the epoch; 0 when its port does not know. The same on every
    /// device. Only NFs have it that keep state per key, or say `reads_time`.
    MILLRACE_DEVICE uint64_t time_ns() const { return time_ns_; }
    MILLRACE_DEVICE void set_time_ns(uint64_t time_ns) { time_ns_ = time_ns; }

    /// As an NF before has found.
    MILLRACE_DEVICE Connection connection() const { return connection_; }
    MILLRACE_DEVICE void set_connection(Connection connection) { connection_ = connection; }

    // --- growing and shrinking (declare field::length; all lanes call alike) ---
    /// Makes room for `bytes` before the first byte; false, and nothing changed, when there is no room.
    MILLRACE_DEVICE bool grow_front(uint32_t bytes) {
        if (bytes > headroom_) return false;
        data_ -= bytes;
        headroom_ = static_cast<uint16_t>(headroom_ - bytes);
        length_ += bytes;
        present_ += bytes;
        return true;
    }
    MILLRACE_DEVICE bool shrink_front(uint32_t bytes) {
        if (bytes > present_) return false;
        data_ += bytes;
        headroom_ = static_cast<uint16_t>(smaller(headroom_ + bytes, 0xffffu));
        length_ -= bytes;
        present_ -= bytes;
        return true;
    }
    /// Appends `bytes` behind the last byte; the whole frame must be in this memory.
    MILLRACE_DEVICE bool grow_back(uint32_t bytes) {
        if (bytes > tailroom_ || present_ != length_) return false;
        tailroom_ = static_cast<uint16_t>(tailroom_ - bytes);
        length_ += bytes;
        present_ += bytes;
        return true;
    }
    MILLRACE_DEVICE bool shrink_back(uint32_t bytes) {
        if (bytes > length_ || present_ != length_) return false;
        tailroom_ = static_cast<uint16_t>(smaller(tailroom_ + bytes, 0xffffu));
        length_ -= bytes;
        present_ -= bytes;
        return true;
    }
    /// Both ends at once and unchecked: `front` more bytes at the head, and `length` bytes in all. The whole frame must
    /// be in this memory, and have that room.
    MILLRACE_DEVICE void reshape(uint32_t front, uint32_t length) {
        const uint32_t space = headroom_ + length_ + tailroom_;
        data_ -= front;
        headroom_ = static_cast<uint16_t>(headroom_ - front);
        tailroom_ = static_cast<uint16_t>(smaller(space - headroom_ - length, 0xffffu));
        length_ = present_ = length;
    }

    // --- header bytes, by layer ---
    MILLRACE_DEVICE uint8_t* l3() const { return data_ + layers_.l3_offset; }
    MILLRACE_DEVICE uint8_t* l4() const { return data_ + layers_.l4_offset; }
    /// Bytes behind the last parsed header, without Ethernet padding.
    MILLRACE_DEVICE uint8_t* payload() const { return data_ + layers_.payload_offset; }
    MILLRACE_DEVICE uint32_t payload_bytes() const { return layers_.end - layers_.payload_offset; }

    MILLRACE_DEVICE uint32_t ipv4_src() const { return load_be32(l3() + 12); }
    MILLRACE_DEVICE uint32_t ipv4_dst() const { return load_be32(l3() + 16); }
    MILLRACE_DEVICE uint8_t ip_ttl() const { return l3()[layers_.is_ipv4() ? 8 : 7]; }
    MILLRACE_DEVICE uint16_t l4_src_port() const { return layers_.has_ports() ? load_be16(l4()) : 0; }
    MILLRACE_DEVICE uint16_t l4_dst_port() const { return layers_.has_ports() ? load_be16(l4() + 2) : 0; }
    MILLRACE_DEVICE uint8_t tcp_flags() const { return l4()[13]; }

    // --- events ---
    /// Grows with each event.
    MILLRACE_DEVICE uint16_t event_order() const { return event_order_; }
    /// `first_order`: of its first event.
    MILLRACE_DEVICE void set_events(EventBuffer* events, uint16_t node, uint16_t first_order = 0) {
        events_ = events;
        node_ = node;
        event_order_ = first_order;
    }
    /// Tells the host something about this packet, such as an alert; call it inside `lanes.once`, and
    /// only there. The host half's `on_event` gets it once the batch is done.
    MILLRACE_DEVICE void emit(uint32_t code) {
        if (events_ == nullptr || event_order_ == kLeft) return;
        const uint32_t at = next_of(events_->count);
        if (at >= events_->capacity) return leave_events();
        events_->events[at] = make_event(code);
        if (event_order_ + 1 < kLeft) ++event_order_;
    }
    /// The same from where the NF can't be asked again, as its state has changed with this packet: what finds no room
    /// is lost, and the packet counted.
    MILLRACE_DEVICE void emit_once(uint32_t code) {
        if (events_ == nullptr || event_order_ == kLeft) return;
        const uint32_t at = next_of(events_->count);
        if (at >= events_->capacity) return leave(1);
        events_->events[at] = make_event(code);
        if (event_order_ + 1 < kLeft) ++event_order_;
    }
    /// Tells the host half what no single event holds: `note`, plain and made of words of four bytes, as several events
    /// one behind the other. Of a packet that can't be asked again, too. False, and nothing is told, where it finds no
    /// room.
    template <class Note>
    MILLRACE_DEVICE bool emit_note(const Note& note) {
        static_assert(sizeof(Note) % 4 == 0 && alignof(Note) >= 4);
        constexpr uint32_t kWords = sizeof(Note) / 4, kOfPiece = Event::kNoteBytes / 4;
        constexpr uint32_t kPieces = (kWords + kOfPiece - 1) / kOfPiece;
        uint32_t at = 0;
        if (events_ == nullptr || event_order_ >= kLeft - kPieces) return false;
        if (!take(events_->count, kPieces, events_->capacity, at)) return false;
        for (uint32_t piece = 0; piece < kPieces; ++piece) {
            Event event;
            for (uint32_t i = 0; i < kOfPiece && piece * kOfPiece + i < kWords; ++i)
                store_raw(reinterpret_cast<uint8_t*>(&event) + 4 * i,
                          load_raw<uint32_t>(reinterpret_cast<const uint8_t*>(&note) + 4 * (piece * kOfPiece + i)));
            event.packet = index_;
            event.code = piece;
            event.node = node_;
            event.order = event_order_++;
            events_->events[at + piece] = event;
        }
        return true;
    }
    /// In place of `emit`, where the device half cannot hold all that it has to tell of this packet: none of it counts,
    /// and the NF is asked again on the CPU (nf::NetworkFunction::make_teller).
    MILLRACE_DEVICE void leave_events() { leave(0); }

private:
    static constexpr uint16_t kLeft = 0xffff;  ///< event_order_ of a packet whose events were left

    MILLRACE_DEVICE_CALL void leave(uint16_t lost) {
        if (events_ == nullptr || event_order_ == kLeft) return;
        event_order_ = kLeft;
        const uint32_t at = next_of(events_->left_count);
        if (at >= events_->left_capacity) return;
        events_->left[at] = {index_,
                             node_,
                             static_cast<uint16_t>(length_),
                             lost != 0 ? LeftEvents::kNotKept : keep_frame(),
                             static_cast<uint16_t>(present_),
                             lost};
    }
    MILLRACE_DEVICE static uint32_t next_of(uint32_t& counter, uint32_t by = 1) {
#if MILLRACE_GPU
        return atomicAdd(&counter, by);
#else
        const uint32_t before = counter;
        counter += by;
        return before;
#endif
    }
    /// Takes `n` places of `capacity`, or none. Where the first one is.
    MILLRACE_DEVICE static bool take(uint32_t& counter, uint32_t n, uint32_t capacity, uint32_t& at) {
#if MILLRACE_GPU
        for (uint32_t seen = *const_cast<volatile uint32_t*>(&counter); seen + n <= capacity; seen = at)
            if ((at = atomicCAS(&counter, seen, seen + n)) == seen) return true;
        return false;
#else
        at = counter;
        if (at + n > capacity) return false;
        counter += n;
        return true;
#endif
    }
    /// Keeps the frame as it is now, if it may be another than was received. Where.
    MILLRACE_DEVICE uint32_t keep_frame() const {
        if (node_ < events_->keep_from) return LeftEvents::kNotKept;
        const uint32_t at = next_of(events_->kept_bytes, (present_ + 15) & ~15u);
        if (at + present_ > events_->kept_capacity) return LeftEvents::kNotKept;  // there is room for all
        uint8_t* const to = events_->kept + at;
        uint32_t i = 0;
        for (; i + 8 <= present_; i += 8) store_raw(to + i, load_raw<uint64_t>(data_ + i));
        for (; i < present_; ++i) to[i] = data_[i];
        return at;
    }
    MILLRACE_DEVICE Event make_event(uint32_t code) const {
        Event event;
        if (layers_.is_ipv4()) {
            event.ip_version = 4;
            copy_bytes(event.src, l3() + 12, 4);
            copy_bytes(event.dst, l3() + 16, 4);
        } else if (layers_.is_ipv6()) {
            event.ip_version = 6;
            copy_bytes(event.src, l3() + 8, 16);
            copy_bytes(event.dst, l3() + 24, 16);
        }
        event.src_port = layers_.is_icmp() ? l4()[0] : l4_src_port();
        event.dst_port = layers_.is_icmp() ? l4()[1] : l4_dst_port();
        event.protocol = layers_.protocol;
        event.vlan_id = layers_.vlan_id;
        event.length = length_;
        event.packet = index_;
        event.code = code;
        event.node = node_;
        event.order = event_order_;
        return event;
    }

    uint8_t* data_ = nullptr;
    EventBuffer* events_ = nullptr;
    uint64_t ticket_ = 0;
    uint64_t time_ns_ = 0;
    uint32_t length_ = 0;
    uint32_t present_ = 0;
    Layers layers_;
    uint32_t index_ = 0;
    uint16_t headroom_ = 0;
    uint16_t tailroom_ = 0;
    uint16_t in_port_ = kNoPort;
    uint16_t out_port_ = kNoPort;
    uint16_t node_ = 0;
    uint16_t event_order_ = 0;
    uint16_t segment_bytes_ = 0;
    Connection connection_ = Connection::untracked;
};

/// A hash of the packet's five-tuple: the same for every packet of a flow in one direction, equal on
/// every device. Packets that are not IP, and later fragments without ports, hash what they have.
MILLRACE_DEVICE uint32_t flow_hash(const Packet& packet) {
    const Layers& layers = packet.layers();
    uint64_t h = 0x9e3779b97f4a7c15ull ^ layers.protocol;
    if (layers.is_ipv4()) {
        h ^= load_raw<uint64_t>(packet.l3() + 12);
    } else if (layers.is_ipv6()) {
        for (unsigned i = 0; i < 4; ++i) h = (h ^ load_raw<uint64_t>(packet.l3() + 8 + 8 * i)) * 0xff51afd7ed558ccdull;
    } else {
        return 0;
    }
    // A datagram's fragments must share a hash, so ports count only where no packet of the flow is a fragment.
    h *= 0x9fb21c651e98df25ull;
    if (layers.has_ports() && !layers.is_fragment()) h ^= static_cast<uint64_t>(load_raw<uint32_t>(packet.l4())) << 16;
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ull;
    h ^= h >> 33;
    return static_cast<uint32_t>(h);
}

}  // namespace millrace
