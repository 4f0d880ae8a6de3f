// How fast a device looks headers up: alone, over the bus, and within a bound on the delay.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lab/lookup/lookup_set.hpp"

namespace millrace::lab {

struct LookupOptions {
    uint32_t batch = 1 << 17;  ///< keys of one launch
    uint32_t batches = 32;     ///< different ones, so that no cache holds all keys
    unsigned streams = 4;      ///< batches under way
    double seconds = 0.05;     ///< for each figure
};

/// The keys of a set on the device and in pinned memory, as lookups take them, and room for what comes back.
class LookupRun {
public:
    /// Throws DeviceError. `set` must outlive it.
    /// Streams are taken from `streams`, which grows where there are too few: a device keeps those it has made.
    LookupRun(device::Device& device, const LookupSet& set, const LookupOptions& options,
              std::vector<device::StreamId>& streams);
    ~LookupRun();
    LookupRun(const LookupRun&) = delete;
    LookupRun& operator=(const LookupRun&) = delete;

    /// Keys of one launch.
    uint32_t batch() const { return options_.batch; }
    /// Keys a second that are on the device already; results stay there.
    double kernel_rate(const device::LoadedTask& task);
    /// Keys a second that come over the bus and whose rules go back. `between`, if any, is called between batches and
    /// may return another task for those that follow.
    using Between = std::function<const device::LoadedTask*()>;
    double bus_rate(const device::LoadedTask& task, const Between& between = {});

    /// Batches that come at a fixed pace, over the bus, the oldest packet having waited for its batch to fill.
    struct Paced {
        double rate = 0;                                ///< keys a second that were done
        double p50_us = 0, p99_us = 0, highest_us = 0;  ///< from the first packet of a batch to the batch's results
    };
    Paced paced(const device::LoadedTask& task, double keys_per_second, const Between& between = {});

    /// Rules of the first `count` headers, as the device finds them.
    std::vector<uint32_t> rules(const device::LoadedTask& task, size_t count);

private:
    struct Slot;
    void submit(const device::LoadedTask& task, Slot& slot, uint64_t batch, bool over_the_bus);
    bool done(Slot& slot);
    double run(const device::LoadedTask& task, bool over_the_bus, const Between& between);

    device::Device& device_;
    const LookupOptions options_;
    size_t words_, headers_;
    uint32_t* keys_ = nullptr;  // pinned: batches one behind the other
    device::Address device_keys_ = 0;
    std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace millrace::lab
