// Chains that put fragments together.
#include <rte_cycles.h>

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/io/clock.hpp"

namespace millrace::exec {
namespace {

/// A worker's part of what a chain may hold.
chain::Reassembly share_of(const chain::Reassembly& limits, size_t workers) {
    chain::Reassembly own = limits;
    own.max_packets = static_cast<uint32_t>((limits.max_packets + workers - 1) / workers);
    own.max_per_source = std::min(own.max_per_source, own.max_packets);
    return own;
}

}  // namespace

/// Chains of the new generation go on with what those of their name hold, unless their limits are others now.
void Worker::keep_reassemblers() {
    std::vector<std::unique_ptr<Reassembler>> before = std::exchange(reassemblers_, {});
    for (size_t chain = 0; chain < configuration_->chains.size(); ++chain) {
        std::unique_ptr<Reassembler>& own = reassemblers_.emplace_back();
        const auto& limits = configuration_->chains[chain]->reassembly;
        if (!limits) continue;
        const chain::Reassembly share = share_of(*limits, runtime_.options_.workers);
        const auto same = std::ranges::find_if(before, [&](const auto& other) {
            return other != nullptr && &other->counters() == chain_counters_[chain] && other->limits() == share;
        });
        if (same != before.end()) own = std::move(*same);
        else
            own = std::make_unique<Reassembler>(share, *runtime_.whole_packets_, runtime_.ports_.size(),
                                                *chain_counters_[chain]);
    }
    whole_.reserve(burst_.size());
}

size_t Worker::fragments_held() const {
    size_t held = 0;
    for (const auto& own : reassemblers_) held += own != nullptr ? own->held() : 0;
    return held;
}

/// Packets for a chain that puts fragments together.
void Worker::submit_whole(uint16_t chain, std::span<rte_mbuf* const> mbufs) {
    Reassembler& reassembler = *reassemblers_[chain];
    whole_.clear();
    for (rte_mbuf* const mbuf : mbufs) {
        const std::span frame(rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len);
        if (is_plainly_whole(frame.data(), mbuf->data_len)) {
            whole_.push_back(mbuf);
            continue;
        }
        const std::optional<Fragment> fragment = read_fragment(frame, mbuf->port);
        if (!fragment) {
            whole_.push_back(mbuf);
            continue;
        }
        const uint64_t timestamp_ns = io::packet_timestamp_ns(mbuf);
        reassembler.advance(mbuf->port, timestamp_ns != 0 ? timestamp_ns : io::wall_clock_ns());
        if (rte_mbuf* const whole = reassembler.add(mbuf, *fragment)) whole_.push_back(whole);
    }
    // Time goes on with packets that are whole, too.
    if (reassembler.held() > 0 && !whole_.empty() && io::packet_timestamp_ns(whole_.back()) != 0)
        reassembler.advance(whole_.back()->port, io::packet_timestamp_ns(whole_.back()));
    if (!whole_.empty())
        engine_->submit(configuration_->chains[chain], *chain_counters_[chain], whole_.data(), whole_.size());
    last_receive_ = rte_rdtsc();
}

/// Nothing has come in this iteration: fragments that wait for others get older by the clock.
void Worker::age_fragments() {
    const uint64_t now = rte_rdtsc();
    const uint64_t elapsed_ns = to_nanoseconds(now - std::exchange(last_receive_, now));
    for (const auto& own : reassemblers_)
        if (own != nullptr) own->pass_time(elapsed_ns);
}

/// No more will come.
void Worker::drop_fragments() {
    for (const auto& own : reassemblers_)
        if (own != nullptr) own->drop_all(FragmentDrop::timeout);
}

}  // namespace millrace::exec
