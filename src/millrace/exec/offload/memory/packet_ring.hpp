// Device memory for the batches in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace millrace::exec {

/// The ring of packet memory that all chains of a worker share on a device (Gaviss, section 4.1):
/// one tail; what lies between the oldest batch in flight and the tail is in use. The paper sizes it
/// S = T · max(L) · α; T · L is what is in flight, at most `depth` batches, and α covers the turn-over.
class PacketRing {
public:
    /// `pieces`: most that are taken at once.
    explicit PacketRing(size_t bytes, size_t pieces = 4) : bytes_(bytes) { taken_.reserve(pieces); }
    static constexpr size_t kNoRoom = SIZE_MAX;
    /// `bytes` in one piece; its offset, or kNoRoom while batches in flight are in the way.
    size_t take(size_t bytes);
    /// Gives back the oldest piece.
    void give_back();
    size_t size() const { return bytes_; }

private:
    size_t bytes_;
    size_t tail_ = 0;
    std::vector<std::pair<size_t, size_t>> taken_;  // a few, the oldest first
};

}  // namespace millrace::exec
