// Batches that resident kernels run: put on a communication list, without a call of the driver.
#include <algorithm>
#include <cstring>

#include "millrace/exec/offload/offload_batch.hpp"

namespace millrace::exec {

using device::Address;
using device::Status;

/// A kernel copies no rows; and where it can fetch frames from where they are, the host has no need to pack them, nor
/// to copy them side by side.
TransferIn OffloadEngine::resident_transfer(TransferIn chosen, bool of_runs) const {
    if (options_.mode != device::Mode::persistent) return chosen;
    const bool could_fetch = chosen == TransferIn::packed &&
                             ((options_.transfer_in == TransferIn::automatic && options_.pinned) || of_runs);
    return chosen == TransferIn::rows || could_fetch ? TransferIn::gather : chosen;
}

/// The batch's view and input are there.
Status OffloadEngine::put_on_list(Slot& slot) {
    const auto at = [&](size_t offset) {
        return reinterpret_cast<uint8_t*>(ring_address_ + slot.ring_offset + offset);
    };
    device::ResidentBatch batch;
    batch.view = slot.view;
    batch.in[0] = {slot.input, at(0), slot.piece.input_bytes()};
    if (slot.transfer == TransferIn::packed)
        batch.in[1] = {slot.frames_in, at(slot.piece.frames_at), slot.frames.bytes};
    batch.gather = slot.transfer == TransferIn::gather;
    slot.bytes_in += batch.in[1].bytes != 0 ? slot.frames.bytes : slot.frames.crossing;
    std::vector<device::CopyPiece>& back = slot.pieces;
    list_back(slot, back);
    if (slot.way_back == TransferOut::zero_copy) slot.bytes_back += slot.frames.count * slot.chain->prefixes.back;
    for (size_t i = 0; i < back.size(); ++i) {
        batch.out[i] = {static_cast<uint8_t*>(back[i].host), reinterpret_cast<uint8_t*>(back[i].device), back[i].bytes};
        slot.bytes_back += back[i].bytes;
    }
    const std::vector<device::Step>& steps = slot.chain->loaded->steps();
    if (std::none_of(steps.begin(), steps.end(), [](const device::Step& step) { return step.in_order(); }))
        return slot.chain->resident->put(batch, slot.number);
    // Batches must be on the lists in the order of their turns: a kernel that waits for a batch behind another of its
    // own list would wait for ever.
    device::OrderGate& gate = *gate_;
    const std::lock_guard lock(gate.mutex);
    if (gate.broken) return Status::lost;
    batch.turn = ++gate.resident_turns;
    batch.turns = turn_word_.get();
    slot.order = ++gate.batches;
    return slot.chain->resident->put(batch, slot.number);
}

/// Lets all kernels end, whatever they are at.
void OffloadEngine::stop_residents() {
    for (const auto& queue : queues_)
        if (queue->chain != nullptr && queue->chain->resident != nullptr) queue->chain->resident->stop();
    for (const auto& slot : slots_)
        if (slot->chain != nullptr && slot->chain->resident != nullptr) slot->chain->resident->stop();
}

}  // namespace millrace::exec
