// A resident kernel: it stays on the device, takes batch after batch from a communication list in the host's memory,
// runs all steps of each, and writes what goes back where the host reads it. So a batch takes no call of the driver
// (the UCLouvain thesis's persistent kernels; GEN, section 4).
#pragma once

#include "millrace/device/kernel/batch.hpp"

namespace millrace::device {

/// Bytes of the host's memory and their place in the device's. Both begin at multiples of 16.
struct ResidentMove {
    uint8_t* host = nullptr;
    uint8_t* device = nullptr;
    uint64_t bytes = 0;
};

/// All that a resident kernel has to know of a batch.
struct alignas(16) ResidentBatch {
    BatchView view;
    /// Before the first step: descriptors and head; frames that were packed.
    ResidentMove in[2];
    /// Behind the last one.
    ResidentMove out[3];
    /// Its sequence number among the batches whose steps have an order, from 1; 0: it has none. Its ordered steps begin
    /// when
    /// `*sequence_word`, in the host's memory, is one less, and leave this there.
    uint64_t sequence = 0;
    uint64_t* sequence_word = nullptr;
    uint32_t gather = 0;  ///< whether the gather step is to run
};

/// A place of the list. The host makes it ready when it is free, the kernel done, the host free again; batches take the
/// places in turn.
struct alignas(64) ResidentEntry {
    enum State : uint32_t { free, ready, done };
    uint32_t state = free;
    ResidentBatch batch;
};

/// A kernel's blocks are this many teams, fewer if the list is shorter, which work on batches concurrently: batch n is
/// team n % teams'. What takes a batch its time is loads that wait for each other, so that one team would leave the
/// device idle, and later batches waiting.
inline constexpr uint32_t kMaxTeams = 4;

/// What the host has to say to the kernel besides.
struct alignas(64) ResidentControl {
    /// The kernel ends when the next batch would be this one: to end at once, 0; behind what is on the list, how many
    /// batches have been put there so far.
    uint64_t until = ~uint64_t{0};
    uint64_t first[kMaxTeams] = {};  ///< each team's first batch, from 0
};

/// Where the blocks of a team meet, in the device's memory; all zero when it starts.
struct alignas(16) ResidentMeeting {
    ResidentBatch batch;
    uint64_t published;  ///< the batch's number from 1 and, in the lower 16 bits, how many blocks take part
    uint32_t arrived;    ///< blocks at the barrier
    uint32_t phase;      ///< barriers that all have passed
};

/// The kernel's parameter besides the tables.
struct ResidentList {
    ResidentEntry* entries;
    const ResidentControl* control;
    const uint32_t* heartbeat;  ///< that the host's program is there: counts on
    ResidentMeeting* meetings;  ///< of each team
    uint64_t patience_ns;       ///< the kernel ends by itself when the heartbeat stands still for longer
    uint32_t depth;             ///< of the list
    uint32_t teams;
    uint32_t least_packets;  ///< that are worth a block of their own
};

}  // namespace millrace::device

#if MILLRACE_GPU

#include "millrace/device/kernel/order.hpp"

namespace millrace::device {

/// One thread's view of a resident kernel. All threads of a block call each function. Blocks are those of one team
/// here.
///
/// Nothing that a launch does unasked happens here: the first-level caches hold lines of earlier batches until a fence
/// behind an acquiring load drops them, once a batch in each block that takes part, again at barriers and when a
/// sequence comes.
class ResidentKernel {
public:
    struct Shared {
        ResidentBatch batch;
        uint64_t word;
    };

    MILLRACE_DEVICE ResidentKernel(const ResidentList& list, Shared& shared)
        : list_(list), shared_(shared), team_blocks_(gridDim.x / list.teams), rank_(blockIdx.x % team_blocks_),
          meeting_(list.meetings[blockIdx.x / team_blocks_]),
          next_(load(&list.control->first[blockIdx.x / team_blocks_])) {}

    /// Waits for the next batch; false when the kernel is to end.
    MILLRACE_DEVICE bool next() {
        __syncthreads();
        if (threadIdx.x == 0) shared_.word = leads() ? await_entry() : await_leader();
        __syncthreads();
        if (shared_.word == kEnd) {
            if (leads() && threadIdx.x == 0) publish(kEnd);
            return false;
        }
        if (leads()) {
            lead();
        } else {
            take(meeting_.batch);
            blocks_ = static_cast<uint32_t>(shared_.word & kBlocks);
        }
        __syncthreads();
        if (shared_.batch.in[1].bytes != 0) {
            move<Way::in>(shared_.batch.in[1], rank(), threads());
            sync();
        }
        return true;
    }
    /// The batch, its `block_packets` being what a share of it holds.
    MILLRACE_DEVICE const BatchView& batch() const { return shared_.batch.view; }
    MILLRACE_DEVICE bool leads() const { return rank_ == 0; }
    /// Which of the `blocks()` that take part in the batch this one is.
    MILLRACE_DEVICE uint32_t block() const { return rank_; }
    MILLRACE_DEVICE uint32_t blocks() const { return blocks_; }
    MILLRACE_DEVICE bool gathers() const { return shared_.batch.gather != 0; }

    /// Runs `f(share)` for each of this block's shares of the batch: always the same ones, so that steps which look at
    /// one packet at a time need no barrier between them.
    template <class F>
    MILLRACE_DEVICE void for_each_share(F&& f) const {
        for (uint32_t share = rank_; share * batch().block_packets < batch().count; share += blocks_) f(share);
    }
    /// Runs `f(i)` for each of this block's packets in kCopyLanes threads.
    template <class F>
    MILLRACE_DEVICE void for_each_copy(F&& f) const {
        for_each_share([&](uint32_t share) {
            const uint32_t first = share * batch().block_packets,
                           behind = smaller(first + batch().block_packets, batch().count);
            for (uint32_t i = first + threadIdx.x / kCopyLanes; i < behind; i += blockDim.x / kCopyLanes) f(i);
        });
        __syncthreads();
    }

    /// Waits until all blocks are here; each sees what the others have written.
    MILLRACE_DEVICE void sync() const {
        __syncthreads();
        if (blocks_ == 1) return;
        if (threadIdx.x == 0) {
            volatile uint32_t& phase = meeting_.phase;
            const uint32_t before = phase;
            __threadfence();
            if (atomicAdd(&meeting_.arrived, 1u) + 1 == blocks_) {
                meeting_.arrived = 0;
                __threadfence();
                phase = before + 1;
            } else {
                while (phase == before) {
                }
            }
            __threadfence();
        }
        __syncthreads();
    }

    /// Before the first ordered step, in the leading block: all ordered batches before this one are through with
    /// theirs.
    MILLRACE_DEVICE void await_sequence() {
        if (threadIdx.x == 0 && shared_.batch.sequence != last_sequence_ + 1) {
            while (load(shared_.batch.sequence_word) + 1 < shared_.batch.sequence && load(&list_.control->until) != 0) {
            }
            __threadfence_system();
        }
        last_sequence_ = shared_.batch.sequence;
        __syncthreads();
    }
    /// Behind the last ordered step, in the leading block.
    MILLRACE_DEVICE void release_sequence() const {
        __syncthreads();
        if (threadIdx.x != 0) return;
        __threadfence_system();
        store(shared_.batch.sequence_word, shared_.batch.sequence);
    }

    /// Sends back what goes back, and says so.
    MILLRACE_DEVICE void finish() {
        sync();
        for (const ResidentMove& out : shared_.batch.out) move<Way::out>(out, rank(), threads());
        __syncthreads();
        if (threadIdx.x == 0) __threadfence_system();
        sync();
        if (leads() && threadIdx.x == 0) {
            __threadfence_system();
            store(&list_.entries[next_ % list_.depth].state, static_cast<uint32_t>(ResidentEntry::done));
        }
        next_ += list_.teams;
    }

private:
    static constexpr uint64_t kEnd = ~uint64_t{0}, kBlocks = 0xffff;
    enum class Way { in, out };

    /// Asks the memory itself; a fence makes what was written before that value visible, too.
    template <class T>
    MILLRACE_DEVICE static T load(const T* from) {
        return *static_cast<const volatile T*>(from);
    }
    MILLRACE_DEVICE static void store(uint32_t* to, uint32_t value) {
        asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(to), "r"(value) : "memory");
    }
    MILLRACE_DEVICE static void store(uint64_t* to, uint64_t value) {
        asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
    }
    MILLRACE_DEVICE static uint64_t time_ns() {
        uint64_t time;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
        return time;
    }

    MILLRACE_DEVICE uint32_t rank() const { return rank_ * blockDim.x + threadIdx.x; }
    MILLRACE_DEVICE uint32_t threads() const { return blocks_ * blockDim.x; }

    /// One thread of the leading block: the next batch is there (its number from 1), or the kernel is to end.
    MILLRACE_DEVICE uint64_t await_entry() const {
        constexpr uint32_t kBeatEvery = 64;
        const uint32_t* const state = &list_.entries[next_ % list_.depth].state;
        uint32_t beat = load(list_.heartbeat);
        uint64_t since = time_ns();
        for (uint32_t polls = 1;; ++polls) {
            // Both are asked for at once: the bus takes long to answer.
            const uint64_t until = load(&list_.control->until);
            const uint32_t now_state = load(state);
            if (until <= next_) return kEnd;
            if (now_state == ResidentEntry::ready) break;
            if (polls % kBeatEvery != 0) continue;
            const uint32_t now = load(list_.heartbeat);
            const uint64_t time = time_ns();
            if (now != beat) since = time;
            if (time - since > list_.patience_ns) return kEnd;
            beat = now;
        }
        __threadfence_system();
        return next_ + 1;
    }
    /// One thread of another block: a batch that this block takes part in.
    MILLRACE_DEVICE uint64_t await_leader() {
        while (true) {
            const uint64_t word = load(&meeting_.published);
            if (word == seen_) continue;
            seen_ = word;
            if (rank_ < (word & kBlocks)) break;  // the end is for all
        }
        __threadfence();
        return seen_;
    }
    MILLRACE_DEVICE void publish(uint64_t word) const {
        __threadfence();
        *static_cast<volatile uint64_t*>(&meeting_.published) = word;
    }

    MILLRACE_DEVICE void take(const ResidentBatch& from) {
        const auto* words = reinterpret_cast<const uint4*>(&from);
        auto* to = reinterpret_cast<uint4*>(&shared_.batch);
        for (uint32_t i = threadIdx.x; i < sizeof(ResidentBatch) / sizeof(uint4); i += blockDim.x)
            to[i] = __ldcv(words + i);
    }
    /// Takes the batch over for the team, as many blocks of it as it takes: one works alone without a barrier.
    MILLRACE_DEVICE void lead() {
        take(list_.entries[next_ % list_.depth].batch);
        __syncthreads();
        BatchView& view = shared_.batch.view;
        const uint32_t even = (view.count + team_blocks_ - 1) / team_blocks_;
        const uint32_t packets = smaller(even < list_.least_packets ? list_.least_packets : even, kMaxBlockPackets);
        const uint32_t shares = (view.count + packets - 1) / packets;
        blocks_ = shares == 0 ? 1 : smaller(shares, team_blocks_);
        if (threadIdx.x == 0) view.block_packets = packets;
        move<Way::in>(shared_.batch.in[0], threadIdx.x, blockDim.x);
        __syncthreads();
        if (blocks_ == 1) return;
        auto* to = reinterpret_cast<uint4*>(&meeting_.batch);
        const auto* words = reinterpret_cast<const uint4*>(&shared_.batch);
        for (uint32_t i = threadIdx.x; i < sizeof(ResidentBatch) / sizeof(uint4); i += blockDim.x) to[i] = words[i];
        __syncthreads();
        if (threadIdx.x == 0) publish((next_ + 1) << 16 | blocks_);
    }

    /// Moves bytes over the bus, `threads` threads together; each asks for several words before it waits.
    template <Way Direction>
    MILLRACE_DEVICE static void move(const ResidentMove& move, uint32_t rank, uint32_t threads) {
        constexpr uint32_t kAsked = 4;
        const auto* from = reinterpret_cast<const uint4*>(Direction == Way::in ? move.host : move.device);
        auto* to = reinterpret_cast<uint4*>(Direction == Way::in ? move.device : move.host);
        const uint64_t words = move.bytes / sizeof(uint4);
        const auto read = [&](uint64_t at) { return Direction == Way::in ? __ldcv(from + at) : __ldcg(from + at); };
        for (uint64_t at = rank; at < words; at += threads * kAsked) {
            uint4 asked[kAsked];
#pragma unroll
            for (uint32_t k = 0; k < kAsked; ++k)
                if (at + k * threads < words) asked[k] = read(at + k * threads);
#pragma unroll
            for (uint32_t k = 0; k < kAsked; ++k)
                if (at + k * threads < words) to[at + k * threads] = asked[k];
        }
        const auto* bytes = reinterpret_cast<const volatile uint8_t*>(from);
        for (uint64_t at = words * sizeof(uint4) + rank; at < move.bytes; at += threads)
            reinterpret_cast<uint8_t*>(to)[at] = bytes[at];
    }

    const ResidentList& list_;
    Shared& shared_;
    const uint32_t team_blocks_, rank_;  ///< of this block in its team
    ResidentMeeting& meeting_;
    uint64_t next_;      ///< batch, in the leading block
    uint64_t seen_ = 0;  ///< the word published last, in the others
    uint64_t last_sequence_ = 0;
    uint32_t blocks_ = 1;  ///< that take part
};

}  // namespace millrace::device

#endif
