// What the ways of transfer cost a batch, and which is cheapest: pure functions of measured figures.
//
// A batch costs time of the bus and time of CPUs. One bus serves all workers of a device, and each worker has a
// core, so with many batches in flight the scarcer sets the pace: the bus's time, or the CPU's over the workers.
// The other is not free either (what waits for one holds up the other now and then), so an eighth of it counts, too;
// of two ways that are limited by the same, the lighter one wins.
#pragma once

#include <string>

#include "millrace/exec/transfer/transfer.hpp"

namespace millrace::exec {

/// What a kind of work takes, in ns: its items or its bytes, whichever take longer, as they go concurrently.
struct Pace {
    double start_ns = 0;  ///< each time
    double item_ns = 0;   ///< for each row, frame or packet
    double byte_ns = 0;
    double ns(double items, double bytes) const {
        return start_ns + (items * item_ns > bytes * byte_ns ? items * item_ns : bytes * byte_ns);
    }
};

/// What `millrace profile` measures of a machine and a device.
struct TransferFigures {
    std::string device;  ///< device::Device::model() of the device that they are of
    std::string source;  ///< for people: "built-in figures", or the file that they were read from
    // The bus, while batches follow on each other.
    Pace copy_in, copy_out;  ///< one run of bytes
    Pace rows;               ///< a 2-D copy of rows that lie apart on the host; items are rows
    Pace gather;             ///< a kernel fetches frames; items are frames
    Pace zero_copy;  ///< a chain's kernel reads frames in the host's memory, beyond what it takes in the device's own
    Pace heads_out;  ///< a kernel writes heads into the host's memory
    double copy_both = 1;    ///< by how much a copy's bytes take longer while as many go the other way
    double gather_both = 1;  ///< and a gathering kernel's
    // A CPU core.
    Pace pack;             ///< frames copied from their buffers one behind the other; items are frames
    double call_ns = 0;    ///< to ask for a copy
    double launch_ns = 0;  ///< to launch a kernel
    double packet_ns = 0;  ///< all else that a worker does for a packet
};

/// Those of an NVIDIA H200 on PCIe 5 x16 with a Xeon at 2.1 GHz (docs/benchmarks/method.md).
const TransferFigures& built_in_figures();

/// A batch, as far as its way matters.
struct BatchShape {
    size_t packets = 0;
    size_t bytes_in = 0;          ///< of its frames, or of their heads
    size_t packed_bytes = 0;      ///< that they take in the packet buffer, with the room around them
    uint32_t row_bytes = 0;       ///< the longest of them; 0: they lie unevenly in the packet buffer, so not as rows
    size_t runs = 1;              ///< of frames at one distance from each other
    size_t contiguous_bytes = 0;  ///< where frames were received contiguous: of these, gaps and all
    bool fits_staging = true;     ///< the device has room for them like that
    size_t bytes_back = 0;        ///< that will come back, besides results
    bool reachable = true;        ///< kernels can read the receive buffers
    bool changes = true;          ///< the chain writes to frames
    bool whole_back = true;       ///< whole frames come back, not heads
    unsigned workers = 1;         ///< that share the device
};

/// What one way costs one batch.
struct Estimate {
    const char* obstacle = nullptr;  ///< why it can't be taken; null when it can
    double bus_ns = 0, cpu_ns = 0;
    /// What counts, see above.
    double cost_ns(unsigned workers) const {
        const double cpu = cpu_ns / (workers == 0 ? 1 : workers);
        return bus_ns > cpu ? bus_ns + cpu / 8 : cpu + bus_ns / 8;
    }
    /// Whether the bus sets the pace, and not the CPU.
    bool bus_bound(unsigned workers) const { return bus_ns > cpu_ns / (workers == 0 ? 1 : workers); }
};

/// `way` is none of the automatic ones.
Estimate estimate(const TransferFigures& figures, const BatchShape& shape, TransferIn way);
Estimate estimate(const TransferFigures& figures, const BatchShape& shape, TransferOut way);

/// The possible way of least cost; the first in the order of the enumeration among equals.
TransferIn choose_in(const TransferFigures& figures, const BatchShape& shape);
TransferOut choose_out(const TransferFigures& figures, const BatchShape& shape);

/// The way that is taken when `asked` is asked for: itself if it can be, else the next best that is of its kind (see
/// the enumerations), or the cheapest.
TransferIn way_in(const TransferFigures& figures, const BatchShape& shape, TransferIn asked);
TransferOut way_out(const TransferFigures& figures, const BatchShape& shape, TransferOut asked);

}  // namespace millrace::exec
