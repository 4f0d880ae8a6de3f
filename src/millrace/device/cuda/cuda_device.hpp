// An NVIDIA GPU, through the CUDA driver (loaded at run time).
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "millrace/device/cuda/compile/assembler.hpp"
#include "millrace/device/cuda/compile/kernel_store.hpp"
#include "millrace/device/cuda/driver.hpp"
#include "millrace/device/cuda/partitions.hpp"
#include "millrace/device/cuda/resident.hpp"
#include "millrace/device/device.hpp"

namespace millrace::device::cuda {

struct CudaOptions {
    int ordinal = 0;  ///< among the GPUs that the driver shows (CUDA_VISIBLE_DEVICES)
    KernelStoreOptions kernels;
};

class CudaDevice : public Device {
public:
    /// Throws DeviceError when there is no driver, no such GPU, or one that is too old.
    explicit CudaDevice(CudaOptions options = {});
    ~CudaDevice() override;
    /// How many GPUs there are; 0, and why, where there are none.
    static int count(std::string* why = nullptr);
    /// What model() will say of one that is not open; empty where there is none.
    static std::string model_of(unsigned ordinal);
    static unsigned multiprocessors_of(unsigned ordinal);

    std::string describe() const override;
    Status state() const override { return state_; }
    std::string model() const override { return name_; }
    Address allocate(size_t bytes, const std::string& what) override;
    void free(Address address) override;
    void* allocate_host(size_t bytes) override;
    void free_host(void* memory) override;
    bool pin(void* memory, size_t bytes) override;
    void unpin(void* memory) override;
    StreamId create_stream(bool timed) override;
    void prepare(schedule::SmRange sms) override;
    schedule::Gpu partitions() override;
    bool has_partitions() const override { return !lacks_partitions_; }
    void move_stream(StreamId stream, schedule::SmRange sms) override;
    std::shared_ptr<LoadedProgram> load(std::shared_ptr<const chain::Program> program,
                                        std::vector<Step> steps) override;
    std::shared_ptr<Resident> start_resident(std::shared_ptr<LoadedProgram> program, unsigned depth) override;
    std::shared_ptr<LoadedTask> load(const Task& task, const nf::Image& image) override;
    std::string ptx_architecture() const override { return architecture_; }
    std::unique_ptr<Window> make_window(size_t bytes, const std::string& what) override;
    std::shared_ptr<LoadedFenced> load_fenced(const std::string& ptx, const std::string& name) override;
    std::shared_ptr<LoadedConfined> load_confined(const chain::Program& program,
                                                  const std::vector<std::string>& functions) override;
    Status copy_to_device(StreamId stream, Address to, const void* from, size_t bytes) override;
    Status copy_to_host(StreamId stream, void* to, Address from, size_t bytes) override;
    Status copy_rows_to_device(StreamId stream, Address to, size_t to_pitch, const void* from, size_t from_pitch,
                               size_t width, size_t rows) override;
    Status copy_rows_to_host(StreamId stream, void* to, size_t to_pitch, Address from, size_t from_pitch, size_t width,
                             size_t rows) override;
    Status launch(StreamId stream, const LoadedProgram& program, size_t step, const BatchView& batch) override;
    Status launch(StreamId stream, const LoadedTask& task, const TaskBatch& batch) override;
    Status launch_fenced(StreamId stream, const LoadedFenced& function, const FencedBatch& batch) override;
    Status launch_confined(StreamId stream, const LoadedConfined& confined, uint16_t first, const BatchView& batch,
                           const ConfinedWindows& windows) override;
    Status record(StreamId stream, EventId& event) override;
    Status announce(StreamId stream, EventId& event) override;
    Status wait(StreamId stream, Device& of, EventId event) override;
    Status query(EventId event) override;
    uint64_t time_ns(EventId event) override;

    /// "sm_90".
    const std::string& architecture() const { return architecture_; }
    /// "00000000:17:00.0", as NVML has it; empty: unknown.
    std::string bus_id() const;

protected:
    /// The calls of the driver that put something on a stream: all that batches ask for goes by these.
    virtual Result put_copy_in(StreamId stream, DevicePointer to, const void* from, size_t bytes);
    virtual Result put_copy_out(StreamId stream, void* to, DevicePointer from, size_t bytes);
    virtual Result put_rows(StreamId stream, const Copy2D& rows);
    /// A kernel of a chain; its parameters are `view`, which is not there any more when this returns, and what lies at
    /// `tables`, which is, as long as the kernel may run.
    virtual Result put_kernel(StreamId stream, const KernelCall& kernel, BatchView& view, void* tables);
    virtual Result put_record(StreamId stream, DriverEvent event);
    /// The stream writes `value` to a word of the host's memory.
    virtual Result put_word(StreamId stream, DevicePointer word, uint32_t value);
    /// `foreign`: the event is another device's.
    virtual Result put_wait(StreamId stream, DriverEvent event, bool foreign);
    const Driver& driver() const { return driver_; }
    Context context() const { return context_; }
    Stream driver_stream(StreamId stream) const { return streams_[stream]->stream; }
    /// The driver's calls of this thread go to this GPU.
    void enter() const;
    /// Bytes of tables and states that it has taken in.
    uint64_t table_bytes();

private:
    friend class ResidentKernels;
    class LoadedImage;
    class StageTables;
    class Loaded;
    class TaskLoaded;
    class FencedLoaded;
    class ConfinedLoaded;
    class MappedWindow;
    struct LoadedModule;
    /// Those of a source: one for each of ChainSource::cubins.
    using LoadedModules = std::vector<std::unique_ptr<LoadedModule>>;
    /// A stream and its latest events. An event that has been recorded over stands for a later one, so that
    /// waiting for it takes longer but is right.
    struct StreamState {
        static constexpr uint64_t kEvents = 64;  // more than a batch of the most steps records
        Stream stream = nullptr;
        uint32_t multiprocessors = 0;  ///< that its kernels run on
        std::array<DriverEvent, kEvents> events{};
        uint64_t next = 0;
        uint32_t* word = nullptr;  ///< in host memory: one more than the number of the latest event that the stream has
                                   ///< written there
        std::array<bool, kEvents> by_word{};  ///< whether an event is told of like that
        static constexpr uint64_t kLaunches = 32;
        std::array<std::atomic<const std::string*>, kLaunches> launched{};  ///< the latest, and how many before each
                                                                            ///< event
        std::array<uint64_t, kEvents> launches_before{};
        std::atomic<uint64_t> launches{0};
        std::atomic<uint64_t> launches_done{0};  ///< that an event has told of
        void launching(const std::string& name) { launched[launches++ % kLaunches] = &name; }
        DriverEvent anchor = nullptr;  ///< of a timed stream: what times are told from, and when it came
        uint64_t anchor_ns = 0;
        uint64_t asked_ns = 0;  ///< when an event was last found not to have come
    };
    struct SharedArray {
        Address address = 0;
        unsigned users = 0;
        size_t room = 0;
        uint64_t revision = 0;  ///< nf::Revision::now of its contents; 0: nothing is known of them
    };
    /// Memory of tables that are used no more, for those of later generations: the driver frees nothing without waiting
    /// for all that is under way.
    struct Spare {
        Address address = 0;
        size_t room = 0;
        const void* data = nullptr;  ///< of the array that it had
        uint64_t revision = 0;
    };
    static constexpr size_t kMaxSpares = 64;
    /// More pieces than that are not copied one by one, nor more than half of an array.
    static constexpr size_t kMaxPieces = 8192;
    static constexpr size_t kMaxStreams = 4096;
    static constexpr size_t kWordLine = 16;  ///< words of a cache line

    Status check(Result result, const char* what, StreamId stream);
    /// Lets kernels that wait for others end, whatever comes of their batches.
    void end_waiting_kernels() { std::atomic_ref(words_[kMaxStreams * kWordLine]).store(1, std::memory_order_release); }
    /// Warns once where there are no such partitions; whether there are.
    bool partitioned(Result result, schedule::SmRange sms);
    Status copy_rows(StreamId stream, const Copy2D& rows, const char* what);
    DriverEvent driver_event(EventId event) const;
    static EventId event_id(StreamId stream, uint64_t number);
    Status query_word(EventId event);
    Result make_anchor(StreamState& state) const;
    std::vector<std::shared_ptr<LoadedModules>> modules_of(const std::vector<const ChainSource*>& sources);
    std::unique_ptr<LoadedModule> load_module(const std::string& cubin, const std::string& name);
    /// A kernel of a module, with memory of its threads' own set aside. `what`: whose it is, for the message.
    Function function_of(const LoadedModule& module, const std::string& kernel, const std::string& what);
    Address share_array(const nf::Image::Array& array);
    /// Room for an array, a spare one or new.
    Spare take_room(const nf::Image::Array& array);
    /// The spare one that has what this array's memory had before, where little has changed since.
    std::optional<Spare> take_former(const nf::Image::Array& array);
    Result bring_array(const nf::Image::Array& array, Address to, bool changes_only);
    void release_array(const void* data);

    const Driver& driver_;
    const CudaOptions options_;
    std::string name_, architecture_;
    size_t memory_bytes_ = 0;
    int multiprocessors_ = 0;
    DeviceOrdinal device_ = 0;
    Context context_ = nullptr;
    KernelStore kernels_;
    Partitions partitions_{driver_};
    std::atomic<bool> lacks_partitions_{false};  ///< and has said so
    Assembler assembler_;
    std::atomic<Status> state_{Status::ok};
    ResidentKernels resident_{*this, driver_};
    std::recursive_mutex mutex_;  // of all below, before that of resident kernels; not taken while packets flow; a
                                  // program may end while another loads
    std::array<std::unique_ptr<StreamState>, kMaxStreams> streams_;
    size_t stream_count_ = 0;
    uint32_t* words_ = nullptr;  // of the streams, each in a cache line of its own; behind them BatchView::given_up
    Address sequencer_ = 0;
    size_t local_bytes_ = 0;                ///< that are set aside for each thread
    std::atomic<bool> writes_words_{true};  // whether streams can
    std::map<const void*, SharedArray> arrays_;
    std::vector<Spare> spares_;  // the longest unused first
    uint64_t table_bytes_ = 0;
    std::map<std::string, std::weak_ptr<LoadedModules>> modules_;
    std::vector<std::weak_ptr<Loaded>> loaded_;
    std::set<std::string> launch_names_;
};

}  // namespace millrace::device::cuda
