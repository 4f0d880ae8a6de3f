#include "lab/compared/batch_calls.hpp"

#include <algorithm>

namespace millrace::lab {

using device::BatchView;
using device::cuda::Copy3D;
using device::cuda::DevicePointer;
using device::cuda::KernelCall;
using device::cuda::kSuccess;
using device::cuda::Result;

namespace {

constexpr unsigned kHost = 1, kDevice = 2;
/// Programs that a stream keeps: batches differ in whether frames are gathered, which kernels suit their length, and
/// whether they follow another batch.
constexpr size_t kMaxPrograms = 16;

Copy3D copy_of(bool to_host, void* host, DevicePointer device, size_t bytes) {
    Copy3D copy;
    copy.source_kind = to_host ? kDevice : kHost;
    copy.target_kind = to_host ? kHost : kDevice;
    (to_host ? copy.source_device : copy.target_device) = device;
    if (to_host) copy.target_host = host;
    else copy.source_host = host;
    copy.source_pitch = copy.target_pitch = bytes;
    copy.source_height = copy.target_height = 1;
    copy.width_bytes = bytes;
    return copy;
}

/// Calls `use` with the kernel's parameters in place.
template <class Launch, class F>
Result with_parameters(const Launch& launch, F&& use) {
    void* parameters[] = {const_cast<BatchView*>(&launch.view), launch.tables};
    KernelCall kernel = launch.kernel;
    kernel.parameters = parameters;
    return use(kernel);
}

}  // namespace

BatchCalls::~BatchCalls() {
    for (const auto& program : programs_) destroy(*program);
}

BatchCalls::Call& BatchCalls::add(Kind kind) {
    calls_.push_back({kind});
    return calls_.back();
}

void BatchCalls::copy_to_device(DevicePointer to, const void* from, size_t bytes) {
    Call& call = add(Kind::copy_to_device);
    call.device = to;
    call.host = const_cast<void*>(from);
    call.bytes = bytes;
}

void BatchCalls::copy_to_host(void* to, DevicePointer from, size_t bytes) {
    Call& call = add(Kind::copy_to_host);
    call.device = from;
    call.host = to;
    call.bytes = bytes;
}

void BatchCalls::copy_rows(const Copy2D& rows) {
    add(Kind::rows).index = rows_.size();
    rows_.push_back(rows);
    plain_ = true;
}

void BatchCalls::launch(const KernelCall& kernel, const BatchView& view, void* tables) {
    add(Kind::kernel).index = launches_.size();
    launches_.push_back({kernel, view, tables});
}

void BatchCalls::record(DriverEvent event) { add(Kind::record).event = event; }

void BatchCalls::write_word(DevicePointer word, uint32_t value) {
    Call& call = add(Kind::word);
    call.device = word;
    call.value = value;
}

void BatchCalls::wait(DriverEvent event, bool foreign) {
    add(Kind::wait).event = event;
    plain_ |= foreign;
}

/// One call by itself.
Result BatchCalls::put(const Call& call, Stream stream) {
    switch (call.kind) {
        case Kind::copy_to_device: return driver_.copy_to_device_async(call.device, call.host, call.bytes, stream);
        case Kind::copy_to_host: return driver_.copy_to_host_async(call.host, call.device, call.bytes, stream);
        case Kind::rows: return driver_.copy_2d_async(&rows_[call.index], stream);
        case Kind::kernel:
            return with_parameters(launches_[call.index], [&](const KernelCall& k) {
                return driver_.launch(k.function, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z,
                                      k.shared_bytes, stream, k.parameters, nullptr);
            });
        case Kind::record: return driver_.event_record(call.event, stream);
        case Kind::word: return driver_.stream_write(stream, call.device, call.value, 0);
        case Kind::wait: return driver_.stream_wait(stream, call.event, 0);
    }
    return kSuccess;
}

Result BatchCalls::add_node(Program& program, const Call& call) {
    GraphNode node = nullptr;
    const GraphNode* const before = program.nodes.empty() ? nullptr : &program.nodes.back();
    const size_t count = program.nodes.empty() ? 0 : 1;
    Result result = kSuccess;
    switch (call.kind) {
        case Kind::copy_to_device:
        case Kind::copy_to_host: {
            const Copy3D copy = copy_of(call.kind == Kind::copy_to_host, call.host, call.device, call.bytes);
            result = driver_.graph_add_copy(&node, program.graph, before, count, &copy, context_);
            break;
        }
        case Kind::kernel:
            result = with_parameters(launches_[call.index], [&](const KernelCall& kernel) {
                return driver_.graph_add_kernel(&node, program.graph, before, count, &kernel);
            });
            break;
        case Kind::record: result = driver_.graph_add_record(&node, program.graph, before, count, call.event); break;
        case Kind::wait: result = driver_.graph_add_wait(&node, program.graph, before, count, call.event); break;
        case Kind::rows:
        case Kind::word: break;  // never in a graph
    }
    program.nodes.push_back(node);
    return result;
}

Result BatchCalls::set_node(const Program& program, size_t index, const Call& call) {
    const GraphNode node = program.nodes[index];
    switch (call.kind) {
        case Kind::copy_to_device:
        case Kind::copy_to_host: {
            const Copy3D copy = copy_of(call.kind == Kind::copy_to_host, call.host, call.device, call.bytes);
            return driver_.graph_set_copy(program.program, node, &copy, context_);
        }
        case Kind::kernel:
            return with_parameters(launches_[call.index], [&](const KernelCall& kernel) {
                return driver_.graph_set_kernel(program.program, node, &kernel);
            });
        case Kind::record: return driver_.graph_set_record(program.program, node, call.event);
        case Kind::wait: return driver_.graph_set_wait(program.program, node, call.event);
        case Kind::rows:
        case Kind::word: break;
    }
    return kSuccess;
}

/// A program of the first `count` calls, with their parameters.
Result BatchCalls::make(Program& program, size_t count) {
    Result result = driver_.graph_create(&program.graph, 0);
    for (size_t i = 0; i < count && result == kSuccess; ++i) {
        program.shapes.push_back(shape(calls_[i]));
        result = add_node(program, calls_[i]);
    }
    return result == kSuccess ? driver_.graph_instantiate(&program.program, program.graph, 0) : result;
}

/// One that runs ends when it is through.
void BatchCalls::destroy(const Program& program) {
    if (program.program != nullptr) driver_.graph_program_destroy(program.program);
    if (program.graph != nullptr) driver_.graph_destroy(program.graph);
}

/// The program that serves the first `count` calls; null: none has been made.
BatchCalls::Program* BatchCalls::find(size_t count) {
    const auto serves = [&](const auto& program) {
        if (program->shapes.size() != count) return false;
        for (size_t i = 0; i < count; ++i)
            if (program->shapes[i] != shape(calls_[i])) return false;
        return true;
    };
    const auto found = std::find_if(programs_.begin(), programs_.end(), serves);
    if (found == programs_.end()) return nullptr;
    std::rotate(found, found + 1, programs_.end());
    return programs_.back().get();
}

Result BatchCalls::submit(Stream stream) {
    size_t count = calls_.size();
    const auto tells = [](const Call& call) { return call.kind == Kind::record || call.kind == Kind::word; };
    while (count > 0 && tells(calls_[count - 1])) --count;  // whoever waits for those is told sooner by the stream
    Result result = kSuccess;
    size_t done = 0;
    if (count > 1 && !plain_) {
        if (const Program* program = find(count)) {
            for (size_t i = 0; i < count && result == kSuccess; ++i) result = set_node(*program, i, calls_[i]);
        } else {
            if (programs_.size() == kMaxPrograms) {
                destroy(*programs_.front());
                programs_.erase(programs_.begin());
            }
            programs_.push_back(std::make_unique<Program>());
            result = make(*programs_.back(), count);
        }
        if (result == kSuccess) {
            result = driver_.graph_launch(programs_.back()->program, stream);
        }
        done = count;
    }
    for (; done < calls_.size() && result == kSuccess; ++done) result = put(calls_[done], stream);
    plain_ = false;
    calls_.clear();
    rows_.clear();
    launches_.clear();
    return result;
}

}  // namespace millrace::lab
