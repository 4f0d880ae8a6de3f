// How fast a device's bus carries batches, with no kernel and no packet in the way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::lab {

/// One kind of transfer; a piece is what one copy moves.
struct BusOptions {
    size_t to_device_bytes = 0;  ///< of a piece; 0: nothing goes that way
    size_t to_host_bytes = 0;
    size_t row_bytes = 0;  ///< rows of this length, `pitch_bytes` apart on the host, go to the device by 2-D copies; 0:
                           ///< one run
    size_t pitch_bytes = 2368;  ///< as packet buffers lie
    unsigned depth = 4;         ///< pieces under way each way
    double seconds = 0.2;
};

struct BusRate {
    double pieces_per_second = 0;               ///< each way; where both ways are used, pairs of pieces
    double to_device_gbs = 0, to_host_gbs = 0;  ///< 10^9 bytes a second
};

/// Throws device::DeviceError when the device has no memory for it or fails.
BusRate measure_bus(device::Device& device, const BusOptions& options);

inline constexpr size_t kBusPiece = size_t{32} << 20;  ///< no batch is larger

/// The most packets a second that the bus can carry in both directions at once when each is `bytes_in` long on the way
/// in and `bytes_out` on the way back, in pieces of `piece` bytes.
double bus_limit(device::Device& device, double bytes_in, double bytes_out, double seconds = 0.2,
                 size_t piece = kBusPiece);

}  // namespace millrace::lab
