// How long a batch takes on some of a GPU's multiprocessors (SMs): G-NET's linear model (section 5.1, Eq 1).
#pragma once

#include <cstdint>
#include <span>

#include "millrace/schedule/line.hpp"

namespace millrace::schedule {

/// What was measured of one size of batch.
struct ProfilePoint {
    uint32_t packets = 0;    ///< of the batch
    uint32_t sms = 0;        ///< that its kernels had
    double kernel_ns = 0;    ///< all of them
    double transfer_ns = 0;  ///< there and back
};

/// Of a chain or tenant on one model of GPU, with its tables and a size of frames.
struct Model {
    Line kernel;    ///< ns, by packets of each SM: k1 and b1 of the paper
    Line transfer;  ///< ns, by packets of the batch: k2 and b2
    double kernel_r2 = 0, transfer_r2 = 0;
    uint32_t most_of_sm = 0;  ///< packets of an SM up to which it was measured; 0: no bound

    /// A batch of `packets` on `sms`, without what is added for messages and for waiting.
    double kernel_ns(uint32_t packets, uint32_t sms) const {
        const uint64_t of_sm = (uint64_t{packets} + sms - 1) / sms;
        return kernel.at(static_cast<double>(of_sm));
    }
    double transfer_ns(uint32_t packets) const { return transfer.at(packets); }
    double batch_ns(uint32_t packets, uint32_t sms) const { return kernel_ns(packets, sms) + transfer_ns(packets); }
};

/// Points without packets, SMs or time are left out. That kernels take as long on more SMs if each has as many packets
/// is the paper's observation; points of one number of SMs are enough.
Model fit(std::span<const ProfilePoint> points);

}  // namespace millrace::schedule
