// The part of the CUDA driver's interface that the program uses, over emulated GPUs; as in NVIDIA's manual of the driver API.
//
// EMULATED_GPUS says how many there are (2), EMULATED_MEGABYTES how much memory each has (4096).
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "gpu.hpp"

using namespace emulator;

namespace {

std::vector<std::unique_ptr<Gpu>>& gpus() {
    static auto& all = *new std::vector<std::unique_ptr<Gpu>>;
    return all;
}
thread_local Gpu* current = nullptr;

/// A module's library stays loaded: its kernels may not have ended, and say so when they run on.
struct Module {
    void* library = nullptr;
    std::atomic<bool> loaded{true};
    std::map<std::string, Kernel> kernels;
};

struct Registered {
    std::mutex mutex;
    std::set<const void*> memory;
};
Registered& registered() {
    static auto& all = *new Registered;
    return all;
}

/// What the tests want to go wrong.
struct Injected {
    std::string function;
    unsigned after = 0;
    int result = kSuccess;
};
struct Injections {
    std::mutex mutex;
    std::vector<Injected> waiting;
};
Injections& injections() {
    static auto& all = *new Injections;
    return all;
}

/// What a function answers before it does anything.
int trouble(const char* function) {
    {
        Injections& all = injections();
        const std::lock_guard lock(all.mutex);
        for (auto one = all.waiting.begin(); one != all.waiting.end(); ++one) {
            if (one->function != function || one->after-- > 0) continue;
            const int result = one->result;
            all.waiting.erase(one);
            return result;
        }
    }
    return current != nullptr ? current->failed.load() : kSuccess;
}

Stream& null_stream() {
    // One for each GPU.
    static auto& streams = *new std::map<Gpu*, std::unique_ptr<Stream>>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    auto& stream = streams[current];
    if (stream == nullptr) stream = std::make_unique<Stream>(*current);
    return *stream;
}
Stream& of(Stream* stream) { return stream != nullptr ? *stream : null_stream(); }

struct Rows {
    size_t from_x, from_y;
    unsigned from_kind;
    const unsigned char* from_host;
    unsigned char* from_device;
    void* from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    unsigned to_kind;
    unsigned char* to_host;
    unsigned char* to_device;
    void* to_array;
    size_t to_pitch;
    size_t width, height;
};

struct Copy {
    unsigned char* to;
    const unsigned char* from;
    size_t bytes;
};

struct Copy3D {
    size_t from_x, from_y, from_z, from_level;
    unsigned from_kind;
    const unsigned char* from_host;
    unsigned char* from_device;
    void* from_array;
    void* reserved0;
    size_t from_pitch, from_height;
    size_t to_x, to_y, to_z, to_level;
    unsigned to_kind;
    unsigned char* to_host;
    unsigned char* to_device;
    void* to_array;
    void* reserved1;
    size_t to_pitch, to_height;
    size_t width, height, depth;
};
constexpr unsigned kHost = 1, kDevice = 2;

/// kInvalidValue unless the GPU's side lies in its memory.
int as_copy(const Copy3D& from, Copy& copy) {
    if (from.height != 1 || from.depth != 1 || from.from_kind == from.to_kind) return kInvalidValue;
    copy = {from.to_kind == kHost ? from.to_host : from.to_device, from.from_kind == kHost ? from.from_host : from.from_device, from.width};
    return current->memory.has(from.to_kind == kDevice ? copy.to : copy.from, copy.bytes) ? kSuccess : kInvalidValue;
}

struct KernelCall {
    Kernel* function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void** parameters;
    void** extra;
    void* kernel;
    void* context;
};

Launch as_launch(const KernelCall& call) {
    Launch launch;
    launch.kernel = call.function;
    launch.grid = {call.grid_x, call.grid_y, call.grid_z};
    launch.block_size = {call.block_x, call.block_y, call.block_z};
    launch.block_bytes = call.shared_bytes;
    if (launch.trouble() == kSuccess) launch.take_parameters(call.parameters);
    return launch;
}

void put_launch(Stream& stream, Launch launch) {
    stream.put([&stream, launch = std::move(launch)] { launch.run(stream.gpu()); });
}
void put_record(Stream& stream, Event* event) {
    stream.put([event, number = event->recorded()] { event->come(number); });
}
void put_wait(Stream& stream, Event* event) {
    stream.put([event, number = event->latest(), &stream] {
        while (!event->has_come(number) && stream.gpu().failed == kSuccess) std::this_thread::sleep_for(std::chrono::microseconds(10));
    });
}
void put_copy(Stream& stream, const Copy& copy) {
    stream.put([copy] { memcpy(copy.to, copy.from, copy.bytes); });
}

/// A step of a graph: they run in the order in which they were added.
struct Node {
    enum class Kind { kernel, copy, record, wait } kind;
    Launch launch;
    Copy copy{};
    Event* event = nullptr;
};
struct Graph {
    std::deque<Node> nodes;
};
struct GraphProgram {
    std::map<const Node*, Node> nodes;
    std::vector<const Node*> order;
};

int add(Graph* graph, Node** node, Node made) {
    graph->nodes.push_back(std::move(made));
    *node = &graph->nodes.back();
    return kSuccess;
}
Node* find(GraphProgram* program, Node* node, Node::Kind kind) {
    const auto found = program->nodes.find(node);
    return found != program->nodes.end() && found->second.kind == kind ? &found->second : nullptr;
}

}  // namespace

#define ANSWER_TROUBLE \
    if (const int result = trouble(__func__); result != kSuccess) return result

extern "C" {

/// For tests: the call of `function` behind `after` others of it answers `result` and does nothing else.
void emulator_inject(const char* function, unsigned after, int result) {
    const std::lock_guard lock(injections().mutex);
    injections().waiting.push_back({function, after, result});
}
/// Takes back what has not gone wrong yet; how much that was.
unsigned emulator_forgive() {
    const std::lock_guard lock(injections().mutex);
    const auto count = static_cast<unsigned>(injections().waiting.size());
    injections().waiting.clear();
    return count;
}

int cuInit(unsigned) {
    if (!gpus().empty()) return kSuccess;
    const char* named = std::getenv("EMULATED_GPUS");
    const int count = named != nullptr ? atoi(named) : 2;
    for (int i = 0; i < count; ++i) gpus().push_back(std::make_unique<Gpu>(i));
    catch_faults();
    return kSuccess;
}
int cuGetErrorName(int result, const char** name) {
    static const std::map<int, const char*> names = {{kSuccess, "CUDA_SUCCESS"}, {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"}, {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                     {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"}, {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
                                                     {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"}, {kNotFound, "CUDA_ERROR_NOT_FOUND"}, {kNotReady, "CUDA_ERROR_NOT_READY"},
                                                     {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
                                                     {kNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"}, {716, "CUDA_ERROR_MISALIGNED_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}, {999, "CUDA_ERROR_UNKNOWN"}};
    const auto found = names.find(result);
    if (found == names.end()) return kInvalidValue;
    *name = found->second;
    return kSuccess;
}
int cuGetErrorString(int result, const char** text) {
    *text = result == kSuccess ? "no error" : "as the emulated GPU has it";
    return kSuccess;
}
int cuDriverGetVersion(int* version) {
    *version = 12000;
    return kSuccess;
}
int cuDeviceGetCount(int* count) {
    *count = static_cast<int>(gpus().size());
    return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
    if (ordinal < 0 || ordinal >= static_cast<int>(gpus().size())) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
}
int cuDeviceGetName(char* name, int length, int) {
    snprintf(name, static_cast<size_t>(length), "Emulated GPU");
    return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 16: *value = 64; break;  // multiprocessors
        case 75: *value = 9; break;   // compute capability 9.0
        case 76: *value = 0; break;
        case 91: *value = 1; break;   // kernels use the host's addresses of registered memory
        default: *value = 0;
    }
    return kSuccess;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
    *bytes = gpus()[static_cast<size_t>(device)]->memory.bytes();
    return kSuccess;
}
int cuDeviceGetPCIBusId(char* text, int length, int device) {
    snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", device);
    return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
    *context = gpus()[static_cast<size_t>(device)].get();
    return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
int cuCtxSetCurrent(void* context) {
    current = static_cast<Gpu*>(context);
    return kSuccess;
}

int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
    *free_bytes = current->memory.free_bytes();
    *total = current->memory.bytes();
    return kSuccess;
}
int cuMemAlloc_v2(void** address, size_t bytes) {
    ANSWER_TROUBLE;
    *address = current->memory.allocate(bytes);
    return *address != nullptr ? kSuccess : kOutOfMemory;
}
int cuMemFree_v2(void* address) {
    ANSWER_TROUBLE;
    current->wait();
    return current->memory.free(address) ? kSuccess : kInvalidValue;
}
int cuMemsetD8_v2(void* address, unsigned char value, size_t bytes) {
    ANSWER_TROUBLE;
    if (!current->memory.has(address, bytes)) return kInvalidValue;
    of(nullptr).put([=] { memset(address, value, bytes); });
    return kSuccess;
}
int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
    ANSWER_TROUBLE;
    *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *address != nullptr ? kSuccess : kOutOfMemory;
}
int cuMemFreeHost(void* address) {
    current->wait();
    std::free(address);
    return kSuccess;
}
int cuMemHostRegister_v2(void* address, size_t, unsigned) {
    ANSWER_TROUBLE;
    const std::lock_guard lock(registered().mutex);
    return registered().memory.insert(address).second ? kSuccess : kAlreadyRegistered;
}
int cuMemHostUnregister(void* address) {
    current->wait();
    const std::lock_guard lock(registered().mutex);
    return registered().memory.erase(address) != 0 ? kSuccess : kNotRegistered;
}

int cuStreamCreate(Stream** stream, unsigned) {
    ANSWER_TROUBLE;
    *stream = new Stream(*current);
    return kSuccess;
}
int cuStreamDestroy_v2(Stream* stream) {
    delete stream;
    return kSuccess;
}
int cuStreamQuery(Stream* stream) {
    ANSWER_TROUBLE;
    return of(stream).idle() ? current->failed.load() : kNotReady;
}
int cuStreamSynchronize(Stream* stream) {
    ANSWER_TROUBLE;
    of(stream).wait();
    return current->failed;
}
int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    ANSWER_TROUBLE;
    put_wait(of(stream), event);
    return kSuccess;
}
int cuStreamWriteValue32_v2(Stream* stream, uint32_t* address, uint32_t value, unsigned) {
    ANSWER_TROUBLE;
    of(stream).put([=] { std::atomic_ref(*address).store(value, std::memory_order_release); });
    return kSuccess;
}

int cuEventCreate(Event** event, unsigned) {
    ANSWER_TROUBLE;
    *event = new Event;
    return kSuccess;
}
int cuEventDestroy_v2(Event* event) {
    delete event;
    return kSuccess;
}
int cuEventRecord(Event* event, Stream* stream) {
    ANSWER_TROUBLE;
    put_record(of(stream), event);
    return kSuccess;
}
int cuEventQuery(Event* event) {
    ANSWER_TROUBLE;
    return event->has_come() ? kSuccess : kNotReady;
}
int cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
    ANSWER_TROUBLE;
    *milliseconds = static_cast<float>(static_cast<double>(to->time_ns() - from->time_ns()) / 1e6);
    return kSuccess;
}

int cuMemcpyHtoD_v2(unsigned char* to, const void* from, size_t bytes) {
    ANSWER_TROUBLE;
    if (!current->memory.has(to, bytes)) return kInvalidValue;
    memcpy(to, from, bytes);
    return kSuccess;
}
int cuMemcpyHtoDAsync_v2(unsigned char* to, const unsigned char* from, size_t bytes, Stream* stream) {
    ANSWER_TROUBLE;
    if (!current->memory.has(to, bytes)) return kInvalidValue;
    put_copy(of(stream), {to, from, bytes});
    return kSuccess;
}
int cuMemcpyDtoHAsync_v2(unsigned char* to, const unsigned char* from, size_t bytes, Stream* stream) {
    ANSWER_TROUBLE;
    if (!current->memory.has(from, bytes)) return kInvalidValue;
    put_copy(of(stream), {to, from, bytes});
    return kSuccess;
}
int cuMemcpy2DAsync_v2(const Rows* rows, Stream* stream) {
    ANSWER_TROUBLE;
    const bool to_device = rows->to_kind == kDevice;
    if (rows->from_kind == rows->to_kind || rows->from_pitch < rows->width || rows->to_pitch < rows->width) return kInvalidValue;
    const size_t span = rows->height == 0 ? 0 : (rows->height - 1) * (to_device ? rows->to_pitch : rows->from_pitch) + rows->width;
    if (!current->memory.has(to_device ? rows->to_device : rows->from_device, span)) return kInvalidValue;
    of(stream).put([copy = *rows, to_device] {
        const unsigned char* from = to_device ? copy.from_host : copy.from_device;
        unsigned char* to = to_device ? copy.to_device : copy.to_host;
        for (size_t row = 0; row < copy.height; ++row) memcpy(to + row * copy.to_pitch, from + row * copy.from_pitch, copy.width);
    });
    return kSuccess;
}

int cuModuleLoadData(Module** module, const void* image) {
    ANSWER_TROUBLE;
    uint64_t bytes = 0;
    memcpy(&bytes, image, sizeof bytes);
    const int file = memfd_create("kernels", MFD_CLOEXEC);  // stays open: faults are looked up in it
    const auto* const library = static_cast<const char*>(image) + sizeof bytes;
    if (file < 0 || write(file, library, bytes) != static_cast<ssize_t>(bytes)) return kInvalidImage;
    auto made = std::make_unique<Module>();
    made->library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto connect = made->library == nullptr ? nullptr : reinterpret_cast<Connect>(dlsym(made->library, "emulated_connect"));
    if (connect == nullptr) {
        fprintf(stderr, "emulator: kernels can't be loaded: %s\n", dlerror());
        return kInvalidImage;
    }
    connect(&kCalls);
    *module = made.release();
    return kSuccess;
}
int cuModuleUnload(Module* module) {
    if (module == nullptr) return kInvalidHandle;
    current->wait();
    module->loaded = false;
    return kSuccess;
}
int cuModuleGetFunction(Kernel** function, Module* module, const char* name) {
    ANSWER_TROUBLE;
    const auto* entry = static_cast<const KernelEntry*>(dlsym(module->library, (std::string("emulated_") + name).c_str()));
    if (entry == nullptr) return kNotFound;
    Kernel& kernel = module->kernels[name];
    kernel.name = name;
    kernel.code = {kernel.name.c_str(), entry, reinterpret_cast<Enter>(dlsym(module->library, "emulated_enter"))};
    kernel.loaded = &module->loaded;
    *function = &kernel;
    return kSuccess;
}
int cuFuncSetAttribute(Kernel* function, int attribute, int value) {
    ANSWER_TROUBLE;
    constexpr int kMaxDynamicShared = 8, kMost = 227 << 10;
    if (attribute != kMaxDynamicShared || value > kMost) return kInvalidValue;
    function->most_block_bytes = static_cast<size_t>(value);
    return kSuccess;
}
int cuLaunchKernel(Kernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   Stream* stream, void** parameters, void**) {
    ANSWER_TROUBLE;
    Launch launch = as_launch({function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, parameters, nullptr, nullptr, nullptr});
    if (const int result = launch.trouble(); result != kSuccess) return result;
    put_launch(of(stream), std::move(launch));
    return kSuccess;
}

int cuGraphCreate(Graph** graph, unsigned) {
    ANSWER_TROUBLE;
    *graph = new Graph;
    return kSuccess;
}
int cuGraphDestroy(Graph* graph) {
    delete graph;
    return kSuccess;
}
int cuGraphAddKernelNode_v2(Node** node, Graph* graph, Node* const*, size_t, const KernelCall* call) {
    ANSWER_TROUBLE;
    Launch launch = as_launch(*call);
    if (const int result = launch.trouble(); result != kSuccess) return result;
    return add(graph, node, {.kind = Node::Kind::kernel, .launch = std::move(launch)});
}
int cuGraphAddMemcpyNode(Node** node, Graph* graph, Node* const*, size_t, const Copy3D* from, void*) {
    ANSWER_TROUBLE;
    Copy copy{};
    if (const int result = as_copy(*from, copy); result != kSuccess) return result;
    return add(graph, node, {.kind = Node::Kind::copy, .launch = {}, .copy = copy});
}
int cuGraphAddEventRecordNode(Node** node, Graph* graph, Node* const*, size_t, Event* event) {
    ANSWER_TROUBLE;
    return add(graph, node, {.kind = Node::Kind::record, .launch = {}, .copy = {}, .event = event});
}
int cuGraphAddEventWaitNode(Node** node, Graph* graph, Node* const*, size_t, Event* event) {
    ANSWER_TROUBLE;
    return add(graph, node, {.kind = Node::Kind::wait, .launch = {}, .copy = {}, .event = event});
}
int cuGraphInstantiateWithFlags(GraphProgram** program, Graph* graph, unsigned long long) {
    ANSWER_TROUBLE;
    *program = new GraphProgram;
    for (const Node& node : graph->nodes) {
        (*program)->nodes.emplace(&node, node);
        (*program)->order.push_back(&node);
    }
    return kSuccess;
}
int cuGraphExecKernelNodeSetParams_v2(GraphProgram* program, Node* node, const KernelCall* call) {
    ANSWER_TROUBLE;
    Node* own = find(program, node, Node::Kind::kernel);
    Launch launch = as_launch(*call);
    if (own == nullptr || launch.trouble() != kSuccess) return kInvalidValue;
    own->launch = std::move(launch);
    return kSuccess;
}
int cuGraphExecMemcpyNodeSetParams(GraphProgram* program, Node* node, const Copy3D* from, void*) {
    ANSWER_TROUBLE;
    Node* own = find(program, node, Node::Kind::copy);
    return own == nullptr ? kInvalidValue : as_copy(*from, own->copy);
}
int cuGraphExecEventRecordNodeSetEvent(GraphProgram* program, Node* node, Event* event) {
    ANSWER_TROUBLE;
    Node* own = find(program, node, Node::Kind::record);
    if (own == nullptr) return kInvalidValue;
    own->event = event;
    return kSuccess;
}
int cuGraphExecEventWaitNodeSetEvent(GraphProgram* program, Node* node, Event* event) {
    ANSWER_TROUBLE;
    Node* own = find(program, node, Node::Kind::wait);
    if (own == nullptr) return kInvalidValue;
    own->event = event;
    return kSuccess;
}
int cuGraphLaunch(GraphProgram* program, Stream* stream) {
    ANSWER_TROUBLE;
    for (const Node* one : program->order) {
        const Node& node = program->nodes.at(one);
        switch (node.kind) {
            case Node::Kind::kernel: put_launch(of(stream), node.launch); break;
            case Node::Kind::copy: put_copy(of(stream), node.copy); break;
            case Node::Kind::record: put_record(of(stream), node.event); break;
            case Node::Kind::wait: put_wait(of(stream), node.event); break;
        }
    }
    return kSuccess;
}
int cuGraphExecDestroy(GraphProgram* program) {
    delete program;
    return kSuccess;
}
}
