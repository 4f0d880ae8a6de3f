// A tenant's device half on the manager's GPU: fenced into a window, with trusted kernels that bring packets before it
// and back.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "millrace/chain/tenants/parts.hpp"
#include "millrace/device/kernel/windows.hpp"
#include "millrace/device/owned_memory.hpp"
#include "millrace/isolation/kernel.hpp"
#include "millrace/isolation/rewrite.hpp"
#include "millrace/schedule/model.hpp"
#include "millrace/tenancy/exchange/exchange.hpp"
#include "millrace/tenancy/gpu/half.hpp"

namespace millrace::tenancy {

/// What a tenant's function may have of a GPU.
struct ConfinedTerms {
    Fields sees, changes;  ///< the latter among the former
    Shape shape;
    uint64_t memory_bytes = 0;  ///< of the window
    isolation::Isolation isolation = isolation::Isolation::fenced;
    uint32_t budget = isolation::RewriteOptions().budget;  ///< instructions for a packet
    /// Most packets of a batch of its chain in one piece (chain::Program::undivided); 0: it never is.
    uint32_t chain_packets = 0;
    friend bool operator==(const ConfinedTerms&, const ConfinedTerms&) = default;
};

/// Streams that somebody has used, for whoever comes next: a device never takes one back. Any thread.
class Streams {
public:
    explicit Streams(device::Device& device) : device_(device) {}

    /// One that is its owner's alone, which leaves it idle.
    class Lent {
    public:
        explicit Lent(Streams& from) : from_(from), id_(from.take()) {}
        ~Lent() { from_.give(id_); }
        Lent(const Lent&) = delete;
        Lent& operator=(const Lent&) = delete;
        device::StreamId id() const { return id_; }

    private:
        Streams& from_;
        const device::StreamId id_;
    };

private:
    device::StreamId take();
    void give(device::StreamId stream);

    device::Device& device_;
    std::mutex mutex_;
    std::vector<device::StreamId> free_;
};

/// The kernels on both sides, the same for all tenants. Any thread.
struct TrustedKernels {
    /// Throws DeviceError.
    explicit TrustedKernels(device::Device& device);
    std::shared_ptr<device::LoadedTask> copy, enter, leave;
};

class ConfinedFunction;

/// One worker's way through a function for batches of a chain in one piece: packets come from the batch's memory and go
/// back there, on the device. Whoever has a batch under way keeps the function.
class ConfinedPass {
public:
    /// Batches that may be there at a time.
    static constexpr unsigned kPlaces = chain::kMaxUndividedDepth;
    /// `begin`: of its room in the window, for so many packets in each place. Throws std::runtime_error.
    ConfinedPass(ConfinedFunction& function, device::Address begin, uint32_t packets);
    ConfinedPass(const ConfinedPass&) = delete;
    ConfinedPass& operator=(const ConfinedPass&) = delete;

    /// Where the device has a batch in such a place.
    device::ConfinedPlace* place(unsigned place) const;
    /// Packets that it has room for.
    uint32_t packets() const { return packets_; }

private:
    const uint32_t packets_;
    const device::DeviceMemory memory_;
};

/// One worker's batches of it, as Exchange is one worker's for a process. One thread.
class ConfinedLane {
public:
    ConfinedLane(ConfinedFunction& function, uint32_t number);
    ConfinedLane(const ConfinedLane&) = delete;
    ConfinedLane& operator=(const ConfinedLane&) = delete;

    /// As Exchange::ask. `packets` must fit: ConfinedFunction::takes.
    bool ask(std::span<const Shown> packets, uint64_t id);
    /// The same in two steps: what is shown has its place, and goes to the device with an argument for each packet.
    /// Batches go in the order in which they were prepared.
    bool prepare(std::span<const Shown> packets, uint64_t id);
    void start(std::span<const uint32_t> arguments);
    /// Whether a batch can be asked about now, on that share of the GPU: one that was given up may still have its
    /// place, and a lane goes over to another share when nothing of it runs.
    bool has_room(const schedule::GpuShare& share = {});
    /// As Exchange::take; `lost` where the device is gone. Of a function with a stage after the device half
    /// `taken.back` is what that one sees, Shape::in_bytes from one packet to the next, and `decisions`, which must
    /// have room for kMaxPackets, get what the device half has decided.
    enum class Reply { none, good, wrong, lost };
    Reply take(Exchange::Taken& taken, Decision* decisions = nullptr);
    /// As Exchange::give_up. The batch's kernels may still run; its slot is free once they have ended.
    uint64_t give_up();
    size_t waiting() const { return asked_.size(); }
    size_t started() const { return started_; }  ///< of those that wait
    /// Nothing of it runs on the device.
    bool idle();
    /// As those of ConfinedFunction.
    uint32_t batch_packets() const;
    bool takes(uint32_t extent) const;

private:
    struct Asked {
        uint32_t slot = 0;
        uint64_t id = 0;
        uint32_t count = 0;
    };
    /// A place for a batch.
    struct Slot {
        device::DeviceMemory question, answer;
        device::HostArray<uint8_t> host_question, host_answer;
        device::Address handles = 0, decisions = 0;
        device::EventId event = 0;
        bool runs = false;
        std::array<uint16_t, kMaxPackets> back_bytes{};
    };
    void write(Slot& slot, std::span<const Shown> packets) const;
    device::Status copy(void* to, const void* from, size_t bytes);
    /// `kernels`: or only the question and the answer.
    device::Status put(Slot& slot, uint32_t count, bool kernels = true);
    device::Status launch(Slot& slot, uint32_t count);
    friend class ConfinedFunction;
    /// Whether the device is done with it.
    device::Status state(Slot& slot);

    ConfinedFunction& function_;
    const Streams::Lent stream_;
    std::array<Slot, kSlots> slots_;
    uint32_t next_slot_ = 0;
    Waiting<Asked> asked_;
    size_t started_ = 0;        // of them, from the oldest one on
    schedule::GpuShare share_;  // that the stream is on
};

/// One tenant's function, in a window of its own, with a lane for each worker. Must not end before its lanes are idle,
/// nor after the device.
class ConfinedFunction {
public:
    /// Verifies and fences the function, makes its window, and brings its tables there. Takes as long as its PTX takes
    /// to assemble. Throws ConfigError with all that is refused, by line, or std::runtime_error.
    ConfinedFunction(device::Device& device, Streams& streams, const TrustedKernels& kernels, const DeviceHalf& half,
                     const ConfinedTerms& terms, const std::string& name);

    /// Most packets of a batch.
    uint32_t batch_packets() const { return packets_; }
    /// Whether there is room for so much of a frame's front.
    bool takes(uint32_t extent) const { return extent <= frame_room_; }
    ConfinedLane& lane(uint32_t number) { return *lanes_[number]; }
    /// Whether batches of its chain in one piece can go through it.
    bool has_passes() const { return !passes_.empty(); }
    const ConfinedPass& pass(uint32_t number) const { return *passes_[number]; }
    bool idle();
    /// What its batches take of the GPU, of packets that are made up; for some 10 ms. Nobody may ask it meanwhile.
    void measure();
    /// In place of what measure() finds.
    void take_model(const schedule::Model& model) { model_ = model; }
    /// Without points: it was not measured.
    const schedule::Model& model() const { return model_; }
    /// What measure() found last: batches of one packet, of some, and of all that there is room for, on all
    /// multiprocessors; then on the least partition.
    const std::vector<schedule::ProfilePoint>& points() const { return points_; }
    /// To be linked with others of its chain, as the `number`th.
    std::string linkable(unsigned number) const { return isolation::as_function(fenced_, number); }

    const ConfinedTerms& terms() const { return terms_; }
    const nf::CpuStages& stages() const { return stages_; }
    isolation::Isolation isolation() const { return terms_.isolation; }
    size_t instructions() const { return instructions_; }  ///< of its PTX
    size_t added() const { return added_; }                ///< to them by the fence

private:
    friend class ConfinedLane;
    friend class ConfinedPass;
    void plan(const DeviceHalf& half);
    void plan_passes(uint64_t left);
    void place(const DeviceHalf& half);
    void bring(device::Address to, const void* from, size_t bytes);
    uint64_t slot_bytes() const;
    uint64_t pass_bytes() const;   ///< of all places of a worker
    uint64_t place_bytes() const;  ///< of each

    device::Device& device_;
    Streams& streams_;
    const TrustedKernels& kernels_;
    const ConfinedTerms terms_;
    const std::vector<uint8_t> to_terms_;
    const nf::CpuStages stages_;
    const Fields comes_back_;          // from the window: what it may change, or all that a stage behind it sees
    const uint32_t comes_back_bytes_;  // at most
    uint32_t packets_ = 0, frame_room_ = 0, stride_ = 0, question_stride_ = 0, answer_stride_ = 0;
    uint32_t pass_packets_ = 0, pass_room_ = 0, pass_stride_ = 0;
    uint64_t image_bytes_ = 0;
    size_t instructions_ = 0, added_ = 0;
    std::unique_ptr<device::Window> window_;
    device::Address tables_ = 0;
    isolation::FencedText fenced_;
    std::shared_ptr<device::LoadedFenced> code_;
    schedule::Model model_;
    std::vector<schedule::ProfilePoint> points_;
    std::vector<std::unique_ptr<ConfinedLane>> lanes_;
    std::vector<std::unique_ptr<ConfinedPass>> passes_;
};

inline uint32_t ConfinedLane::batch_packets() const { return function_.batch_packets(); }
inline bool ConfinedLane::takes(uint32_t extent) const { return function_.takes(extent); }

}  // namespace millrace::tenancy
