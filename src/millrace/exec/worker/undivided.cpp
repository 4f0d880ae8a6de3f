#include "millrace/exec/worker/undivided.hpp"

#include <rte_cycles.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "millrace/device/node_counters.hpp"

namespace millrace::exec {

Undivided::~Undivided() {
    engine_.reset();  // it may still deliver
    for (rte_mbuf* const mbuf : held_) rte_pktmbuf_free(mbuf);
}

namespace {

/// Whether tenants' functions stand in the same places in both, by the same terms, and lead to the same ones: their
/// kernels know that, and where each node counts.
bool has_same_tenants(const chain::Program* one, const chain::Program* other) {
    return one != nullptr && other != nullptr && one->stage_count() == other->stage_count() &&
           device::counters_of_node(*one) == device::counters_of_node(*other) &&
           std::ranges::equal(one->nodes, other->nodes, [](const chain::Node& a, const chain::Node& b) {
               return a.type->is_tenants == b.type->is_tenants &&
                      (!a.type->is_tenants || (a.nf == b.nf && a.targets == b.targets));
           });
}

}  // namespace

void Undivided::follow(std::shared_ptr<const chain::Program> program, ChainCounters* counters,
                       const FindTenants& tenants) {
    // A change of routes, say, is none of theirs: the chain stays in one piece.
    const bool same = has_same_tenants(program_.get(), program.get());
    program_ = std::move(program);
    counters_ = counters;
    if (!same) tenants_ = program_ != nullptr ? tenants() : nullptr;
    if (program_ == nullptr || tenants_ == nullptr) {
        goes_over_ = goes_over_ || whole_;
        return;
    }
    try {
        if (engine_ == nullptr) engine_ = make_engine_(&settled_);
    } catch (const device::DeviceError& e) {
        spdlog::warn("chain '{}' goes through its parts: {}", program_->name, e.what());
        return;
    }
    engine_->submit(program_, *counters_, nullptr, 0);
    if (engine_->takes_blocks()) engine_->submit(program_, *counters_, io::ReceiveBlock{});
}

void Undivided::hold(ChainCounters& counters, std::span<rte_mbuf* const> mbufs) {
    const size_t kept = std::min(mbufs.size(), room_ - std::min(room_, held_.size()));
    held_.insert(held_.end(), mbufs.begin(), mbufs.begin() + static_cast<ptrdiff_t>(kept));
    for (rte_mbuf* const mbuf : mbufs.subspan(kept)) {
        counters.received_packets.add(1);
        counters.received_bytes.add(mbuf->data_len);
        counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(1);
        rte_pktmbuf_free(mbuf);
    }
}

/// Whether it is on the wrong way.
bool Undivided::wants_over() {
    const bool can = tenants_ != nullptr && engine_ != nullptr && !engine_->failed_over();
    if (whole_) return !can || !tenants_->holds();
    return can && (not_before_ == 0 || rte_rdtsc() >= not_before_) && tenants_->ready();
}

bool Undivided::go_over(const std::function<size_t()>& in_parts, std::vector<rte_mbuf*>& released) {
    if (!goes_over_ && !wants_over()) return false;
    if (!goes_over_) fewest_in_parts_ = SIZE_MAX;
    goes_over_ = true;
    if (whole_) {
        if (engine_->in_flight() > 0) return false;
        whole_ = false;
        return stop_going_over(released);
    }
    if (const size_t there = in_parts(); there > 0) {
        if (there < fewest_in_parts_) {
            fewest_in_parts_ = there;
            moved_ = rte_rdtsc();
        }
        // A tenant that answers late keeps its packets there; those that wait here would be dropped soon. While they
        // become fewer the end is near, and what is dropped meanwhile had no room there either.
        if (held_.size() < room_ / 2 || rte_rdtsc() - moved_ < rte_get_tsc_hz() / 1000 * kStillMs) return false;
        not_before_ = rte_rdtsc() + rte_get_tsc_hz();
        return stop_going_over(released);
    }
    settled_ = tenants_ != nullptr && !engine_->failed_over() ? tenants_->settle() : nullptr;
    whole_ = settled_ != nullptr;
    if (!whole_) not_before_ = rte_rdtsc() + rte_get_tsc_hz() / 100;
    return stop_going_over(released);
}

bool Undivided::stop_going_over(std::vector<rte_mbuf*>& released) {
    goes_over_ = false;
    released.clear();
    released.swap(held_);
    held_.reserve(room_);
    return !released.empty();
}

}  // namespace millrace::exec
