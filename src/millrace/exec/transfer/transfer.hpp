// The ways in which a batch's frames cross the bus.
#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/chain/program.hpp"
#include "millrace/device/kernel/batch.hpp"

namespace millrace::exec {

/// How frames reach the device: whole, or their regions of interest (the head that holds the fields which the
/// chain reads, Prefixes) where the field plan asks for no more. Where a way can't be taken, another is.
enum class TransferIn : uint8_t {
    automatic,  ///< the one of the others that the cost model finds cheapest for a batch
    packed,     ///< they are contiguous, as received or packed by the host, and one copy moves them (UCLouvain thesis:
                ///< coalescent regions of interest)
    rows,       ///< 2-D copies of evenly spaced buffers; gather, or packed, where they are not
    gather,     ///< a kernel fetches them from their buffers; packed where it can't read those
    zero_copy,  ///< the chain's kernels read them where the host has them; gather, or packed, where the chain changes
                ///< more than heads
};
inline constexpr TransferIn kTransfersIn[] = {TransferIn::automatic, TransferIn::packed, TransferIn::rows,
                                              TransferIn::gather, TransferIn::zero_copy};
inline constexpr const char* kTransferInNames[] = {"auto", "packed", "rows", "gather", "zero-copy"};
inline const char* name_of(TransferIn way) { return kTransferInNames[static_cast<size_t>(way)]; }

/// How they come back.
enum class TransferOut : uint8_t {
    automatic,  ///< region or zero_copy, whichever the cost model finds cheaper
    region,     ///< the whole region of the packet buffer, dropped packets and all (Gaviss, section 4.2)
    zero_copy,  ///< a kernel writes the heads straight into the host's memory; region where whole frames come back
};
inline constexpr TransferOut kTransfersOut[] = {TransferOut::automatic, TransferOut::region, TransferOut::zero_copy};
inline constexpr const char* kTransferOutNames[] = {"auto", "region", "zero-copy"};
inline const char* name_of(TransferOut way) { return kTransferOutNames[static_cast<size_t>(way)]; }

/// Fields that lie further behind in a frame's head are not worth a transfer of their own.
inline constexpr uint32_t kMaxPrefix = 128;

/// What frames begin at multiples of in the packet buffer: heads of frames, and whole ones.
constexpr uint32_t kFrameAlign = 16, kWholeFrameAlign = 8;
constexpr uint32_t frame_aligned(uint32_t bytes) { return (bytes + kFrameAlign - 1) / kFrameAlign * kFrameAlign; }
/// From one whole frame to the next, where `present` bytes of it cross the bus and so much room is free before and
/// behind it.
constexpr uint32_t frame_room(uint32_t present, uint32_t headroom, uint32_t tailroom) {
    return (headroom + present + tailroom + kWholeFrameAlign - 1) / kWholeFrameAlign * kWholeFrameAlign;
}

/// Where the first whole frame begins. Frames that a kernel scatters begin kSkew behind a multiple, if there is as
/// much room before them: a packet that follows an Ethernet header then begins at such a multiple, so that ciphers work
/// in words (NIC drivers do so, too).
constexpr uint32_t first_frame(uint32_t headroom, bool scatter) {
    return frame_aligned(headroom) + (scatter && headroom >= device::kSkew ? device::kSkew : 0);
}

/// What of each frame crosses the bus: bytes at its front, or chain::kWholeFrame; 0: none.
struct Prefixes {
    uint32_t in, back;
};
/// By the program's field plan: the most that cross.
Prefixes prefixes_of(const chain::FieldPlan& plan);
/// Of batches whose packets all have their headers where most have them (packet/plain_layout.hpp).
Prefixes plain_prefixes_of(const chain::FieldPlan& plan);

}  // namespace millrace::exec
