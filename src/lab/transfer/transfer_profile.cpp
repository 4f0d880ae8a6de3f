#include "lab/transfer/transfer_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "lab/clock.hpp"
#include "lab/transfer/batch_probe.hpp"
#include "lab/transfer/bus.hpp"
#include "millrace/schedule/line.hpp"

namespace millrace::lab {
namespace {

using exec::Pace;
using exec::TransferFigures;
using schedule::fit_line;
using schedule::Line;

constexpr size_t kPackets = 8192, kLargest = size_t{16} << 20;
constexpr const char* kReadsHeads = "[firewall: {default: permit, rules: [deny tcp from 192.0.2.1 to any port 1]}]";
constexpr const char* kReadsFrames =
    R"([nids: {mode: ips, rule: ['drop ip any any -> any any (msg:"never"; content:"no such bytes"; sid:1;)']}])";

class Profiler {
public:
    Profiler(std::shared_ptr<device::Device> device, const ProfileOptions& options)
        : device_(std::move(device)), options_(options) {}

    TransferProfile run() {
        figures_ = exec::built_in_figures();
        figures_.device = device_->model();
        figures_.source = "measured just now";
        copies();
        rows();
        {
            BatchProbe heads(device_, kReadsHeads, kPackets, 64);
            gather_small(heads);
            heads_out(heads);
            zero_copy_heads(heads);
            figures_.launch_ns = heads.launch_ns(next("launches"));
            packing(heads, 64, figures_.pack.item_ns, 1.0 / kPackets);
        }
        BatchProbe frames(device_, kReadsFrames, kPackets, 1518);
        gather_large(frames);
        zero_copy_frames(frames);
        packing(frames, 1518, figures_.pack.byte_ns, 1.0 / (kPackets * 1518.0));
        for (TransferSample& sample : samples_) sample.fitted_ns = fitted(sample);
        return {figures_, samples_};
    }

private:
    /// Says what comes next; for how long to measure it.
    double next(const std::string& what) {
        constexpr double kAll = 55;  // measurements
        options_.progress(std::min(measured_++ / kAll, 1.0), what);
        return options_.seconds;
    }
    double keep(const char* way, size_t items, size_t bytes, bool both, double ns) {
        samples_.push_back({way, items, bytes, both, ns, 0});
        return ns;
    }
    /// What is left of `ns` for each of `parts`, without the start; never nothing.
    static double rest(double ns, double start_ns, double parts) { return std::max(ns - start_ns, 1e-3 * ns) / parts; }

    double bus(const char* way, BusOptions options, bool both = false) {
        const size_t bytes = std::max(options.to_device_bytes, options.to_host_bytes);
        options.seconds = next(fmt::format("{}, {} KiB", way, std::max<size_t>(bytes >> 10, 1)));
        const size_t rows = options.row_bytes != 0 ? bytes / options.row_bytes : 1;
        return keep(way, rows, bytes, both, 1e9 / std::max(measure_bus(*device_, options).pieces_per_second, 1e-3));
    }

    void copies() {
        std::vector<std::pair<double, double>> in, out;
        for (const size_t bytes : {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10, size_t{256} << 10,
                                   size_t{1} << 20, size_t{4} << 20, kLargest}) {
            BusOptions to, back;
            to.to_device_bytes = back.to_host_bytes = bytes;
            in.emplace_back(bytes, bus("copy-in", to));
            out.emplace_back(bytes, bus("copy-out", back));
        }
        const auto pace = [](const Line& line) { return Pace{line.start, 0, line.slope}; };
        figures_.copy_in = pace(fit_line(in));
        figures_.copy_out = pace(fit_line(out));
        BusOptions both;
        both.to_device_bytes = both.to_host_bytes = kLargest;
        figures_.copy_both = std::max(bus("copy-in", both, true) / std::max(in.back().second, out.back().second), 1.0);
        // What a call costs the CPU.
        figures_.call_ns = call_ns(next("calls"));
    }

    double call_ns(double seconds) {
        constexpr unsigned kAtOnce = 32;
        const device::StreamId stream = device_->create_stream();
        void* const host = device_->allocate_host(4096);
        const device::Address there = device_->allocate(4096, "the profile");
        double spent = 0, least = 0;
        while (spent < seconds * 1e9) {
            const auto begin = Clock::now();
            for (unsigned i = 0; i < kAtOnce; ++i)
                if (device_->copy_to_device(stream, there, host, 4096) != device::Status::ok)
                    throw device::DeviceError("a copy of the profile has failed");
            const double ns = ns_since(begin) / kAtOnce;
            least = least == 0 ? ns : std::min(least, ns);
            device::EventId event = 0;
            if (device_->record(stream, event) != device::Status::ok)
                throw device::DeviceError("a copy of the profile has failed");
            while (device_->query(event) == device::Status::pending) {
            }
            spent += ns_since(begin);
        }
        device_->free_host(host);
        device_->free(there);
        return least;
    }

    void rows() {
        BusOptions options;
        const auto measure = [&](size_t width, size_t count) {
            options.row_bytes = width;
            options.to_device_bytes = width * count;
            return bus("rows", options);
        };
        std::vector<std::pair<double, double>> runs;
        for (const size_t count : {size_t{16}, size_t{64}, size_t{256}, size_t{1024}, kPackets})
            runs.emplace_back(count, measure(64, count));
        const Line line = fit_line(runs);
        figures_.rows = {line.start, line.slope, 0};
        double ns = 0;
        for (const size_t width : {128, 256, 512, 1024, 2048}) ns = measure(width, kPackets);
        figures_.rows.byte_ns = rest(ns, line.start, 2048.0 * kPackets);
    }

    void gather_small(BatchProbe& probe) {
        std::vector<std::pair<double, double>> points;
        for (const size_t packets : {size_t{64}, size_t{512}, size_t{2048}, kPackets})
            points.emplace_back(packets, keep("gather", packets, packets * 64, false,
                                              probe.measure({.packets = packets, .present = 64, .gather = true},
                                                            next(fmt::format("gather, {} of 64 B", packets)))));
        const Line line = fit_line(points);
        figures_.gather = {line.start, line.slope, 0};
    }

    void gather_large(BatchProbe& probe) {
        double alone = 0, both = 0;
        for (const uint32_t bytes : {128u, 256u, 512u, 1024u, 1518u}) {
            BatchProbe::Shape shape{.packets = kPackets, .present = bytes, .gather = true};
            alone = keep("gather", kPackets, kPackets * bytes, false,
                         probe.measure(shape, next(fmt::format("gather, {} B", bytes))));
            shape.copy_back = kPackets * bytes;
            both = keep("gather", kPackets, kPackets * bytes, true,
                        probe.measure(shape, next(fmt::format("gather, {} B, and back", bytes))));
        }
        figures_.gather.byte_ns = rest(alone, figures_.gather.start_ns, 1518.0 * kPackets);
        figures_.gather_both = std::max(
            rest(both, figures_.gather.start_ns, 1) / rest(alone, figures_.gather.start_ns, 1), 1.0);
    }

    /// What a chain's kernel takes longer where it reads frames in the host's memory.
    double zero_copy(BatchProbe& probe, uint32_t present) {
        const std::string what = fmt::format("zero-copy, {} B", present);
        const double here = probe.measure({.packets = kPackets, .present = present, .nodes = true},
                                          next(what + ", kernel alone"));
        const double there = probe.measure({.packets = kPackets, .present = present, .in_place = true}, next(what));
        return keep("zero-copy", kPackets, kPackets * present, false, std::max(there - here, 1e-3 * there));
    }
    /// Reads take as long to begin as a gather's, which many under way at once hide here.
    void zero_copy_heads(BatchProbe& probe) {
        figures_.zero_copy = {figures_.gather.start_ns, zero_copy(probe, 64) / kPackets, 0};
    }
    void zero_copy_frames(BatchProbe& probe) {
        // How the NIDS reads decides more than how much: by what it takes at most.
        for (const uint32_t present : {512u, 1518u})
            figures_.zero_copy.byte_ns = std::max(zero_copy(probe, present) / (static_cast<double>(present) * kPackets),
                                                  figures_.zero_copy.byte_ns);
    }

    /// A kernel that puts heads into the host's memory.
    void heads_out(BatchProbe& probe) {
        const auto measure = [&](size_t packets, uint32_t heads) {
            const double seconds = next(fmt::format("heads-out, {} of {} B", packets, heads));
            return keep(
                "heads-out", packets, packets * heads, false,
                probe.measure({.packets = packets, .present = 64, .heads = heads, .heads_home = true}, seconds));
        };
        std::vector<std::pair<double, double>> points;
        for (const size_t packets : {size_t{64}, size_t{512}, size_t{2048}, kPackets})
            points.emplace_back(packets, measure(packets, 16));
        const Line line = fit_line(points);
        figures_.heads_out = {line.start, line.slope, 0};
        measure(kPackets, 32);
        figures_.heads_out.byte_ns = rest(measure(kPackets, 64), line.start, kPackets * 64.0);
    }

    /// Frames packed by the CPU; sets `into`, which one of `share` of a batch counts.
    void packing(BatchProbe& probe, uint32_t bytes, double& into, double share) {
        const double seconds = next(fmt::format("packing, {} B", bytes));
        double spent = 0, least = 0;
        for (unsigned turn = 0; spent < seconds * 1e9; ++turn) {
            // Each time other frames, that have left the nearest caches.
            const unsigned slot = turn % BatchProbe::kDepth;
            uint8_t* const to = probe.back(slot);
            const auto begin = Clock::now();
            for (size_t i = 0; i < kPackets; ++i) std::memcpy(to + i * bytes, probe.frame(slot, i), bytes);
            const double ns = ns_since(begin);
            spent += ns;
            least = least == 0 || turn == BatchProbe::kDepth ? ns : std::min(least, ns);
        }
        into = keep("pack", kPackets, kPackets * bytes, false, least) * share;
    }

    double fitted(const TransferSample& sample) const {
        const std::string& way = sample.way;
        Pace own = way == "copy-in"     ? figures_.copy_in
                   : way == "copy-out"  ? figures_.copy_out
                   : way == "rows"      ? figures_.rows
                   : way == "gather"    ? figures_.gather
                   : way == "zero-copy" ? figures_.zero_copy
                   : way == "heads-out" ? figures_.heads_out
                                        : figures_.pack;
        if (sample.both) own.byte_ns *= way == "gather" ? figures_.gather_both : figures_.copy_both;
        return own.ns(static_cast<double>(sample.items), static_cast<double>(sample.bytes));
    }

    const std::shared_ptr<device::Device> device_;
    const ProfileOptions options_;
    TransferFigures figures_;
    std::vector<TransferSample> samples_;
    unsigned measured_ = 0;
};

}  // namespace

TransferProfile measure_transfers(const std::shared_ptr<device::Device>& device, const ProfileOptions& options) {
    return Profiler(device, options).run();
}

}  // namespace millrace::lab
