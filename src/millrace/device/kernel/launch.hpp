// How the kernels of a chain spread packets over a GPU. Included by the generated source only.
//
// A block of threads owns a few consecutive packets, BatchView::block_packets of them. It runs the stages one
// after the other; a stage with fewer lanes per packet leaves whole warps idle. Packets live in global memory
// between the stages, so lanes can be mapped anew for each. Warps take packets longest frame first, so that those
// of a warp are of a length, and none is left with a long one at the end.
#pragma once

#include "millrace/device/kernel/chain.hpp"
#include "millrace/device/kernel/copy.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

#if MILLRACE_GPU

namespace millrace::device {

/// The distinct values among those of a block's packets, warp by warp: so that a packet need not be compared with every
/// other.
class BlockValues {
public:
    struct Shared {
        uint32_t values[kMaxBlockPackets];  ///< a warp's distinct ones from its first packet's place on
        uint8_t counts[kMaxBlockPackets];   ///< how many of the warp's packets have it
        uint8_t firsts[kMaxBlockPackets];   ///< the first of them
        uint32_t distinct[kMaxBlockPackets / 32];
    };

    /// All threads call it; thread `k` of the first `count` brings the value of packet `k`.
    MILLRACE_DEVICE BlockValues(Shared& shared, uint32_t count, uint32_t value)
        : shared_(shared), warps_((count + 31) / 32), value_(value) {
        if (threadIdx.x / 32 < warps_) {
            const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
            const uint32_t taking_part = __ballot_sync(0xffffffffu, threadIdx.x < count);
            peers_ = __match_any_sync(0xffffffffu, value) & taking_part;
            const bool first = threadIdx.x < count && lane == __ffs(peers_) - 1u;
            const uint32_t firsts = __ballot_sync(0xffffffffu, first);
            if (first) {
                const uint32_t place = warp * 32 + __popc(firsts & ((1u << lane) - 1));
                shared.values[place] = value;
                shared.counts[place] = static_cast<uint8_t>(__popc(peers_));
                shared.firsts[place] = static_cast<uint8_t>(threadIdx.x);
            }
            if (lane == 0) shared.distinct[warp] = __popc(firsts);
        }
        __syncthreads();
    }
    /// How many packets of the thread's own warp before its own have its value.
    MILLRACE_DEVICE uint32_t before_in_warp() const { return __popc(peers_ & ((1u << threadIdx.x % 32) - 1)); }
    /// Calls `f(warp, value, count, first)` for each distinct value of each warp.
    template <class F>
    MILLRACE_DEVICE void for_each(F&& f) const {
#pragma unroll 1
        for (uint32_t warp = 0; warp < warps_; ++warp)
#pragma unroll 1
            for (uint32_t k = warp * 32; k < warp * 32 + shared_.distinct[warp]; ++k)
                f(warp, shared_.values[k], uint32_t{shared_.counts[k]}, uint32_t{shared_.firsts[k]});
    }
    MILLRACE_DEVICE uint32_t value() const { return value_; }

private:
    const Shared& shared_;
    uint32_t warps_, value_, peers_ = 0;
};

/// The packets of this block.
class BlockPackets {
public:
    struct Shared {
        uint8_t order[kMaxBlockPackets];
        uint32_t keys[kMaxBlockPackets];
        BlockValues::Shared values;
        uint8_t waiting[kMaxBlockPackets];  ///< those that wait for a node, in that order
        uint32_t waiting_of_warp[kMaxBlockPackets / 32];
        uint32_t taken[kMaxStages];        ///< by stage: groups of packets that warps have taken
        uint32_t until[kMaxBlockPackets];  ///< pieces of work of those that wait, up to each of them
        uint32_t next;                     ///< the first of these pieces that no warp has taken
    };

    /// Share `share` of the batch. A block has at least as many threads as packets.
    MILLRACE_DEVICE BlockPackets(const BatchView& batch, Shared& shared, uint32_t share)
        : shared_(shared), first_(share * batch.block_packets) {
        const uint32_t k = threadIdx.x;
        count_ = smaller(first_ + batch.block_packets, batch.count) - first_;
        if (k < kMaxStages) shared.taken[k] = 0;
        const BlockValues bytes(shared.values, count_, k < count_ ? batch.descriptors[first_ + k].present : 0);
        if (k < count_) {
            uint32_t place = bytes.before_in_warp();
            bytes.for_each([&](uint32_t warp, uint32_t value, uint32_t count, uint32_t) {
                if (value > bytes.value() || (value == bytes.value() && warp < k / 32)) place += count;
            });
            shared.order[place] = static_cast<uint8_t>(k);
        }
        __syncthreads();
        list_ = shared.order;
        waiting_ = count_;
    }

    /// Finds the packets that wait for a stage, for `each_waiting` and `share`, so that the others leave no lanes idle.
    /// In order of length, as they were. Without it those get all packets, and must look which of them wait.
    MILLRACE_DEVICE void find_waiting(const BatchView& batch, const StageNodes& own) {
        const uint32_t k = threadIdx.x;
        const bool waits = k < count_ && own.has(batch.at[first_ + shared_.order[k]]);
        waiting_ = static_cast<uint32_t>(__syncthreads_count(waits));
        list_ = shared_.order;
        if (waiting_ == count_ || waiting_ == 0) return;
        const uint32_t warp = k / 32, same = __ballot_sync(0xffffffffu, waits);
        if (k % 32 == 0 && warp < kMaxBlockPackets / 32) shared_.waiting_of_warp[warp] = __popc(same);
        __syncthreads();
        uint32_t place = __popc(same & ((1u << k % 32) - 1));
        for (uint32_t before = 0; before < warp && before < kMaxBlockPackets / 32; ++before)
            place += shared_.waiting_of_warp[before];
        if (waits) shared_.waiting[place] = shared_.order[k];
        list_ = shared_.waiting;
        __syncthreads();
    }
    /// Runs `f(i)` for each packet that waits, one thread a packet.
    template <class F>
    MILLRACE_DEVICE void each_waiting(F&& f) const {
        for (uint32_t k = threadIdx.x; k < waiting_; k += blockDim.x) f(first_ + list_[k]);
        __syncthreads();
    }
    /// Sets the block's frames apart.
    MILLRACE_DEVICE void scatter(const BatchView& batch) const {
        for (uint32_t k = threadIdx.x / kCopyLanes; k < count_; k += blockDim.x / kCopyLanes)
            gather_frame(batch, first_ + k);
        __syncthreads();
    }
    /// Runs `f(i)` for each packet, one thread a packet.
    template <class F>
    MILLRACE_DEVICE void for_each(F&& f) const {
        for (uint32_t k = threadIdx.x; k < count_; k += blockDim.x) f(first_ + shared_.order[k]);
        __syncthreads();
    }
    /// Writes down each packet's order key, and its rank: kLeads and how many of the block's packets have its key if it
    /// is the first of them; else how far behind that one it is, times 256, and how many are before it; 0 without a
    /// key. So whoever numbers the batch need look at the first ones alone.
    template <class KeyOf>
    MILLRACE_DEVICE void rank(const BatchView& batch, KeyOf&& key_of) const {
        for_each([&](uint32_t i) { shared_.keys[i - first_] = batch.keys[i] = key_of(i); });
        const uint32_t k = threadIdx.x;
        const BlockValues keys(shared_.values, count_, k < count_ ? shared_.keys[k] : kNoOrderKey);
        if (k < count_) {
            uint32_t before = keys.before_in_warp(), all = 0, leader = k;
            keys.for_each([&](uint32_t warp, uint32_t value, uint32_t count, uint32_t first) {
                if (value != keys.value()) return;
                if (all == 0) leader = first;
                all += count;
                if (warp < k / 32) before += count;
            });
            batch.ranks[first_ + k] = static_cast<uint16_t>(keys.value() == kNoOrderKey ? 0
                                                            : leader == k               ? kLeads | all
                                                                                        : (k - leader) << 8 | before);
        }
        __syncthreads();
    }
    /// Writes down each packet's order key.
    template <class KeyOf>
    MILLRACE_DEVICE void keep_keys(const BatchView& batch, KeyOf&& key_of) const {
        for_each([&](uint32_t i) { batch.keys[i] = key_of(i); });
    }
    static constexpr uint32_t kLeads = 0x8000;
    /// Runs `f(i)` for each packet that waits in `LaneCount` neighbouring threads of a warp. Once for each stage.
    template <unsigned LaneCount, class F>
    MILLRACE_DEVICE void share(uint32_t stage, F&& f) const {
        constexpr uint32_t kAtOnce = 32 / LaneCount;
        while (true) {
            uint32_t group = 0;
            if (threadIdx.x % 32 == 0) group = atomicAdd(&shared_.taken[stage], 1u);
            group = __shfl_sync(0xffffffffu, group, 0);
            if (group * kAtOnce >= waiting_) break;
            const uint32_t k = group * kAtOnce + threadIdx.x % 32 / LaneCount;
            if (k < waiting_) f(first_ + list_[k]);
            __syncwarp();
        }
        __syncthreads();
    }
    /// Runs `f(i, k)` for each k < `count(i)` of each packet that waits, in `LaneCount` neighbouring threads of a warp:
    /// the work of all of them is spread over the block.
    template <unsigned LaneCount, class Count, class F>
    MILLRACE_DEVICE void spread(Count&& count, F&& f) const {
        const uint32_t k = threadIdx.x, warp = k / 32;
        uint32_t until = k < waiting_ ? count(first_ + list_[k]) : 0;
        for (unsigned by = 1; by < 32; by *= 2) {
            const uint32_t before = __shfl_up_sync(0xffffffffu, until, by);
            if (k % 32 >= by) until += before;
        }
        constexpr uint32_t kWarps = kMaxBlockPackets / 32;
        if (k % 32 == 31 && warp < kWarps) shared_.waiting_of_warp[warp] = until;
        __syncthreads();
        for (uint32_t before = 0; before < warp && before < kWarps; ++before) until += shared_.waiting_of_warp[before];
        if (k < waiting_) shared_.until[k] = until;
        if (k == 0) shared_.next = blockDim.x / LaneCount;
        __syncthreads();
        const uint32_t all = waiting_ > 0 ? shared_.until[waiting_ - 1] : 0;
        // Warps take pieces as they get on, as some take long. All threads of a warp take their next one at once: by
        // themselves they would drift apart.
        constexpr uint32_t kAtOnce = 32 / LaneCount;
        uint32_t from = warp * kAtOnce;
#pragma unroll 1
        while (from < all) {
            const uint32_t at = from + k % 32 / LaneCount;
            uint32_t owner = 0, behind = waiting_ - 1;  // the first whose pieces reach beyond `at`
            while (owner < behind) {
                const uint32_t middle = (owner + behind) / 2;
                if (shared_.until[middle] > at) behind = middle;
                else owner = middle + 1;
            }
            if (at < all) f(first_ + list_[owner], owner > 0 ? at - shared_.until[owner - 1] : at);
            __syncwarp();
            if (k % 32 == 0) from = atomicAdd(&shared_.next, kAtOnce);
            from = __shfl_sync(0xffffffffu, from, 0);
        }
        __syncthreads();
    }

private:
    Shared& shared_;
    uint32_t first_, count_;
    const uint8_t* list_ = nullptr;
    uint32_t waiting_ = 0;
};

/// Counts of a block's outcomes, in its shared memory until the block ends: thousands of packets would
/// queue up at one counter in the device's memory.
template <unsigned Counters>
class BlockCounts {
public:
    MILLRACE_DEVICE explicit BlockCounts(uint32_t (&counts)[Counters]) : counts_(counts) {
        for (uint32_t i = threadIdx.x; i < Counters; i += blockDim.x) counts_[i] = 0;
        __syncthreads();
    }
    MILLRACE_DEVICE uint32_t* data() const { return counts_; }
    MILLRACE_DEVICE void flush(const BatchView& batch) const {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < Counters; i += blockDim.x)
            if (counts_[i] != 0) atomicAdd(&batch.outcome_counts[i], counts_[i]);
    }

private:
    uint32_t* counts_;
};

/// The same for programs of many nodes, whose counts a block has no room for: their packets spread over many counters.
class BatchCounts {
public:
    MILLRACE_DEVICE explicit BatchCounts(const BatchView& batch) : counts_(batch.outcome_counts) {}
    MILLRACE_DEVICE uint32_t* data() const { return counts_; }

private:
    uint32_t* counts_;
};

/// Tells what each part of a step takes: the cycles of a block from one barrier to the next, all blocks' together.
class BlockTimer {
public:
    MILLRACE_DEVICE explicit BlockTimer(const BatchView& batch) : times_(batch.part_times), last_(clock64()) {}
    /// What came since the last call was `part`. Behind a barrier.
    MILLRACE_DEVICE void lap(uint32_t part) {
        const long long now = clock64();
        if (threadIdx.x == 0)
            atomicAdd(reinterpret_cast<unsigned long long*>(times_ + part),
                      static_cast<unsigned long long>(now - last_));
        last_ = now;
    }

private:
    uint64_t* times_;
    long long last_;
};

/// What follows `process`: the decision's target, or a function that takes the decision, kept until then.
enum class Then { route, hold };

/// Ends a stage that has a `finish` for those of the block's packets that wait for it, one thread a packet.
template <Then After, class Finish>
MILLRACE_DEVICE void finish_stage(const BatchView& batch, const BlockPackets& block, uint32_t* counts,
                                  const StageNodes& own, Finish finish) {
    block.each_waiting([&](uint32_t i) {
        const uint32_t node = batch.at[i];
        if (!own.has(node)) return;
        Packet packet = batch.packets[i];
        const Decision decision = finish(&packet, own.tables_of(node), batch.decisions[i]);
        batch.packets[i] = packet;
        if constexpr (After == Then::hold) {
            batch.decisions[i] = decision;
        } else {
            route_packet(batch, counts, i, own, node, decision);
        }
    });
}

/// `find` of a stage's function in parts, for those of the block's packets that wait for it.
template <unsigned LaneCount, class Find>
MILLRACE_DEVICE void find_in_stage(const BatchView& batch, const BlockPackets& block, const StageNodes& own,
                                   Find find) {
    block.share<LaneCount>(own.stage, [&](uint32_t i) {
        const uint32_t node = batch.at[i];
        if (!own.has(node)) return;
        const Packet packet = batch.packets[i];
        find(&packet, own.tables_of(node), batch.kept_of(i));
    });
}
/// What comes behind it, for the same packets.
template <unsigned LaneCount, bool EmitsEvents, Then After, class Candidates, class Sift, class Sifted, class Check,
          class Checked, class Judge, class Conclude>
MILLRACE_DEVICE void judge_stage(const BatchView& batch, const BlockPackets& block, uint32_t* counts,
                                 const StageNodes& own, Candidates candidates, Sift sift, Sifted sifted, Check check,
                                 Checked checked, Judge judge, Conclude conclude) {
    // Whoever commits goes on with what has been told of a packet.
    constexpr bool kKeepsEvents = EmitsEvents && After == Then::hold;
    const auto with = [&](uint32_t i, auto&& f) {
        Packet packet = batch.packets[i];
        if constexpr (EmitsEvents && !kKeepsEvents) packet.set_events(batch.events, batch.at[i]);
        return f(packet, own.tables_of(batch.at[i]), batch.kept_of(i));
    };
    const auto put_back = [&](uint32_t i, const Packet& packet) {
        if (kKeepsEvents && packet.event_order() != batch.packets[i].event_order()) batch.packets[i] = packet;
    };
    const auto run = [&](auto&& part, uint32_t i, auto... number) {
        return part(&batch.packets[i], own.tables_of(batch.at[i]), batch.kept_of(i), number...);
    };
    block.spread<1>(
        [&](uint32_t i) {
            if constexpr (kKeepsEvents) batch.packets[i].set_events(batch.events, batch.at[i]);
            return run(candidates, i);
        },
        [&](uint32_t i, uint32_t k) { run(sift, i, k); });
    block.spread<1>([&](uint32_t i) { return run(sifted, i); }, [&](uint32_t i, uint32_t k) { run(check, i, k); });
    const Lanes<LaneCount> lanes;
    block.spread<LaneCount>([&](uint32_t i) { return run(checked, i); },
                            [&](uint32_t i, uint32_t k) {
                                with(i, [&](Packet& packet, const void* tables, uint32_t* kept) {
                                    judge(&packet, tables, kept, k);
                                    if constexpr (kKeepsEvents) lanes.once([&] { put_back(i, packet); });
                                });
                            });
    block.each_waiting([&](uint32_t i) {
        with(i, [&](Packet& packet, const void* tables, uint32_t* kept) {
            const Decision decision = conclude(&packet, tables, kept);
            put_back(i, packet);
            if constexpr (After == Then::hold) batch.decisions[i] = decision;
            else route_packet(batch, counts, i, own, batch.at[i], decision);
        });
    });
}

/// Runs a stage for those of the block's packets that wait for it. All lanes of a packet work on
/// copies of its handle; the first one's is kept, as uniform code has made them equal.
template <unsigned LaneCount, bool EmitsEvents, Then After, class Process>
MILLRACE_DEVICE void run_stage(const BatchView& batch, const BlockPackets& block, uint32_t* counts,
                               const StageNodes& own, Process process) {
    const Lanes<LaneCount> lanes;
    block.share<LaneCount>(own.stage, [&](uint32_t i) {
        const uint32_t node = batch.at[i];
        if (!own.has(node)) return;
        Packet packet = batch.packets[i];
        if constexpr (EmitsEvents) packet.set_events(batch.events, static_cast<uint16_t>(node));
        lanes.sync();
        const Decision decision = process(&packet, own.tables_of(node));
        lanes.once([&] {
            batch.packets[i] = packet;
            if constexpr (After != Then::route) {
                batch.decisions[i] = decision;
            } else {
                route_packet(batch, counts, i, own, node, decision);
            }
        });
    });
}

}  // namespace millrace::device

#endif
