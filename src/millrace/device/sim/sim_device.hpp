// A simulated GPU: memory of its own, copies that really copy, kernels that run the device halves.
//
// Its addresses can't be followed by the host (they are outside of the canonical range), its memory
// starts out poisoned, streams run in an order of the seed's choosing, and faults can be injected.
// So the whole path of a GPU runs, and goes wrong where a GPU's would, without one.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/sim/kernels.hpp"
#include "millrace/device/sim/poisoned_memory.hpp"

namespace millrace::device::sim {

/// What shall go wrong, and after how many operations (copies and launches) of the device.
struct Fault {
    enum class Kind { copy_fails, kernel_fails, device_lost, slow };
    Kind kind = Kind::device_lost;
    uint64_t after_operations = 0;
    uint64_t slow_polls = 1000;  ///< `slow`: how many polls the operation stays unfinished
};

struct SimOptions {
    unsigned number = 0;  ///< sim:0, sim:1, …
    size_t memory_bytes = size_t{2} << 30;
    uint32_t seed = 1;
    /// How many polls pass, at most, before an operation is carried out: 0 runs it at the first look.
    unsigned lag = 3;
    std::vector<Fault> faults;
    sim::PacketWatch watch = {};  ///< called by the thread that runs the kernels
};

class SimDevice : public Device {
public:
    explicit SimDevice(SimOptions options = {});
    ~SimDevice() override;

    std::string describe() const override;
    Status state() const override;
    static constexpr const char* kModel = "simulated GPU";
    static constexpr unsigned kMultiprocessors = 64;  ///< that it acts; it takes no longer with fewer
    std::string model() const override { return kModel; }
    Address allocate(size_t bytes, const std::string& what) override;
    void free(Address address) override;
    void* allocate_host(size_t bytes) override;
    void free_host(void* memory) override;
    bool pin(void*, size_t) override { return true; }
    void unpin(void*) override {}
    StreamId create_stream(bool timed) override;
    schedule::Gpu partitions() override { return schedule::partitions_of(kMultiprocessors); }
    bool has_partitions() const override { return true; }
    void move_stream(StreamId stream, schedule::SmRange sms) override;
    std::shared_ptr<LoadedProgram> load(std::shared_ptr<const chain::Program> program,
                                        std::vector<Step> steps) override;
    std::shared_ptr<Resident> start_resident(std::shared_ptr<LoadedProgram> program, unsigned depth) override;
    std::shared_ptr<LoadedTask> load(const Task& task, const nf::Image& image) override;
    Status copy_to_device(StreamId stream, Address to, const void* from, size_t bytes) override;
    Status copy_to_host(StreamId stream, void* to, Address from, size_t bytes) override;
    Status copy_rows_to_device(StreamId stream, Address to, size_t to_pitch, const void* from, size_t from_pitch,
                               size_t width, size_t rows) override;
    Status copy_rows_to_host(StreamId stream, void* to, size_t to_pitch, Address from, size_t from_pitch, size_t width,
                             size_t rows) override;
    Status launch(StreamId stream, const LoadedProgram& program, size_t step, const BatchView& batch) override;
    Status launch(StreamId stream, const LoadedTask& task, const TaskBatch& batch) override;
    Status record(StreamId stream, EventId& event) override;
    Status wait(StreamId stream, Device& of, EventId event) override;
    Status query(EventId event) override;
    uint64_t time_ns(EventId event) override;

    /// Adds a fault while it runs.
    void inject(const Fault& fault);
    /// The packets of all batches that its kernels have begun with.
    uint64_t packets() const;
    /// Of these, those on streams of so many multiprocessors.
    uint64_t packets_on(schedule::SmRange sms) const;
    /// Bytes of tables and states that it has taken in.
    uint64_t table_bytes() const;

    /// All simulated devices of this process: for proofs that a test notices when its device fails.
    struct All {
        std::vector<Fault> faults;               ///< of each that is made without faults of its own; slow ones may be
        std::atomic<uint64_t> kernels{0};        ///< that were to run on devices that `faults` are for
        std::atomic<uint64_t> faults_struck{0};  ///< those of `faults`
    };
    static All& all();

private:
    class Loaded;
    class LoadedImage;
    class TaskLoaded;
    class ResidentTeams;
    struct Operation {
        enum class Kind { copy, kernel, record, wait, await_sequence } kind;
        std::function<bool()> run;  ///< false: a bad address
        EventId event = 0;
        std::shared_ptr<std::atomic<bool>> awaited = nullptr;  ///< of `wait`
        std::vector<SequencePoint> after = {};                 ///< of `await_sequence`: what must be through
    };
    struct SharedArray {
        Address address = 0;
        std::weak_ptr<const void> owner;
        unsigned users = 0;
        uint64_t revision = 0;  ///< nf::Revision::now of its contents; 0: nothing is known of them
    };
    /// Memory of a table that is used no more, and may come back with other contents.
    struct Kept {
        const void* data;
        Address address;
        size_t room;
        uint64_t revision;
    };
    static constexpr size_t kMaxKept = 16;

    Status put(StreamId stream, Operation operation);
    /// Carries out what is due; called with the mutex held.
    void advance();
    bool step(StreamId stream);
    bool goes_wrong(Operation::Kind kind);
    bool run(const LoadedProgram& program, size_t step, const BatchView& batch);
    /// The host's pointer to device memory [address, address + bytes), null when that is not allocated.
    uint8_t* memory(Address address, size_t bytes);
    Address allocate_locked(size_t bytes, const std::string& what, std::span<const uint8_t> content = {});
    void free_locked(Address address);
    Address share_array(const nf::Image::Array& array);
    std::optional<Kept> take_kept(const nf::Image::Array& array);
    void release_array(const void* data);
    bool copy(void* host, Address address, size_t bytes, bool to_device);

    const SimOptions options_;
    const bool breaks_down_;  // whether a test has asked for faults that end it, or keep it from ever answering
    mutable std::mutex mutex_;
    std::mt19937 random_;
    std::map<Address, PoisonedMemory> allocations_;
    size_t allocated_bytes_ = 0;
    Address next_address_;
    std::map<const void*, SharedArray> arrays_;
    std::deque<Kept> kept_;  // the longest unused first
    uint64_t table_bytes_ = 0;
    std::vector<std::deque<Operation>> streams_;
    EventId next_event_ = 1;
    std::map<uint32_t, uint64_t> sequences_done_;                   // as Sequencer has them, by place
    std::map<EventId, std::shared_ptr<std::atomic<bool>>> events_;  // whether they have come
    std::vector<bool> timed_;                                       // by stream
    std::map<EventId, uint64_t> times_;                             // of events of timed streams
    std::vector<Fault> faults_;
    uint64_t operations_ = 0;
    uint64_t packets_ = 0;
    std::vector<schedule::SmRange> sms_;                            // by stream
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> packets_on_;  // by first and count of these
    uint64_t stalled_polls_ = 0;
    Status state_ = Status::ok;
};

}  // namespace millrace::device::sim
