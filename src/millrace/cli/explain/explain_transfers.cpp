#include "millrace/cli/explain/explain_transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "millrace/cli/text/table.hpp"
#include "millrace/exec/offload/offload_engine.hpp"
#include "millrace/io/receive_block.hpp"

namespace millrace::cli {
namespace {

using exec::BatchShape;
using exec::Estimate;
using exec::Prefixes;
using exec::TransferIn;
using exec::TransferOut;

struct Traffic {
    std::string name;
    std::vector<uint32_t> frames;  ///< lengths, each as often as the others
};
const std::vector<Traffic> kTraffic = {{"64 B", {64}},
                                       {"128 B", {128}},
                                       {"256 B", {256}},
                                       {"512 B", {512}},
                                       {"1024 B", {1024}},
                                       {"1518 B", {1518}},
                                       {"IMIX", {64, 64, 64, 64, 64, 64, 64, 590, 590, 590, 590, 1514}}};

/// A full batch of such frames, as the engine would lay it out.
BatchShape shape_of(const chain::Program& program, const Prefixes& prefixes, const Traffic& traffic, unsigned workers) {
    const auto crosses = [](uint32_t prefix, uint32_t frame) {
        return prefix == chain::kWholeFrame ? frame : std::min(prefix, frame);
    };
    const bool whole = prefixes.in == chain::kWholeFrame;
    BatchShape shape;
    shape.packets = program.max_batch;
    shape.whole_back = prefixes.back == chain::kWholeFrame;
    shape.changes = prefixes.back != 0;
    shape.workers = workers;
    std::set<uint32_t> rooms;
    for (size_t i = 0; i < shape.packets; ++i) {
        const uint32_t frame = traffic.frames[i % traffic.frames.size()], present = crosses(prefixes.in, frame);
        const uint32_t room = whole ? exec::frame_room(frame, program.head_growth(), program.tail_growth())
                                    : exec::frame_aligned(prefixes.in);
        shape.bytes_in += present;
        shape.packed_bytes += room;
        shape.row_bytes = std::max(shape.row_bytes, present);
        rooms.insert(room);
    }
    shape.bytes_back = shape.whole_back ? shape.packed_bytes : shape.packets * prefixes.back;
    if (rooms.size() > 1) shape.row_bytes = 0;
    return shape;
}

/// The same frames as a port leaves them that keeps them contiguous.
BatchShape contiguous(BatchShape shape, const Traffic& traffic) {
    for (size_t i = 0; i < shape.packets; ++i)
        shape.contiguous_bytes += (traffic.frames[i % traffic.frames.size()] + io::kFrameSpacing - 1) /
                                  io::kFrameSpacing * io::kFrameSpacing;
    shape.fits_staging = shape.contiguous_bytes <= exec::OffloadOptions{}.batch_bytes;
    return shape;
}

std::string microseconds(double ns) { return fmt::format("{:.0f}", ns / 1000); }

std::string cell(const Estimate& cost) {
    return cost.obstacle != nullptr ? "-" : microseconds(cost.bus_ns) + " · " + microseconds(cost.cpu_ns);
}

/// "gather, bus-bound: rows would cost 1.30 times as much".
template <class Way>
std::string reason(const exec::TransferFigures& figures, const BatchShape& shape, Way taken,
                   std::initializer_list<Way> ways) {
    const Estimate own = estimate(figures, shape, taken);
    std::string text = fmt::format("{}, {}-bound", name_of(taken), own.bus_bound(shape.workers) ? "bus" : "CPU");
    Way next = taken;
    double least = 0;
    for (const Way way : ways) {
        const Estimate other = estimate(figures, shape, way);
        if (way == taken || other.obstacle != nullptr || (next != taken && other.cost_ns(shape.workers) >= least))
            continue;
        next = way;
        least = other.cost_ns(shape.workers);
    }
    if (next == taken) return text + ": no other can";
    const double times = least / own.cost_ns(shape.workers);
    return text + ": " + name_of(next) + " would cost " +
           (times < 1.1 ? fmt::format("{:.1f} % more", (times - 1) * 100) : fmt::format("{:.2f} times as much", times));
}

}  // namespace

std::string transfers_text(const chain::Program& program, const chain::FieldPlan& plan,
                           const exec::TransferFigures& figures, unsigned workers) {
    const Prefixes prefixes = exec::prefixes_of(plan);
    const std::initializer_list<TransferIn> in = {TransferIn::packed, TransferIn::rows, TransferIn::gather,
                                                  TransferIn::zero_copy};
    const std::initializer_list<TransferOut> out = {TransferOut::region, TransferOut::zero_copy};
    std::string text = fmt::format(
        "Ways across the bus for {} packets in order, {} worker{} on the device, by {}\n(us of the bus · us of "
        "CPUs):\n",
        program.max_batch, workers, workers == 1 ? "" : "s", figures.source);
    Table costs({"frames", "in: packed", "rows", "gather", "zero-copy", "contiguous", "back: region", "zero-copy"});
    Table choices({"frames", "in by", "back by"});
    std::set<std::string> obstacles;
    for (const Traffic& traffic : kTraffic) {
        const BatchShape shape = shape_of(program, prefixes, traffic, workers);
        std::vector<std::string> row = {traffic.name};
        const auto add = [&](auto way) {
            const Estimate cost = estimate(figures, shape, way);
            row.push_back(cell(cost));
            const char* const direction = std::is_same_v<decltype(way), TransferIn> ? "in" : "back";
            if (cost.obstacle != nullptr)
                obstacles.insert(fmt::format("  no {} {}: {}\n", name_of(way), direction, cost.obstacle));
        };
        for (const TransferIn way : in) add(way);
        row.push_back(cell(estimate(figures, contiguous(shape, traffic), TransferIn::packed)));
        for (const TransferOut way : out) add(way);
        costs.add(row);
        choices.add({traffic.name, reason(figures, shape, choose_in(figures, shape), in),
                     prefixes.back == 0 ? "nothing" : reason(figures, shape, choose_out(figures, shape), out)});
    }
    text += costs.text();
    for (const std::string& obstacle : obstacles) text += obstacle;
    return text + "\n" + choices.text() +
           "What is scarcer counts, the bus or the CPUs' time over the workers, and an eighth of the other. Side by "
           "side: packed as a port has\n"
           "received them, many frames to a buffer, in place of each in its own.\n\n";
}

}  // namespace millrace::cli
