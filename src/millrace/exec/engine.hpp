// What a worker runs chains with: in place on its own core, or on a device.
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <memory>
#include <span>

#include "millrace/exec/report/counters.hpp"
#include "millrace/exec/verdict.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/io/receive_block.hpp"

namespace millrace::exec {

/// What every NF that saw a packet decided, in order, for those who want to know (`--verdicts`).
struct Visit {
    uint16_t node;
    Decision decision;
};

/// Takes the packets that have gone through a chain. Called by the engine, on the worker's thread.
class Delivery {
public:
    virtual ~Delivery() = default;
    /// `verdicts[i]` belongs to `mbufs[i]`; owns the mbufs from here on.
    virtual void deliver(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                         const Verdict* verdicts, size_t count) = 0;
    /// The same for packets that one port is to send (no set of ports), whose verdicts differ in their decisions'
    /// details at most: those stand in their results.
    virtual void deliver_alike(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs,
                               const Verdict& verdict, const device::PacketResult* results) {
        constexpr size_t kAtOnce = 64;
        Verdict verdicts[kAtOnce];
        for (size_t from = 0; from < mbufs.size(); from += kAtOnce) {
            const size_t n = std::min(kAtOnce, mbufs.size() - from);
            for (size_t i = 0; i < n; ++i) {
                verdicts[i] = verdict;
                if (verdict.node < program.nodes.size())
                    verdicts[i].decision.detail = detail_of(results[from + i].detail);
            }
            deliver(program, counters, mbufs.data() + from, verdicts, n);
        }
    }
    /// Whether `visits` is to be called.
    virtual bool wants_visits() const { return false; }
    /// Before `deliver`: who saw the packet.
    virtual void visits(const chain::Program&, rte_mbuf*, std::span<const Visit>, const Verdict&) {}
};

/// Frames of a receive block that a worker takes of a port at once.
inline constexpr uint32_t kMaxBlockFrames = 1024;

/// How frames without mbufs leave.
struct FrameWay {
    enum class Kind : uint8_t {
        by_port,  ///< `port` sends them from where they lie
        dropped,  ///< not at all
        alone,    ///< FrameDelivery::deliver_frames has to see to them
    };
    Kind kind = Kind::alone;
    uint16_t port = kNoPort;
};

/// Takes frames that have gone through a chain without mbufs. Called by the engine, on the worker's thread.
class FrameDelivery {
public:
    virtual ~FrameDelivery() = default;
    /// How frames with this verdict leave; the same whenever it is asked.
    virtual FrameWay way_of(const chain::Program& program, const Verdict& verdict) const = 0;
    /// How many ports there are for frames to leave by.
    virtual size_t port_count() const = 0;
    /// Sends frames that came with `block`, of any chains, by a port of `way_of`. Returns how many have gone, the first
    /// ones. The caller counts them as sent, and hands the others to `hold_frames`.
    virtual size_t send_frames(uint16_t port, const io::ReceiveBlock& block,
                               std::span<const io::FramePieces> frames) = 0;
    /// Keeps frames that a port has not taken for later, in packets of their own; or drops them, if it is one that
    /// takes nothing any more. Counts them by `sender`, their chain's.
    virtual void hold_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames,
                             ChainCounters& sender) = 0;
    /// Frames that came with `block` and share their verdict but for its decision's detail, which stands in each one's
    /// result (`detail_of`), by its place in the block. Their memory stays until this returns.
    virtual void deliver_frames(const chain::Program& program, ChainCounters& counters, const io::ReceiveBlock& block,
                                std::span<const io::FramePieces> frames, const Verdict& verdict,
                                const device::PacketResult* results) = 0;
    /// Frames are not needed any more. In the order in which they were submitted.
    virtual void give_back(const io::ReceiveBlock& block) = 0;
    /// A packet that holds a copy of the frame, in a buffer of the port that received it; null when there is none left.
    virtual rte_mbuf* copy_of(const io::ReceiveBlock& block, const io::FramePieces& frame) = 0;
};

/// Runs programs. One object per worker; all calls on the worker's thread.
class Engine {
public:
    virtual ~Engine() = default;
    /// Takes `count` packets into a chain. They reach `Delivery` in this order, now or later. Of none: makes it ready.
    virtual void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                        rte_mbuf* const* mbufs, size_t count) = 0;
    /// The same of packets whose metadata `notes` tells, where their port has not written it.
    virtual void submit(const std::shared_ptr<const chain::Program>& /*program*/, ChainCounters& /*counters*/,
                        rte_mbuf* const* /*mbufs*/, size_t /*count*/, const io::BurstNotes& /*notes*/) {}
    /// Whether that may be called.
    virtual bool takes_notes() const { return false; }
    /// Whether `submit` runs the chain before it returns, in place of queueing packets.
    virtual bool runs_at_once() const { return false; }
    /// Whether the other `submit` may be called: frames without mbufs then come back by FrameDelivery.
    virtual bool takes_blocks() const { return false; }
    /// Takes the frames of a block into a chain. All blocks of one port and queue go to one engine; they reach
    /// FrameDelivery in this order.
    virtual void submit(const std::shared_ptr<const chain::Program>& /*program*/, ChainCounters& /*counters*/,
                        const io::ReceiveBlock& /*block*/) {}
    /// Moves on what is under way. Never blocks: looks at each batch and queue, delivers what is done, and starts what
    /// is due. (docs/architecture/guarantees.md has the bounds and the exceptions.)
    virtual void poll() = 0;
    /// Packets taken in and not delivered.
    virtual size_t in_flight() const = 0;
    /// Those of a chain, of any generation; all of them where it can't tell.
    virtual size_t in_flight_of(const chain::Program&) const { return in_flight(); }
    /// Whether it can do without `poll` while there are no packets.
    virtual bool may_sleep() const { return in_flight() == 0; }
    /// Finishes everything that is under way, waiting if need be; all that it counts is counted then.
    virtual void drain() = 0;
    virtual std::string describe() const = 0;
};

/// Frame bytes of an mbuf as a packet; the mbuf is one segment.
inline void attach_mbuf(Packet& packet, rte_mbuf* mbuf) {
    packet.attach(rte_pktmbuf_mtod(mbuf, uint8_t*), mbuf->data_len, mbuf->data_len, rte_pktmbuf_headroom(mbuf),
                  rte_pktmbuf_tailroom(mbuf));
    packet.set_in_port(mbuf->port);
    packet.set_out_port(kNoPort);
    packet.set_segment_bytes(io::segment_bytes(mbuf));
}

/// Makes the mbuf what the packet has become.
inline void update_mbuf(rte_mbuf* mbuf, const Packet& packet) {
    mbuf->data_off = static_cast<uint16_t>(packet.data() - static_cast<uint8_t*>(mbuf->buf_addr));
    mbuf->data_len = static_cast<uint16_t>(packet.length());
    mbuf->pkt_len = packet.length();
}

}  // namespace millrace::exec
