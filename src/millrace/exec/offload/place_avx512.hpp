// The border to what places frames by AVX-512: plain C types only, so that no inline function of a library is compiled
// for AVX-512 and then used by everyone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::exec::avx512 {

/// What is placed, and what it adds up to (FramePlacer).
struct Placing {
    // Of the frames: addresses at a constant distance from them, and their lengths (16 bits) and ports.
    const uint64_t* addresses;
    const uint32_t* shapes;
    uint32_t count;
    uint32_t around;      ///< bytes free before and behind each frame
    uint64_t most_bytes;  ///< of the packet buffer
    uint64_t pitch;       ///< from one address to the next, where frames lie even
    uint64_t expected;    ///< the first address, where it goes on as before
    uint32_t usual;       ///< what a frame takes of the packet buffer, where all take the same
    // Sums, to be added to:
    uint32_t bytes = 0, widest = 0, differ = 0;
    uint64_t crossing = 0, breaks = 0;
};

/// Writes the descriptors (device::FrameDescriptor) of the first frames, as many sixteens as there are and as have
/// room; returns how many frames. Enter only where the CPU has
/// all that *_avx512.cpp files are compiled for.
uint32_t place(Placing& placing, uint8_t* descriptors);

}  // namespace millrace::exec::avx512
