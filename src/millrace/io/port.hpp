// Where packets come from and go to: the interface between workers and network ports, captures,
// traffic sources and in-memory rings.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/base/eal.hpp"
#include "millrace/io/receive_block.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/io/memory/pool.hpp"
#include "millrace/io/source/source_delivery.hpp"

namespace millrace::io {

class WakeUps;

/// Why a port lost a packet. The first group happens before `receive` could hand the packet over, the
/// second after `send` took it.
enum class PortDrop : uint8_t {
    too_long,           ///< the frame does not fit into one packet buffer
    too_short,          ///< a record without room for an Ethernet header
    no_mbuf,            ///< the pool was empty when the frame came (network ports only: others wait)
    missed,             ///< the NIC's queue or the kernel's was full
    receive_error,      ///< the NIC found the frame damaged
    read_error,         ///< the capture breaks off inside a record
    unsupported_link,   ///< the record's link type has no Ethernet form
    tx_full,            ///< the NIC, the kernel or the peer had no room for it any more
    tx_error,           ///< the NIC or the kernel refused it
    over_mtu,           ///< longer than the port's MTU allows
    link_down,          ///< the interface was down or gone
    too_many_segments,  ///< a packet in more pieces than the port can write
    write_error,        ///< the output file could not be written
    kCount,
};
inline constexpr size_t kPortDrops = static_cast<size_t>(PortDrop::kCount);
const char* drop_name(PortDrop drop);  ///< "too-long", …
bool is_send_drop(PortDrop drop);

/// What a port has counted since it was made. For every port:
///   frames that its input held so far   = received_packets + drops on the receiving side
///   packets that `send` took            = sent_packets + drops on the sending side
struct PortCounters {
    uint64_t received_packets = 0, received_bytes = 0;  ///< handed to workers by `receive`; frame bytes, no CRC
    uint64_t sent_packets = 0, sent_bytes = 0;          ///< really sent, written or delivered
    std::map<std::string, uint64_t> drops;              ///< by name; only those that happened
    std::map<std::string, uint64_t> details;  ///< what is no loss but worth knowing: "padded", "snapped", "pool-empty"
    uint64_t receive_drops() const;
    uint64_t send_drops() const;
};

/// What a port is, as it was made.
struct PortInfo {
    std::string name;              ///< the key under `ports:`
    std::string kind;              ///< "pcap", "dpdk", …
    std::string detail;            ///< for people: the file or device
    uint16_t index = 0;            ///< its place under `ports:`, the number that NFs use
    uint16_t receive_queues = 0;   ///< 0: it never receives
    uint16_t send_queues = 0;      ///< 0: it cannot send
    std::array<uint8_t, 6> mac{};  ///< zero when it has none; `Port::mac` is what holds now
    uint32_t mtu = 1500;           ///< longest IP packet it sends, when it was made; `Port::mtu` is what holds now
    int numa_node = -1;            ///< of the device; -1: none or unknown
};

struct LinkState {
    bool up = true;
    uint32_t speed_mbps = 0;  ///< 0: unknown or unlimited
};

/// Adds to a counter that one thread alone writes, and any reads.
inline void increase(std::atomic<uint64_t>& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

/// One port. A queue belongs to one thread at a time, for receiving and for sending separately;
/// different queues may be used at once. Packets given out lie in the port's own pool and go back
/// there with rte_pktmbuf_free, wherever they are freed.
class Port {
public:
    virtual ~Port() = default;
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    const PortInfo& info() const { return info_; }
    const std::string& name() const { return info_.name; }
    uint16_t index() const { return info_.index; }
    bool can_receive() const { return info_.receive_queues > 0; }
    bool can_send() const { return info_.send_queues > 0; }

    /// Fetches at most `count` packets of one segment each, with metadata (metadata.hpp), mbuf->port
    /// set to `index()` and l2 flags unset; returns how many. Never blocks.
    virtual uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) = 0;

    /// The same, but the port may leave metadata unwritten and tell it by `notes`: it lies in a cache line of the mbuf
    /// that nothing else is in which a driver writes.
    virtual uint16_t receive_noted(uint16_t queue, rte_mbuf** mbufs, uint16_t count, BurstNotes& notes) {
        notes.written = true;
        return receive(queue, mbufs, count);
    }

    /// Takes the first packets of `mbufs` and sends them in order; returns how many it took. Those are
    /// the port's from then on (it frees them); the caller keeps the rest and may try again. Never blocks.
    virtual uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) = 0;

    // Frames that are yet to be cut into those of the wire (segment_bytes). Who sends without mbufs sends these, too.
    /// From now on such frames of this queue are wanted as they are, or cut. The thread that receives of it; at first
    /// they are cut.
    virtual void give_uncut(uint16_t /*queue*/, bool /*uncut*/) {}
    virtual bool sends_uncut() const { return sends_frames(); }
    /// Where they get their mbufs; null: it receives none.
    virtual const PacketPool* uncut_pool() const { return nullptr; }

    /// The thread that receives of this queue has nothing to do, and is about to sleep: says what is to wake it. The
    /// thread then looks once more, sleeps unless there was something, and calls `end_sleep`.
    virtual void begin_sleep(uint16_t queue, WakeUps& wake_ups);
    virtual void end_sleep(uint16_t /*queue*/) {}

    /// A port that takes nothing for so long has lost what is to be sent: it is dropped. Until then it waits.
    virtual std::chrono::nanoseconds send_patience() const { return std::chrono::milliseconds(100); }

    // Ports that keep received frames contiguous give them out without mbufs, too, to those who want them so; a
    // queue's packets are then taken by either call.
    virtual bool receives_blocks() const { return false; }
    /// Fetches at most `most` contiguous frames; none when its count is 0. Never blocks.
    virtual ReceiveBlock receive_block(uint16_t /*queue*/, uint32_t /*most*/) { return {}; }
    /// The oldest `count` frames that the queue's blocks have given out are not needed any more.
    virtual void give_back(uint16_t /*queue*/, uint32_t /*count*/) {}
    /// Whether `send_frames` may be called.
    virtual bool sends_frames() const { return false; }
    /// Sends the first of `frames`, which came with `block`, in order; returns how many it took. It has done with their
    /// memory when it returns.
    virtual size_t send_frames(uint16_t /*queue*/, const ReceiveBlock& /*block*/,
                               std::span<const FramePieces> /*frames*/) {
        return 0;
    }

    /// True once no queue will ever receive anything any more (end of a capture or a counted source).
    virtual bool exhausted() const { return !can_receive(); }
    /// How much of a finite input was read, 0 to 1; negative when unknown.
    virtual double progress() const { return -1; }
    /// As it is now, where the port knows. Any thread.
    virtual LinkState link() const { return {}; }
    /// The longest IP packet that it sends now. Longer ones are dropped as `over-mtu`. Any thread.
    virtual uint32_t mtu() const { return info_.mtu; }
    /// Its address now; zero when it has none. Any thread.
    virtual std::array<uint8_t, 6> mac() const { return info_.mac; }
    /// Whether Linux takes part of what comes in here besides. Any thread.
    virtual bool linux_hears() const { return false; }
    /// Has `told` called, by a thread of the port's, when `link`, `mtu` or `mac` may have changed; an empty one ends
    /// that. False: this port never tells.
    virtual bool on_change(const std::function<void()>& /*told*/) { return false; }
    /// Has the Linux interface that this port has made be what `port` is now: its link, MTU and MAC address. One thread
    /// at a time.
    virtual void stand_for(const Port& /*port*/) {}
    /// Whether a frame of so many bytes, of which `head_bytes` lie at `head`, is within an MTU: VLAN tags, two at most,
    /// come on top of it.
    static bool fits_mtu(const uint8_t* head, size_t head_bytes, uint32_t bytes, uint32_t mtu);
    virtual PortCounters counters() const;
    /// Hands what is buffered to the file or the NIC.
    virtual void flush() {}
    /// No more sending or receiving; files are complete. Called again it does nothing. Workers must be
    /// done with the port. An error that the port met on its way is in its counters.
    virtual void close() {}
    /// What went wrong while running, for people, such as where a capture breaks off; empty when nothing did.
    virtual std::string trouble() const { return {}; }
    /// Where received packets get their mbufs; none when it is no pool of this port.
    virtual std::vector<const PacketPool*> pools() const { return {}; }
    /// Where received frames lie, for devices that pin memory.
    virtual std::vector<std::span<uint8_t>> memory() const {
        std::vector<std::span<uint8_t>> all;
        for (const PacketPool* pool : pools()) all.emplace_back(pool->memory(), pool->memory_bytes());
        return all;
    }

protected:
    explicit Port(PortInfo info);

    /// Counters of one queue and direction: written by the queue's thread alone, read by any.
    struct alignas(64) QueueCounters {
        std::atomic<uint64_t> packets{0}, bytes{0};
        std::array<std::atomic<uint64_t>, kPortDrops> drops{};
        void count(uint64_t n, uint64_t n_bytes) {
            increase(packets, n);
            increase(bytes, n_bytes);
        }
        void drop(PortDrop reason, uint64_t n = 1) { increase(drops[static_cast<size_t>(reason)], n); }
    };
    QueueCounters& receiving(uint16_t queue) { return receiving_[queue]; }
    QueueCounters& sending(uint16_t queue) { return sending_[queue]; }
    PortInfo info_;

private:
    std::unique_ptr<QueueCounters[]> receiving_, sending_;
};

/// A Linux interface that stands for a port in Linux' eyes.
struct StandIn {
    std::string interface;
    uint16_t port = 0;  ///< its number
};

/// What ports are made for.
struct PortEnvironment {
    uint16_t queues = 1;            ///< workers: queues a port gets unless its options say otherwise
    uint32_t headroom_bytes = 128;  ///< free bytes before frames: what the chains may add in front (≥ 128)
    uint32_t tailroom_bytes = 64;   ///< free bytes behind the longest frame: what the chains may append
    uint32_t pool_packets = 16384;  ///< buffers of each receiving port, unless its `buffers` option says otherwise
    size_t pool_memory_bytes = size_t{128} << 20;  ///< a pool of long frames gets fewer buffers to stay below
    std::string output_folder;       ///< relative names of output files start here; empty: in the YAML file's folder
    SourceDelivery sources;          ///< how traffic sources hand out frames
    std::vector<StandIn> stand_ins;  ///< taps among them are made with room for the frames of their ports
    EalOptions eal;                  ///< used when EAL does not run yet
    std::function<void(Diagnostic)> warn = [](Diagnostic) {};
};

/// Makes the ports of the YAML map `ports` (name → options; README.md lists them), in its order, so
/// that `result[i]->index() == i`. Starts EAL. Throws ConfigError with file, line and column on any
/// mistake, and then nothing stays open.
std::vector<std::unique_ptr<Port>> make_ports(const Config& ports, const PortEnvironment& environment = {});

/// The same without opening anything: what `millrace check` does. Files to read must exist.
void check_ports(const Config& ports, const PortEnvironment& environment = {});

}  // namespace millrace::io
