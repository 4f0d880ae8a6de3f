#include "millrace/exec/transfer/cost_model.hpp"

#include <algorithm>

namespace millrace::exec {
namespace {

/// By how much bytes take longer while `other` bytes go the other way, where as many cost `both` times the time.
double slowed(double both, double bytes, double other) {
    return 1 + (both - 1) * std::min(other / std::max(bytes, 1.0), 1.0);
}

Pace scaled(Pace pace, double by) {
    pace.byte_ns *= by;
    return pace;
}

/// Kernels are told where each frame lies, unless all lie at one distance.
double address_bytes(const BatchShape& shape) { return shape.runs > 1 ? 8.0 * static_cast<double>(shape.packets) : 0; }

/// What a worker does for the batch's packets, whatever their way. Without mbufs it is a third: 14.5 of 42 cycles a
/// packet (framework_bench --batches 1; docs/benchmarks/method.md, "Measured once").
double packets_ns(const TransferFigures& figures, const BatchShape& shape) {
    const double all = static_cast<double>(shape.packets) * figures.packet_ns;
    return shape.contiguous_bytes != 0 ? all / 3 : all;
}

template <class Way, size_t N>
Way cheapest(const TransferFigures& figures, const BatchShape& shape, const Way (&ways)[N]) {
    Way best = Way::automatic;
    double least = 0;
    for (const Way way : ways) {
        if (way == Way::automatic) continue;
        const Estimate cost = estimate(figures, shape, way);
        if (cost.obstacle != nullptr || (best != Way::automatic && cost.cost_ns(shape.workers) >= least)) continue;
        best = way;
        least = cost.cost_ns(shape.workers);
    }
    return best;
}

}  // namespace

const TransferFigures& built_in_figures() {
    static const TransferFigures figures = [] {
        TransferFigures f;
        f.device = "NVIDIA H200";
        f.source = "built-in figures of an NVIDIA H200; `millrace profile` measures yours";
        // docs/benchmarks/gpu/profile.json; the last from docs/benchmarks/method.md, "Measured once": 85 cycles.
        f.copy_in = {3480, 0, 0.0172};
        f.copy_out = {3130, 0, 0.0165};
        f.rows = {2780, 2.59, 0.0183};
        f.gather = {4600, 0.98, 0.0204};
        f.zero_copy = {4600, 4.28, 0.157};
        f.heads_out = {5010, 0.018, 0.0112};
        f.copy_both = 1.10;
        f.gather_both = 1.42;
        f.pack = {0, 6.25, 0.189};
        f.call_ns = 1140;
        f.launch_ns = 2450;
        f.packet_ns = 40;
        return f;
    }();
    return figures;
}

Estimate estimate(const TransferFigures& figures, const BatchShape& shape, TransferIn way) {
    const auto packets = static_cast<double>(shape.packets), bytes = static_cast<double>(shape.bytes_in),
               runs = static_cast<double>(shape.runs), packed = static_cast<double>(shape.packed_bytes),
               back = static_cast<double>(shape.bytes_back);
    const double addresses_ns = address_bytes(shape) * figures.copy_in.byte_ns;
    Estimate result;
    result.cpu_ns = packets_ns(figures, shape);
    switch (way) {
        case TransferIn::automatic:
        case TransferIn::packed:
            if (shape.contiguous_bytes != 0) {
                if (!shape.fits_staging)
                    result.obstacle = "the packet buffer has no room for the frames as they were received";
                const auto together = static_cast<double>(shape.contiguous_bytes);
                result.bus_ns = scaled(figures.copy_in, slowed(figures.copy_both, together, back)).ns(1, together) +
                                addresses_ns;
                result.cpu_ns += figures.call_ns + figures.launch_ns;
                break;
            }
            result.bus_ns = scaled(figures.copy_in, slowed(figures.copy_both, packed, back)).ns(1, packed);
            result.cpu_ns += figures.call_ns + figures.pack.ns(packets, bytes);
            break;
        case TransferIn::rows: {
            if (shape.row_bytes == 0) result.obstacle = "frames of different lengths are no rows";
            else if (!shape.reachable) result.obstacle = "the receive buffers are not pinned";
            const double carried = packets * shape.row_bytes;
            const Pace pace = scaled(figures.rows, slowed(figures.copy_both, carried, back));
            result.bus_ns = runs * pace.start_ns + (pace.ns(packets, carried) - pace.start_ns);
            result.cpu_ns += runs * figures.call_ns;
            break;
        }
        case TransferIn::gather:
            if (!shape.reachable) result.obstacle = "kernels can't read the receive buffers";
            result.bus_ns = scaled(figures.gather, slowed(figures.gather_both, bytes, back)).ns(packets, bytes) +
                            addresses_ns;
            result.cpu_ns += figures.launch_ns;
            break;
        case TransferIn::zero_copy:
            // What is changed is packed first: receive buffers stay as they are.
            if (shape.changes && shape.whole_back) result.obstacle = "the chain changes frames, which takes a copy";
            else if (!shape.changes && !shape.reachable) result.obstacle = "kernels can't read the receive buffers";
            result.bus_ns = figures.zero_copy.ns(packets, bytes) + (shape.changes ? 0 : addresses_ns);
            if (shape.changes) result.cpu_ns += figures.pack.ns(packets, bytes);
            break;
    }
    return result;
}

Estimate estimate(const TransferFigures& figures, const BatchShape& shape, TransferOut way) {
    const auto packets = static_cast<double>(shape.packets), in = static_cast<double>(shape.bytes_in),
               back = static_cast<double>(shape.bytes_back);
    Estimate result;
    result.cpu_ns = packets_ns(figures, shape);
    const double copy_ns = scaled(figures.copy_out, slowed(figures.copy_both, back, in)).ns(1, back);
    switch (way) {
        case TransferOut::automatic:
        case TransferOut::region:
            result.bus_ns = copy_ns;
            result.cpu_ns += figures.call_ns;
            break;
        case TransferOut::zero_copy:
            if (shape.bytes_back == 0) result.obstacle = "nothing comes back";
            else if (shape.whole_back) result.obstacle = "kernels change whole frames in the device's memory";
            // The results come by a copy all the same.
            result.bus_ns = figures.copy_out.start_ns + figures.heads_out.ns(packets, back);
            result.cpu_ns += figures.call_ns;
            break;
    }
    return result;
}

TransferIn choose_in(const TransferFigures& figures, const BatchShape& shape) {
    return cheapest(figures, shape, kTransfersIn);
}
TransferOut choose_out(const TransferFigures& figures, const BatchShape& shape) {
    return cheapest(figures, shape, kTransfersOut);
}

TransferIn way_in(const TransferFigures& figures, const BatchShape& shape, TransferIn asked) {
    if (asked == TransferIn::automatic) return choose_in(figures, shape);
    for (const TransferIn way : {asked, TransferIn::gather})
        if (estimate(figures, shape, way).obstacle == nullptr) return way;
    return TransferIn::packed;
}

TransferOut way_out(const TransferFigures& figures, const BatchShape& shape, TransferOut asked) {
    if (asked == TransferOut::automatic) return choose_out(figures, shape);
    return estimate(figures, shape, asked).obstacle == nullptr ? asked : TransferOut::region;
}

}  // namespace millrace::exec
