#include "millrace/exec/offload/memory/packet_ring.hpp"

namespace millrace::exec {

size_t PacketRing::take(size_t bytes) {
    if (bytes > bytes_) return kNoRoom;
    if (taken_.empty()) tail_ = 0;
    size_t at = tail_;
    if (!taken_.empty()) {
        const size_t head = taken_.front().first;
        if (tail_ > head) {
            // Free: behind the tail, and before the oldest batch.
            if (bytes > bytes_ - tail_) at = bytes <= head ? 0 : kNoRoom;
        } else if (bytes > head - tail_) {
            at = kNoRoom;
        }
    }
    if (at == kNoRoom) return kNoRoom;
    // An empty piece would make a full ring look like an empty one.
    tail_ = at + (bytes == 0 ? 1 : bytes);
    taken_.emplace_back(at, bytes);
    return at;
}

void PacketRing::give_back() { taken_.erase(taken_.begin()); }

}  // namespace millrace::exec
