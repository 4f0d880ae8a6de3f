// What a batch takes of the packets that wait, and all of it that the host writes.
#pragma once

#include <memory>
#include <vector>

#include "millrace/exec/offload/batch/batch_buffers.hpp"
#include "millrace/exec/offload/chains/chain_queue.hpp"
#include "millrace/exec/offload/memory/frame_layout.hpp"

namespace millrace::exec {

/// What a batch is of, where all of it lies and how it crosses. Of the worker, until the batch is submitted.
struct BatchInput {
    explicit BatchInput(uint32_t max_packets);

    std::shared_ptr<const LoadedChain> chain;  ///< null: nothing is in the batch
    std::shared_ptr<TenantsInChain> tenants;   ///< whose functions are in the chain; null: there are none
    unsigned tenants_place = 0;                ///< its place in their windows
    std::vector<rte_mbuf*> mbufs;
    std::vector<MbufRun> mbuf_runs;                ///< they, in their order
    rte_mempool* pool = nullptr;                   ///< MbufRun::pool of all of them; null: they have several, or none
    ptrdiff_t data = 0;                            ///< MbufRun::data of all of them, where there is a pool
    std::vector<uint64_t> sources;                 ///< where the frames of mbufs lie, where there is none
    std::vector<io::ReceiveBlock> receive_blocks;  ///< what the frames came with, in place of mbufs; empty: mbufs
    StagedRanges staged_ranges;                    ///< of those runs
    std::vector<Burst> bursts;
    FrameLayout frames;
    Prefixes prefixes{};  ///< what of each frame crosses
    PieceLayout piece;
    device::Address address = 0;  ///< of the piece
    TransferIn transfer = TransferIn::packed;
    TransferOut way_back = TransferOut::region;
    device::BatchView view;
    /// When the worker took it up, when it took a place among those in flight, and when it was there to be told of
    /// (TSC).
    uint64_t begun = 0, launched = 0, laid_out = 0;
    /// For the timeline: its number, when the first packet came and when the worker took it up.
    uint64_t timeline_number = 0, arrived_ns = 0, begun_ns = 0;

    /// Where the metadata of a packet with an mbuf is to be had, for those of rising numbers.
    class Metadata {
    public:
        explicit Metadata(const BatchInput& input, size_t first = 0) : run_(input.mbuf_runs.data()) { seek(first); }
        /// The run that packet `i` is of, and its place there.
        struct Place {
            const MbufRun* run;
            size_t at;
        };
        Place of(size_t i) {
            seek(i);
            return {run_, i - begin_};
        }

    private:
        void seek(size_t i) {
            while (i - begin_ >= run_->packets) begin_ += run_++->packets;
        }
        const MbufRun* run_;
        size_t begin_ = 0;  // of the run
    };
    /// Writes the metadata of mbuf `i`, if nobody has.
    void write_metadata(size_t i) const {
        const auto [run, at] = Metadata(*this).of(i);
        if (!run->notes.written) io::set_packet_metadata(mbufs[i], run->notes.timestamp_ns(at), run->notes.number(at));
    }
    /// Where packet `i` comes from.
    Origin origin_of(size_t i) const;

    /// Where the frame of mbuf `i` was received.
    uint64_t source_of_mbuf(size_t i) const {
        return pool != nullptr ? reinterpret_cast<uint64_t>(mbufs[i]) + static_cast<uint64_t>(data) : sources[i];
    }
    uint64_t first_source() const {
        return receive_blocks.empty() ? source_of_mbuf(0) : reinterpret_cast<uint64_t>(receive_blocks.front().data(0));
    }
    /// Where frame `i` was received.
    uint64_t source_of(size_t i) const {
        if (receive_blocks.empty()) return source_of_mbuf(i);
        auto block = receive_blocks.begin();
        for (; i >= block->count; ++block) i -= block->count;
        return reinterpret_cast<uint64_t>(block->data(static_cast<uint32_t>(i)));
    }
    /// Calls f(i, address) for each frame of the batch, with where it was received.
    template <class F>
    void for_each_source(F f) const {
        size_t i = 0;
        for (const io::ReceiveBlock& block : receive_blocks)
            for (uint32_t k = 0; k < block.count; ++k) f(i++, reinterpret_cast<uint64_t>(block.data(k)));
        if (pool != nullptr)
            for (; i < frames.count; ++i) f(i, reinterpret_cast<uint64_t>(mbufs[i]) + static_cast<uint64_t>(data));
        for (; i < frames.count; ++i) f(i, sources[i]);
    }
    /// Whether the frames cross contiguous, as they were received.
    bool is_staged() const { return transfer == TransferIn::packed && !receive_blocks.empty(); }
    /// Whether kernels read the frames where they were received.
    bool in_place() const { return transfer == TransferIn::zero_copy && prefixes.back == 0; }
    /// Whether the host makes them contiguous first.
    bool packs() const {
        return transfer == TransferIn::packed ? !is_staged() : transfer == TransferIn::zero_copy && !in_place();
    }
    /// Whether the device has to know where each frame lies.
    bool needs_sources() const {
        return (transfer == TransferIn::gather || in_place() || is_staged()) &&
               (frames.runs != 1 || (is_staged() && staged_ranges.all().size() > 1));
    }
};

/// Places the frames of the chain's next batch and writes their descriptors, as many as fit, and chooses their ways.
/// The batch's piece of the packet ring has its layout then, but no address. `batch` has its chain.
void lay_out(const ChainQueue& queue, const OffloadOptions& options, BatchInput& batch, const BatchBuffers& buffers);

/// Once the piece has its address: writes what goes to the device besides the frames, and packs those that are to be
/// packed.
void write_input(BatchInput& batch, const BatchBuffers& buffers);

}  // namespace millrace::exec
