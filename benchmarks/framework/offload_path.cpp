#include "offload_path.hpp"

#include <fmt/format.h>
#include <rte_cycles.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include "lab/measure.hpp"

namespace millrace::lab {
namespace {

using device::Address;
using device::Status;

class Loaded : public device::LoadedProgram {
public:
    Loaded(std::shared_ptr<const chain::Program> program, std::vector<device::Step> steps)
        : LoadedProgram(std::move(program), std::move(steps)) {}
};

/// Does nothing but say that each packet goes on as it came. A batch is back when as many as shall be in flight have
/// followed it.
class IdleDevice : public device::Device {
public:
    static constexpr unsigned kDepth = 4;  ///< batches in flight
    std::string describe() const override { return "a device that does nothing"; }
    Status state() const override { return Status::ok; }
    std::string model() const override { return "none"; }
    Address allocate(size_t bytes, const std::string&) override {
        return reinterpret_cast<Address>(std::calloc(1, bytes));
    }
    void free(Address address) override { std::free(reinterpret_cast<void*>(address)); }
    void* allocate_host(size_t bytes) override { return std::calloc(1, bytes); }
    void free_host(void* memory) override { std::free(memory); }
    bool pin(void*, size_t) override { return true; }
    void unpin(void*) override {}
    schedule::Gpu partitions() override { return schedule::partitions_of(0); }
    device::StreamId create_stream(bool) override { return streams_++; }
    std::shared_ptr<device::LoadedProgram> load(std::shared_ptr<const chain::Program> program,
                                                std::vector<device::Step> steps) override {
        return std::make_shared<Loaded>(std::move(program), std::move(steps));
    }
    std::shared_ptr<device::Resident> start_resident(std::shared_ptr<device::LoadedProgram>, unsigned) override {
        return nullptr;
    }
    std::shared_ptr<device::LoadedTask> load(const device::Task&, const nf::Image&) override { return nullptr; }
    Status copy_to_device(device::StreamId stream, Address, const void* from, size_t) override {
        Batch& batch = batches_[stream];
        if (batch.descriptors == nullptr)
            batch.descriptors = static_cast<const device::FrameDescriptor*>(from);  // they come before frames
        return Status::ok;
    }
    Status copy_to_host(device::StreamId stream, void* to, Address from, size_t) override {
        Batch& batch = batches_[stream];
        const auto place = [&](const void* address) {
            return static_cast<uint8_t*>(to) + (reinterpret_cast<Address>(address) - from);
        };
        std::memset(to, 0,
                    reinterpret_cast<const uint8_t*>(batch.view.outcome_counts + device::kMaxOutcomes) -
                        reinterpret_cast<const uint8_t*>(from));
        auto* results = reinterpret_cast<device::PacketResult*>(place(batch.view.results));
        for (uint32_t i = 0; i < batch.view.count; ++i)
            results[i] = {batch.descriptors[i].offset, batch.descriptors[i].length, kNoPort, 0, 0};
        batch.descriptors = nullptr;
        return Status::ok;
    }
    Status copy_rows_to_device(device::StreamId, Address, size_t, const void*, size_t, size_t, size_t) override {
        return Status::ok;
    }
    Status copy_rows_to_host(device::StreamId, void*, size_t, Address, size_t, size_t, size_t) override {
        return Status::ok;
    }
    Status launch(device::StreamId stream, const device::LoadedProgram&, size_t,
                  const device::BatchView& batch) override {
        batches_[stream].view = batch;
        return Status::ok;
    }
    Status launch(device::StreamId, const device::LoadedTask&, const device::TaskBatch&) override { return Status::ok; }
    Status record(device::StreamId stream, device::EventId& event) override {
        Worker& worker = workers_[stream / kDepth];
        event = (device::EventId{stream} << 32) + ++worker.recorded;
        worker.asked = 0;
        return Status::ok;
    }
    Status wait(device::StreamId, Device&, device::EventId) override { return Status::ok; }
    Status query(device::EventId event) override {
        constexpr uint32_t kPatience = 100000;  // where no batch follows
        Worker& worker = workers_[(event >> 32) / kDepth];
        return static_cast<uint32_t>(event) + kDepth <= worker.recorded + 1 || ++worker.asked > kPatience
                   ? Status::ok
                   : Status::pending;
    }
    uint64_t time_ns(device::EventId) override { return 0; }

private:
    static constexpr unsigned kMaxWorkers = 64;
    struct Batch {
        const device::FrameDescriptor* descriptors = nullptr;
        device::BatchView view;
    };
    struct alignas(128) Worker {
        uint32_t recorded = 0, asked = 0;
    };
    Batch batches_[kMaxWorkers * kDepth];
    Worker workers_[kMaxWorkers];
    std::atomic<device::StreamId> streams_ = 0;
};

}  // namespace

double measure_offload_path(const OffloadPath& path) {
    const auto configuration = chain::parse_configuration(
        fmt::format("version: 1\ndevice: sim\nports:\n  in: {{source: {{}}}}\n  out: {{sink: {{}}}}\nchains:\n  "
                    "chain:\n    input: in\n    output: out\n"
                    "    max-batch: {}\n    max-delay: 1s\n    nfs:\n      - mirror: {{}}\n",
                    path.batch_packets),
        "benchmark.yaml");
    RunOptions options;
    options.workers = path.workers;
    for (unsigned worker = 0; worker < path.workers; ++worker) options.cores.push_back(worker);
    options.whole_frames = true;
    options.offload.pinned = true;
    options.offload.depth = IdleDevice::kDepth;
    options.devices = {std::make_shared<IdleDevice>()};
    options.buffers = path.buffers;
    options.sources = {.restore = io::Restore::nothing, .contiguous = path.contiguous};
    Run run(configuration, bench_ports(configuration, fmt::format("{{size: {}}}", path.size), "{}", options), options);
    run.start();
    const uint64_t packets = run.counts().received_packets;
    const std::clock_t begin = std::clock();
    run.sleep(path.seconds);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const double cycles = seconds * static_cast<double>(rte_get_tsc_hz()) /
                          static_cast<double>(run.counts().received_packets - packets);
    if (const Ending ending = run.finish(); !ending.conserved || !ending.trouble.empty())
        throw std::runtime_error("packets are lost: " + ending.trouble);
    return cycles;
}

}  // namespace millrace::lab
