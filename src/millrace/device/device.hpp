// What the executor needs of a device: memory of its own, streams, copies, launches, events.
//
// A device works behind the caller's back: calls on a stream return at once and run later, in order
// within the stream and in no order between streams, unless one waits for another's event. Addresses
// are the device's; the host must not follow them. Every call says by its status whether the device
// is still there; after `failed` or `lost` nothing more will come of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>

#include "millrace/base/device_names.hpp"
#include "millrace/chain/program.hpp"
#include "millrace/device/kernel/resident.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/schedule/plan.hpp"

namespace millrace::device {

/// An address in a device's memory; 0 is none.
using Address = uint64_t;
using StreamId = uint32_t;
using EventId = uint64_t;

enum class Status : uint8_t {
    ok,       ///< done, or taken on
    pending,  ///< an event has not come yet
    failed,   ///< a copy or kernel went wrong; the device can't be used any more
    lost,     ///< the device is gone
};

/// A device can't give what start-up needs (memory, a program that compiles).
class DeviceError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A piece of a copy between many places.
struct CopyPiece {
    void* host;
    Address device;
    uint32_t bytes;
};

/// State of an NF in the device's memory and the host's copy of it: the bytes that may change.
struct StateArray {
    Address address = 0;
    void* host = nullptr;
    uint64_t bytes = 0, whole_bytes = 0;
    std::weak_ptr<const void> owner;  ///< of the host's copy
};

/// A program with its tables in the device's memory. Freed with the last reference, which must not be
/// dropped while a batch of it is under way, and before the device itself goes.
class LoadedProgram {
public:
    virtual ~LoadedProgram() = default;
    const chain::Program& program() const { return *program_; }
    const std::vector<Step>& steps() const { return steps_; }
    const std::vector<StateArray>& states() const { return states_; }
    /// State that does not come back with batches.
    const std::vector<StateArray>& residents() const { return residents_; }

protected:
    LoadedProgram(std::shared_ptr<const chain::Program> program, std::vector<Step> steps)
        : program_(std::move(program)), steps_(std::move(steps)) {}
    void add_state(const nf::Image::Array& array, Address address) {
        if (array.resident)
            residents_.push_back({address, const_cast<void*>(array.data), array.bytes, array.bytes, array.owner});
        if (array.changing_bytes == 0) return;
        // Functions may have an array in common, of which each uses some.
        const auto known = std::ranges::find(states_, array.data, &StateArray::host);
        if (known != states_.end()) {
            known->bytes = std::max(known->bytes, array.changing_bytes);
            return;
        }
        if (states_.size() == kMaxStateArrays)
            throw DeviceError("chain '" + program_->name + "': its NFs have more than " +
                              std::to_string(kMaxStateArrays) + " arrays of state");
        states_.push_back({address, const_cast<void*>(array.data), array.changing_bytes, array.bytes, array.owner});
    }
    std::shared_ptr<const chain::Program> program_;
    std::vector<Step> steps_;
    std::vector<StateArray> states_, residents_;
};

/// What a task works on: `count` items in the device's memory, as words. How they lie is the task's business.
struct TaskBatch {
    const uint32_t* in = nullptr;
    uint32_t* out = nullptr;
    uint32_t count = 0;
};

/// A kernel beside those of chains: the same work on each item of an array, with tables of its own.
struct Task {
    std::string name;           ///< for messages
    std::string device_header;  ///< by include name, for the device's compiler
    std::string device_struct;  ///< with `run(const void* tables, const uint32_t* in, uint32_t* out, uint32_t count,
                                ///< uint32_t item, Lanes)`
    unsigned lanes = 1;         ///< of an item
    /// The same function for the host.
    void (*run)(const void* tables, const TaskBatch& batch, uint32_t item) = nullptr;
    unsigned in_words = 0, out_words = 0;  ///< of an item

    template <class Work, unsigned LaneCount>
    static void run_on_host(const void* tables, const TaskBatch& batch, uint32_t item) {
        Work::run(tables, batch.in, batch.out, batch.count, item, Lanes<LaneCount>{});
    }
};

/// A task with its tables in the device's memory. Freed with the last reference, as LoadedProgram.
class LoadedTask {
public:
    virtual ~LoadedTask() = default;
};

/// 4 GiB of a device's addresses, at a multiple of 4 GiB, that code of others can be fenced into: memory from `begin`
/// on, and a sink wherever it has none and in a guard on both sides. Freed with it, when nothing under way uses it any
/// more.
class Window {
public:
    static constexpr uint64_t kBytes = uint64_t{1} << 32;
    virtual ~Window() = default;
    Address begin() const { return begin_; }
    size_t bytes() const { return bytes_; }                ///< of memory, cleared when it was made
    uint32_t guard_bytes() const { return guard_bytes_; }  ///< of each guard

protected:
    Address begin_ = 0;
    size_t bytes_ = 0;
    uint32_t guard_bytes_ = 0;
};

/// A fenced function with the kernel that calls it (isolation::with_kernel), ready to launch. Freed with it, when
/// it runs no more.
class LoadedFenced {
public:
    virtual ~LoadedFenced() = default;
};
/// What it works on: addresses within its window.
struct FencedBatch {
    Address packets = 0;  ///< handles, one each `stride` bytes
    uint64_t stride = 0;
    Address tables = 0;
    Address decisions = 0;  ///< gets what the function said of each packet
    uint32_t count = 0;
};

/// Fenced functions of a chain's tenants, linked with the kernels that take packets through their windows, ready to
/// launch. Freed with it, when it runs no more.
class LoadedConfined {
public:
    virtual ~LoadedConfined() = default;
};

/// A kernel that stays on the device and runs all steps of a program's batches, in the order in which they are put on
/// its list. One thread at a time; ended by its destructor, which waits, but not for ever. Ends before the device does.
class Resident {
public:
    virtual ~Resident() = default;
    /// Puts a batch on the list, which must have a free place, and says its number there. The batch's memory must stay
    /// until it is done.
    virtual Status submit(const ResidentBatch& batch, uint64_t& number) = 0;
    /// ok when the batch is done, whose place is then free; pending, or what went wrong. To be asked in the order of
    /// the batches.
    virtual Status query(uint64_t number) = 0;
    /// Lets the kernel end as soon as it can, whatever is on the list. Does not wait.
    virtual void stop() = 0;
};

struct ConfinedWindows;
struct OrderGate;
class Turns;

class Device {
public:
    Device();
    virtual ~Device();
    virtual std::string describe() const = 0;
    /// The same for all devices that are built alike: "NVIDIA H200".
    virtual std::string model() const = 0;
    const std::shared_ptr<OrderGate>& order_gate() const { return order_gate_; }
    Turns& turns() { return *turns_; }
    /// ok, or what has become of it: then nothing can be loaded either.
    virtual Status state() const = 0;

    // --- at start ---
    /// Throws DeviceError when there is not that much; `what` is for the message.
    virtual Address allocate(size_t bytes, const std::string& what) = 0;
    virtual void free(Address address) = 0;
    /// Host memory that copies reach at full speed.
    virtual void* allocate_host(size_t bytes) = 0;
    virtual void free_host(void* memory) = 0;
    /// Lets copies reach memory of the host's own at full speed, and kernels read it. False where that can't be.
    virtual bool pin(void* memory, size_t bytes) = 0;
    virtual void unpin(void* memory) = 0;
    /// `timed`: its events know when they came, which costs a little.
    virtual StreamId create_stream(bool timed) = 0;
    StreamId create_stream() { return create_stream(false); }
    /// Makes ready what streams of so many multiprocessors need. Any thread; move_stream takes longer without it.
    virtual void prepare(schedule::SmRange) {}
    /// Of which sizes its partitions can be; those that there might be where it has none.
    virtual schedule::Gpu partitions() = 0;
    /// Whether streams get multiprocessors of their own; known once some were asked for.
    virtual bool has_partitions() const { return false; }
    /// Kernels that are put on the stream from now on run on these multiprocessors; a device that can't do so runs them
    /// on any. Nothing may be under way on the stream.
    virtual void move_stream(StreamId, schedule::SmRange) {}
    /// Brings a program's tables to the device and makes its steps ready to launch. Tables and state that an
    /// earlier generation has there already are shared. Any thread.
    virtual std::shared_ptr<LoadedProgram> load(std::shared_ptr<const chain::Program> program,
                                                std::vector<Step> steps) = 0;
    /// Starts a resident kernel for a program whose steps are resident, with `depth` places on its list. Throws
    /// DeviceError when the device has no room for one more. Any thread.
    virtual std::shared_ptr<Resident> start_resident(std::shared_ptr<LoadedProgram> program, unsigned depth) = 0;
    /// Brings an image's tables to the device and makes the task ready to launch. Any thread.
    virtual std::shared_ptr<LoadedTask> load(const Task& task, const nf::Image& image) = 0;

    // --- code of others, which is fenced; any thread ---
    /// What PTX is compiled for that runs here, such as "sm_90"; empty: this device runs no code of others.
    virtual std::string ptx_architecture() const { return {}; }
    /// Throws DeviceError when there is not that much memory, or no such addresses; `what` is for the message.
    virtual std::unique_ptr<Window> make_window(size_t bytes, const std::string& what);
    /// Throws DeviceError when the code is refused; `name` is for messages.
    virtual std::shared_ptr<LoadedFenced> load_fenced(const std::string& ptx, const std::string& name);
    /// The steps of `program` with functions of tenants (Step::Kind::confined), with those functions, in their order:
    /// isolation::as_function of each and its number. Throws DeviceError when the code is refused.
    virtual std::shared_ptr<LoadedConfined> load_confined(const chain::Program& program,
                                                          const std::vector<std::string>& functions);

    // --- while packets flow; any thread, one at a time per stream ---
    virtual Status copy_to_device(StreamId stream, Address to, const void* from, size_t bytes) = 0;
    virtual Status copy_to_host(StreamId stream, void* to, Address from, size_t bytes) = 0;
    /// `rows` rows of `width` bytes; pitches are the distances between rows, in bytes.
    virtual Status copy_rows_to_device(StreamId stream, Address to, size_t to_pitch, const void* from,
                                       size_t from_pitch, size_t width, size_t rows) = 0;
    virtual Status copy_rows_to_host(StreamId stream, void* to, size_t to_pitch, Address from, size_t from_pitch,
                                     size_t width, size_t rows) = 0;
    /// Runs step `step` of the program. The pointers in `batch` are device addresses, but for the sources.
    virtual Status launch(StreamId stream, const LoadedProgram& program, size_t step, const BatchView& batch) = 0;
    /// Runs a task; the pointers in `batch` are device addresses.
    virtual Status launch(StreamId stream, const LoadedTask& task, const TaskBatch& batch) = 0;
    /// Runs a fenced function.
    virtual Status launch_fenced(StreamId stream, const LoadedFenced& function, const FencedBatch& batch);
    /// Runs the step with functions of tenants that begins with stage `first`. The pointers in `batch` and `windows`
    /// are device addresses.
    virtual Status launch_confined(StreamId stream, const LoadedConfined& confined, uint16_t first,
                                   const BatchView& batch, const ConfinedWindows& windows);
    /// Sets `event` when all that was put on the stream so far is done.
    virtual Status record(StreamId stream, EventId& event) = 0;
    /// The same for an event that the host alone asks for, and often, and whose time nobody asks for: a device may tell
    /// of it by cheaper means.
    virtual Status announce(StreamId stream, EventId& event) { return record(stream, event); }
    /// What is put on the stream from now on comes after `event` of the device `of`: this one, or another of its kind.
    virtual Status wait(StreamId stream, Device& of, EventId event) = 0;
    /// ok when the event has come; pending, or what went wrong.
    virtual Status query(EventId event) = 0;
    /// When an event of a timed stream came, in ns of the host's steady clock; 0 where that can't be told. To be asked
    /// once of each event, in order within the stream, after a later one has come.
    virtual uint64_t time_ns(EventId event) = 0;

protected:
    /// With the gate of another device, which does this one's work.
    explicit Device(std::shared_ptr<OrderGate> gate);

private:
    const std::shared_ptr<OrderGate> order_gate_;
    const std::unique_ptr<Turns> turns_;
};

/// The steps that run a program: as few as its ordered NFs allow (`fused`), or one for each NF (`pipelined`), or those
/// of `fused`, run by a kernel that stays on the device (`persistent`).
enum class Mode { fused, pipelined, persistent };
inline constexpr Mode kModes[] = {Mode::fused, Mode::pipelined, Mode::persistent};
inline constexpr const char* kModeNames[] = {"fused", "pipelined", "persistent"};
inline const char* name_of(Mode mode) { return kModeNames[static_cast<int>(mode)]; }
struct StepOptions {
    Mode mode = Mode::fused;
    bool gather = false;        ///< kernels fetch the frames
    bool pack = false;          ///< only heads go back
    bool shared_state = false;  ///< several devices share the program's state
    bool timed = false;         ///< steps with nodes tell what each part of them takes
};
std::vector<Step> plan_steps(const chain::Program& program, const StepOptions& options);
/// The node of each of its sequences (Step::first_sequence): those with an order, and then those that change state in
/// none.
std::vector<uint16_t> sequences_of(const chain::Program& program);
/// What of a stage, whose function may be in parts (nf::Parts), a step of kind `nodes` runs: " (1 of 2)", or "".
const char* part_text(const Step& step, size_t stage);
/// A step for people: "firewall → nids", "numbering for ipsec".
std::string step_text(const chain::Program& program, const Step& step);

}  // namespace millrace::device
