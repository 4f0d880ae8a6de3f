// What a stream is given to do for one batch, put to the driver all at once: as a CUDA graph.
//
// A call to the driver takes some 2 us of a core; a batch takes nine of them. A graph of the same calls takes a launch
// and new parameters for its nodes. What that is worth: docs/benchmarks/method.md, "Measured once".
#pragma once

#include <memory>
#include <vector>

#include "millrace/device/cuda/driver.hpp"
#include "millrace/device/kernel/batch.hpp"

namespace millrace::lab {

/// The calls of a batch, in order, and the graphs of earlier batches of one stream, which serve again where the same
/// kinds of calls come. One thread at a time.
class BatchCalls {
public:
    using Context = device::cuda::Context;
    using Copy2D = device::cuda::Copy2D;
    using DevicePointer = device::cuda::DevicePointer;
    using Driver = device::cuda::Driver;
    using DriverEvent = device::cuda::DriverEvent;
    using GraphNode = device::cuda::GraphNode;
    using KernelCall = device::cuda::KernelCall;
    using Result = device::cuda::Result;
    using Stream = device::cuda::Stream;

    BatchCalls(const Driver& driver, Context context) : driver_(driver), context_(context) {}
    ~BatchCalls();
    BatchCalls(const BatchCalls&) = delete;
    BatchCalls& operator=(const BatchCalls&) = delete;

    void copy_to_device(DevicePointer to, const void* from, size_t bytes);
    void copy_to_host(void* to, DevicePointer from, size_t bytes);
    /// A graph can't be given other rows than it was made with: a batch with rows goes call by call.
    void copy_rows(const Copy2D& rows);
    /// A kernel that takes a batch and the tables at `tables`, which stay where they are while the kernel may run.
    void launch(const KernelCall& kernel, const device::BatchView& view, void* tables);
    void record(DriverEvent event);
    /// The stream writes `value` to a word of the host's memory.
    void write_word(DevicePointer word, uint32_t value);
    /// `foreign`: of another device; then, too, the batch goes call by call.
    void wait(DriverEvent event, bool foreign);

    /// Puts all of it on the stream and begins anew.
    Result submit(Stream stream);

private:
    enum class Kind : uint8_t { copy_to_device, copy_to_host, rows, kernel, record, word, wait };
    struct Call {
        Kind kind;
        void* host = nullptr;
        DevicePointer device = 0;
        size_t bytes = 0;
        DriverEvent event = nullptr;
        size_t index = 0;  ///< of rows_ or launches_
        uint32_t value = 0;
    };
    struct Launch {
        KernelCall kernel;
        device::BatchView view;
        void* tables;
    };
    /// What two batches must have in common to share a graph.
    struct Shape {
        Kind kind;
        device::cuda::Function function;
        bool operator==(const Shape&) const = default;
    };
    struct Program {
        std::vector<Shape> shapes;
        device::cuda::Graph graph = nullptr;  // its nodes are how those of the program are named
        std::vector<GraphNode> nodes;
        device::cuda::GraphProgram program = nullptr;
    };

    Call& add(Kind kind);
    Shape shape(const Call& call) const {
        return {call.kind, call.kind == Kind::kernel ? launches_[call.index].kernel.function : nullptr};
    }
    Result put(const Call& call, Stream stream);
    Result add_node(Program& program, const Call& call);
    Result set_node(const Program& program, size_t index, const Call& call);
    Result make(Program& program, size_t count);
    void destroy(const Program& program);
    Program* find(size_t count);

    const Driver& driver_;
    Context context_;
    std::vector<Call> calls_;
    bool plain_ = false;  // they can't be a graph
    std::vector<Copy2D> rows_;
    std::vector<Launch> launches_;
    std::vector<std::unique_ptr<Program>> programs_;  // the longest unused first
};

}  // namespace millrace::lab
