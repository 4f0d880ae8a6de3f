// State per key that lies on a device, as the host reads it while the device works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::nf {

/// Says where state lies, and reads it from a device piece by piece. One thread at a time.
class StateReader {
public:
    virtual ~StateReader() = default;
    /// What is to be copied: `bytes` from `offset` on of the state whose host copy begins at `host`.
    struct Piece {
        const void* host;
        uint64_t offset;
        void* to;
        size_t bytes;
    };
    /// Whether a device has the state whose host copy begins at `host`, so that this copy is out of date.
    virtual bool on_device(const void* host) const = 0;
    /// Copies pieces of states of one network function from its device, one after the other; all together have at most
    /// `kMax` bytes. The device may write meanwhile. False where it has gone.
    virtual bool read(std::span<const Piece> pieces) = 0;
    static constexpr size_t kMax = size_t{1} << 20;
};

}  // namespace millrace::nf
