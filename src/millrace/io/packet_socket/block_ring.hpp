// A packet socket whose memory is blocks, with many frames in each, one behind the other.
#pragma once

#include <linux/if_packet.h>

#include <array>
#include <vector>

#include "millrace/io/packet_socket/receive_ring.hpp"
#include "millrace/io/receive_block.hpp"

namespace millrace::io {

/// Version 3: the kernel hands a block over when it is full, or when the first of its frames is some milliseconds old.
/// Frames of up to 64 KiB fit, so none is set aside. They may be taken where they lie, as receive blocks, in place of
/// being copied one by one.
class BlockRing : public ReceiveRing {
public:
    static constexpr uint32_t kBlockBytes = 1 << 18, kBlocks = 64;
    /// The kernel counts in whole milliseconds.
    static constexpr uint32_t kMaxWaitMs = 1;

    /// Hears nothing before `listen`. Throws std::runtime_error with what the kernel says.
    explicit BlockRing(const ReceiveRingOptions& options);
    uint32_t ready(uint32_t most) override;
    RingFrame front() const override;
    void pop() override;

    /// What becomes of a frame that is to be taken where it lies.
    enum class Action : uint8_t {
        plain,    ///< it is one of the wire
        uncut,    ///< it is yet to be cut, and may stay so
        dropped,  ///< it is none for anybody
        alone,    ///< it can't be taken so
    };
    /// Takes frames where they lie, `most` at most and all of one block, as far as `action_of(frame)` lets them. Those
    /// that are dropped are in none; what stands before a frame that is `alone` comes first. Checksums are finished,
    /// and VLAN tags stand in the frames.
    template <class ActionOf>
    ReceiveBlock take(uint32_t most, const ActionOf& action_of) {
        ReceiveBlock block;
        block.memory = memory_;
        if (ready(1) == 0) return block;
        uint32_t at = next_spot(most);
        block.spots = spots_.data() + at;
        for (; block.count < most && left_ > 0; step()) {
            const RingFrame frame = front();
            const Action action = action_of(frame);
            if (action == Action::alone) break;
            if (action == Action::dropped) continue;
            if (block.count == 0) block.first_ns = frame.timestamp_ns;
            spots_[at++] = spot_of(frame, action == Action::uncut);
            block.has_uncut |= action == Action::uncut;
            ++block.count;
        }
        spot_ = at;
        out_ += block.count;
        states_[block_].out += block.count;
        if (left_ == 0) end_block();
        return block;
    }
    /// The oldest `count` frames that were taken so are not needed any more.
    void give_back(uint32_t count);
    /// How many are.
    uint32_t out() const { return out_; }
    std::span<uint8_t> memory() const { return {memory_, memory_bytes_}; }

private:
    struct State {
        uint32_t out = 0;         // frames that were taken where they lie
        bool is_through = false;  // there are no others, but some are out
    };
    tpacket_block_desc* block(uint32_t index) const {
        return reinterpret_cast<tpacket_block_desc*>(memory_ + size_t{index} * kBlockBytes);
    }
    const tpacket3_hdr* header() const { return reinterpret_cast<const tpacket3_hdr*>(memory_ + at_); }
    void step() {
        at_ += header()->tp_next_offset;
        --left_;
    }
    void end_block();
    void release(uint32_t index);
    uint32_t next_spot(uint32_t most) const;
    FrameSpot spot_of(const RingFrame& frame, bool uncut);

    std::array<State, kBlocks> states_{};
    uint32_t block_ = 0;            // the oldest that is not through
    uint32_t left_ = 0;             // frames of it that are not through
    size_t at_ = 0;                 // the next one's header
    std::vector<FrameSpot> spots_;  // of frames that were taken, in a ring
    uint32_t spot_ = 0;
    uint32_t out_ = 0;
    uint32_t oldest_ = 0;  // block of which some may be out
};

}  // namespace millrace::io
