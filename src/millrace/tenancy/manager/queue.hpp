// The packets of one worker that are for one tenant.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "millrace/exec/engine.hpp"
#include "millrace/tenancy/manager/seat.hpp"

namespace millrace::tenancy {

/// Packets go through in their order: each is answered by the tenant, or absent for a reason. Nothing here waits for
/// the tenant, and once made it allocates nothing but at a change of generation.
class TenantQueue {
public:
    using Clock = Attachment::Clock;

    /// `room`: packets that may wait for the tenant. More than that are not asked about, but keep their place; where
    /// twice as many have one, the tenant loses its oldest batch.
    TenantQueue(exec::Delivery& delivery, Seat& seat, unsigned worker, size_t room);
    ~TenantQueue();
    TenantQueue(const TenantQueue&) = delete;
    TenantQueue& operator=(const TenantQueue&) = delete;

    void take(const std::shared_ptr<const chain::Program>& program, exec::ChainCounters& counters,
              rte_mbuf* const* mbufs, size_t count, Clock::time_point now);
    /// Delivers what is decided, and asks on.
    void poll(Clock::time_point now);
    size_t size() const { return size_; }

private:
    struct Entry {
        rte_mbuf* mbuf;
        Clock::time_point since;
        Layers layers;
        bool asks;                                      ///< the tenant is to be asked, or was
        chain::AbsentFor why = chain::AbsentFor::away;  ///< else
    };
    /// Packets of one generation of the chain.
    struct Run {
        std::shared_ptr<const chain::Program> program;
        exec::ChainCounters* counters;
        Terms terms;
        size_t count;
    };
    /// Neighbours from the front on that get one reply.
    struct Segment {
        size_t count = 0;
        bool asked = false;
    };
    Entry& entry(size_t number) { return entries_[(first_ + number) % entries_.size()]; }
    void keep(rte_mbuf* mbuf, const Layers& layers, const chain::TenantFunction& function, Clock::time_point now);
    void follow_seat();
    bool may_ask() const;
    void advance(Clock::time_point now);
    bool ask(Clock::time_point now);
    void refuse(size_t number);
    /// The first segment is done: answered, where `outcomes` is there.
    void finish(const Exchange::Taken* taken, chain::AbsentFor why, Clock::time_point now);
    void deliver(size_t count, Clock::time_point now);
    void give_room(size_t count, Clock::time_point now);

    exec::Delivery& delivery_;
    Seat& seat_;
    const unsigned worker_;
    const size_t room_;
    const std::shared_ptr<QueueCounters> counters_;
    std::shared_ptr<Attachment> attachment_;
    Lane* lane_ = nullptr;
    uint64_t seen_version_ = 0;

    std::vector<Entry> entries_;  // a ring
    size_t first_ = 0, size_ = 0;
    size_t settled_ = 0;  // of them in segments
    std::vector<Run> runs_;
    std::array<Segment, 2 * kSlots + 2> segments_;
    size_t segment_count_ = 0;

    std::vector<Shown> shown_;
    std::vector<uint8_t> packed_;
    Exchange::Taken taken_;
    std::vector<rte_mbuf*> leaving_;
    std::vector<exec::Verdict> verdicts_;
    std::vector<rte_mbuf*> malformed_;
    std::vector<exec::Verdict> malformed_verdicts_;
};

}  // namespace millrace::tenancy
