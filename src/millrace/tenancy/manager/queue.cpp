#include "millrace/tenancy/manager/queue.hpp"

#include <rte_cycles.h>

#include <algorithm>

#include "millrace/tenancy/exchange/fields.hpp"
#include "millrace/tenancy/manager/manager.hpp"

namespace millrace::tenancy {

using chain::AbsentFor;

TenantQueue::TenantQueue(exec::Delivery& delivery, Seat& seat, unsigned worker, size_t room)
    : delivery_(delivery), seat_(seat), worker_(worker), room_(std::max<size_t>(room, kMaxPackets)),
      counters_(seat.new_counters()), entries_(2 * room_ + kMaxPackets) {
    runs_.reserve(8);
    shown_.reserve(kMaxPackets);
    leaving_.reserve(kMaxPackets);
    verdicts_.reserve(kMaxPackets);
    malformed_.reserve(kMaxPackets);
    malformed_verdicts_.reserve(kMaxPackets);
}

TenantQueue::~TenantQueue() {
    for (size_t i = 0; i < size_; ++i) rte_pktmbuf_free(entry(i).mbuf);
}

void TenantQueue::take(const std::shared_ptr<const chain::Program>& program, exec::ChainCounters& counters,
                       rte_mbuf* const* mbufs, size_t count, Clock::time_point now) {
    for (; count > kMaxPackets; count -= kMaxPackets, mbufs += kMaxPackets)
        take(program, counters, mbufs, kMaxPackets, now);
    const uint64_t from = rte_rdtsc();
    give_room(count, now);
    const chain::TenantFunction& function = *chain::tenant_of(program->nodes.front());
    exec::NodeCounters& node = *counters.nodes.front();
    uint64_t bytes = 0, kept_bytes = 0;
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        rte_mbuf* const mbuf = mbufs[i];
        bytes += mbuf->data_len;
        const Layers layers = parse(rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len, mbuf->data_len);
        if (layers.malformed != Malformed::no && program->drop_malformed) {
            counters.malformed[static_cast<size_t>(layers.malformed)].add(1);
            malformed_.push_back(mbuf);
            malformed_verdicts_.push_back({{Target::Kind::drop, 0},
                                           exec::kParserNode,
                                           kNoPort,
                                           {kNoDetail, static_cast<uint32_t>(layers.malformed)}});
            continue;
        }
        kept_bytes += mbuf->data_len;
        ++kept;
        keep(mbuf, layers, function, now);
    }
    counters.received_packets.add(count);
    counters.received_bytes.add(bytes);
    node.packets.add(kept);
    node.bytes.add(kept_bytes);
    counters_->taken.add(kept);
    if (kept > 0) {
        if (!runs_.empty() && runs_.back().program == program && runs_.back().counters == &counters)
            runs_.back().count += kept;
        else runs_.push_back({program, &counters, terms_of(function), kept});
    }
    if (!malformed_.empty()) {
        if (delivery_.wants_visits())
            for (size_t i = 0; i < malformed_.size(); ++i)
                delivery_.visits(*program, malformed_[i], {}, malformed_verdicts_[i]);
        delivery_.deliver(*program, counters, malformed_.data(), malformed_verdicts_.data(), malformed_.size());
        malformed_.clear();
        malformed_verdicts_.clear();
    }
    node.cycles.add(rte_rdtsc() - from);
    poll(now);
}

void TenantQueue::keep(rte_mbuf* mbuf, const Layers& layers, const chain::TenantFunction& function,
                       Clock::time_point now) {
    Entry& own = entry(size_);
    own = {mbuf, now, layers, true};
    const Fields shown = function.sees() | function.changes();
    if (lane_ != nullptr && packed_bytes(mbuf->data_len, layers, shown) > attachment_->memory().shape().in_bytes) {
        own.asks = false;
        own.why = AbsentFor::too_long;
    } else if (size_ >= room_) {
        own.asks = false;
        own.why = AbsentFor::busy;
    }
    ++size_;
}

/// Makes place for so many more.
void TenantQueue::give_room(size_t count, Clock::time_point now) {
    while (size_ + count > entries_.size()) {
        if (segment_count_ == 0) refuse(settled_);
        if (segments_[0].asked) lane_->give_up();
        finish(nullptr, AbsentFor::busy, now);
    }
}

/// Whoever is attached now is asked from here on, once all that another one had is settled.
void TenantQueue::follow_seat() {
    if (seat_.version() == seen_version_ || (lane_ != nullptr && lane_->waiting() > 0)) return;
    seen_version_ = seat_.version();
    attachment_ = seat_.current();
    lane_ = attachment_ != nullptr ? &attachment_->lane(worker_) : nullptr;
    if (lane_ == nullptr) return;
    const Shape& shape = attachment_->memory().shape();
    packed_.resize(size_t{shape.packets} * shape.in_bytes);
    taken_.back.reserve(size_t{shape.packets} * shape.back_bytes);
}

bool TenantQueue::may_ask() const { return lane_ != nullptr && attachment_->attached(); }

void TenantQueue::poll(Clock::time_point now) {
    const uint64_t from = rte_rdtsc();
    exec::NodeCounters* const node = runs_.empty() ? nullptr : runs_.front().counters->nodes.front().get();
    follow_seat();
    while (lane_ != nullptr && lane_->waiting() > 0) {
        // What was not asked about has waited for what came before it.
        while (segment_count_ > 0 && !segments_[0].asked) finish(nullptr, AbsentFor::away, now);
        const Lane::Reply reply = lane_->next(taken_, now);
        if (reply == Lane::Reply::waits) break;
        constexpr AbsentFor kWhy[] = {AbsentFor::away, AbsentFor::away, AbsentFor::late, AbsentFor::wrong,
                                      AbsentFor::lost};
        finish(reply == Lane::Reply::good ? &taken_ : nullptr, kWhy[static_cast<size_t>(reply)], now);
    }
    follow_seat();
    advance(now);
    while (segment_count_ > 0 && !segments_[0].asked) finish(nullptr, AbsentFor::away, now);
    if (node != nullptr) node->cycles.add(rte_rdtsc() - from);
}

/// Asks about what waits, as far as there are slots.
void TenantQueue::advance(Clock::time_point now) {
    while (settled_ < size_) {
        Entry& next = entry(settled_);
        if (!may_ask()) {
            // Another one may be about to come; who is gone has nothing to say.
            if (next.asks) next.why = AbsentFor::away;
            next.asks = false;
        }
        if (!next.asks) refuse(settled_);
        else if (!ask(now)) return;
    }
}

/// A packet that nobody is asked about: into a segment.
void TenantQueue::refuse(size_t number) {
    Entry& own = entry(number);
    if (own.asks) own.why = AbsentFor::busy;
    own.asks = false;
    if (segment_count_ == 0 || segments_[segment_count_ - 1].asked) segments_[segment_count_++] = {0, false};
    ++segments_[segment_count_ - 1].count;
    ++settled_;
}

/// One batch more: neighbours of one generation. False where there is no slot.
bool TenantQueue::ask(Clock::time_point now) {
    size_t before = 0, run = 0;
    while (before + runs_[run].count <= settled_) before += runs_[run++].count;
    const uint32_t room = lane_->room(runs_[run].program->gpu_share);
    if (room == 0) return false;
    const size_t end = std::min(size_, before + runs_[run].count);
    // Another generation may have other terms, and those who attached by these no say in it.
    if (!(attachment_->terms() == runs_[run].terms)) {
        entry(settled_).why = AbsentFor::away;
        entry(settled_).asks = false;
        refuse(settled_);
        return true;
    }
    const chain::TenantFunction& function = *chain::tenant_of(runs_[run].program->nodes.front());
    const Fields changes = function.changes(), shown = function.sees() | changes;
    const Shape& shape = attachment_->memory().shape();
    shown_.clear();
    for (size_t i = settled_; i < end && shown_.size() < room && entry(i).asks; ++i) {
        const Entry& own = entry(i);
        const auto* const frame = rte_pktmbuf_mtod(own.mbuf, const uint8_t*);
        const uint32_t length = own.mbuf->data_len, bytes = packed_bytes(length, own.layers, shown);
        // It came before these terms did, or has headers that are too long for its place.
        if (bytes > shape.in_bytes || !lane_->takes(length, own.layers, shown)) break;
        uint8_t* const to = packed_.data() + shown_.size() * shape.in_bytes;
        pack(frame, length, own.layers, shown, to);
        shown_.push_back({{io::packet_timestamp_ns(own.mbuf), length, own.layers},
                          {to, bytes},
                          static_cast<uint16_t>(packed_bytes(length, own.layers, changes))});
    }
    if (shown_.empty()) {
        entry(settled_).asks = false;
        entry(settled_).why = AbsentFor::too_long;
        refuse(settled_);
        return true;
    }
    if (!lane_->ask(shown_, 0, now)) return true;  // it has gone since: looked at again
    segments_[segment_count_++] = {shown_.size(), true};
    settled_ += shown_.size();
    runs_[run].counters->batches.add(1);
    return true;
}

void TenantQueue::finish(const Exchange::Taken* taken, AbsentFor why, Clock::time_point now) {
    const Segment done = segments_[0];
    for (size_t i = 1; i < segment_count_; ++i) segments_[i - 1] = segments_[i];
    --segment_count_;
    for (size_t left = done.count; left > 0;) {
        Run& run = runs_.front();
        const chain::Program& program = *run.program;
        const chain::Node& node = program.nodes.front();
        const chain::TenantFunction& function = *chain::tenant_of(node);
        const size_t n = std::min({left, run.count, size_t{kMaxPackets}});
        leaving_.clear();
        verdicts_.clear();
        for (size_t i = 0; i < n; ++i) {
            Entry& own = entry(i);
            Decision decision{static_cast<uint32_t>(done.asked ? why : own.why), function.absent()};
            if (taken != nullptr) {
                const size_t at = done.count - left + i;
                decision = {kNoDetail, taken->outcomes[at]};
                unpack(taken->back.data() + at * attachment_->memory().shape().back_bytes,
                       rte_pktmbuf_mtod(own.mbuf, uint8_t*), own.mbuf->data_len, own.layers, function.changes());
            } else {
                counters_->absent[decision.detail].add(1);
            }
            run.counters->nodes.front()->by_outcome[decision.outcome].add(1);
            leaving_.push_back(own.mbuf);
            verdicts_.push_back({node.target(decision.outcome), 0, kNoPort, decision});
        }
        if (taken != nullptr) counters_->answered.add(n);
        deliver(n, now);
        left -= n;
    }
}

/// The first packets leave, with these verdicts.
void TenantQueue::deliver(size_t count, Clock::time_point now) {
    const Run run = runs_.front();
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(now - entry(0).since).count();
    run.counters->latency.record(static_cast<uint64_t>(waited), count);
    first_ = (first_ + count) % entries_.size();
    size_ -= count;
    settled_ -= count;
    runs_.front().count -= count;
    if (runs_.front().count == 0) runs_.erase(runs_.begin());
    if (delivery_.wants_visits())
        for (size_t i = 0; i < count; ++i) {
            const exec::Visit visit{0, verdicts_[i].decision};
            delivery_.visits(*run.program, leaving_[i], {&visit, 1}, verdicts_[i]);
        }
    delivery_.deliver(*run.program, *run.counters, leaving_.data(), verdicts_.data(), count);
}

}  // namespace millrace::tenancy
