// The part of the CUDA driver's interface that the program uses, over emulated GPUs; as in NVIDIA's manual of the
// driver API.
//
// EMULATED_GPUS says how many there are (2), EMULATED_MEGABYTES how much memory each has (4096).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "driver.hpp"

using namespace emulator;

namespace {

std::vector<std::unique_ptr<Gpu>>& gpus() {
    static auto& all = *new std::vector<std::unique_ptr<Gpu>>;
    return all;
}

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
    std::map<std::string, unsigned, std::less<>> calls;  ///< of every function, so far
};
Injections& injections() {
    static auto& all = *new Injections;
    return all;
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

/// CUDA_MEMCPY2D.
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

std::atomic<unsigned>& enlarged() {
    static std::atomic<unsigned> count{0};
    return count;
}
void set_local_bytes(size_t bytes) {
    current->wait_alone();
    current->local_bytes = bytes;
}

}  // namespace

namespace emulator {

thread_local Gpu* current = nullptr;

int trouble(const char* function) {
    {
        Injections& all = injections();
        const std::lock_guard lock(all.mutex);
        const auto called = all.calls.find(std::string_view(function));
        ++(called != all.calls.end() ? called->second : all.calls[function]);
        for (auto one = all.waiting.begin(); one != all.waiting.end(); ++one) {
            if (one->function != function || one->after-- > 0) continue;
            const int result = one->result;
            all.waiting.erase(one);
            return result;
        }
    }
    return current != nullptr ? current->failed.load() : kSuccess;
}

Stream& of(Stream* stream) { return stream != nullptr ? *stream : null_stream(); }

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
    count_launch(stream);
    stream.put([&stream, launch = std::move(launch)] { launch.run(stream.gpu()); });
}
void put_record(Stream& stream, Event* event) {
    stream.put([event, number = event->recorded()] { event->come(number); });
}
void put_wait(Stream& stream, Event* event) {
    stream.put([event, number = event->latest(), &stream] {
        while (!event->has_come(number) && stream.gpu().failed == kSuccess)
            std::this_thread::sleep_for(std::chrono::microseconds(10));
    });
}
void put_copy(Stream& stream, const Copy& copy) {
    stream.put([copy] { memcpy(copy.to, copy.from, copy.bytes); });
}

}  // namespace emulator

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

/// How often `function` has been called.
unsigned emulator_calls(const char* function) {
    const std::lock_guard lock(injections().mutex);
    return injections().calls[function];
}

int cuInit(unsigned) {
    if (!gpus().empty()) return kSuccess;
    const char* named = std::getenv("EMULATED_GPUS");
    const int count = named != nullptr ? atoi(named) : 2;
    for (int i = 0; i < count; ++i) gpus().push_back(std::make_unique<Gpu>(i));
    catch_faults();
    return kSuccess;
}
/// What NVIDIA's NVRTC asks of any driver that it finds, and does without.
int cuGetExportTable(const void**, const void*) { return kNotFound; }
int cuGetErrorName(int result, const char** name) {
    static const std::map<int, const char*> names = {{kSuccess, "CUDA_SUCCESS"},
                                                     {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                     {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                     {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                                     {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
                                                     {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
                                                     {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
                                                     {kNotFound, "CUDA_ERROR_NOT_FOUND"},
                                                     {kNotReady, "CUDA_ERROR_NOT_READY"},
                                                     {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                     {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                     {kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
                                                     {kNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
                                                     {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
                                                     {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                     {999, "CUDA_ERROR_UNKNOWN"}};
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
        case 91: *value = 1; break;  // kernels use the host's addresses of registered memory
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

/// For tests: how often a launch had to wait until memory for its threads was set aside.
unsigned emulator_enlarging_launches() { return enlarged(); }
int cuCtxSetLimit(int limit, size_t value) {
    ANSWER_TROUBLE;
    constexpr int kStackSize = 0;
    if (limit != kStackSize) return kInvalidValue;
    set_local_bytes(value);
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
    current->wait_alone();
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
    current->wait_alone();
    std::free(address);
    return kSuccess;
}
int cuMemHostRegister_v2(void* address, size_t, unsigned) {
    ANSWER_TROUBLE;
    const std::lock_guard lock(registered().mutex);
    return registered().memory.insert(address).second ? kSuccess : kAlreadyRegistered;
}
int cuMemHostUnregister(void* address) {
    current->wait_alone();
    const std::lock_guard lock(registered().mutex);
    return registered().memory.erase(address) != 0 ? kSuccess : kNotRegistered;
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
    if (rows->from_kind == rows->to_kind || rows->from_pitch < rows->width || rows->to_pitch < rows->width)
        return kInvalidValue;
    const size_t span = rows->height == 0
                            ? 0
                            : (rows->height - 1) * (to_device ? rows->to_pitch : rows->from_pitch) + rows->width;
    if (!current->memory.has(to_device ? rows->to_device : rows->from_device, span)) return kInvalidValue;
    of(stream).put([copy = *rows, to_device] {
        const unsigned char* from = to_device ? copy.from_host : copy.from_device;
        unsigned char* to = to_device ? copy.to_device : copy.to_host;
        for (size_t row = 0; row < copy.height; ++row)
            memcpy(to + row * copy.to_pitch, from + row * copy.from_pitch, copy.width);
    });
    return kSuccess;
}

int cuLaunchKernel(Kernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream* stream, void** parameters,
                   void**) {
    ANSWER_TROUBLE;
    Launch launch = as_launch({function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, parameters,
                               nullptr, nullptr, nullptr});
    if (const int result = launch.trouble(); result != kSuccess) return result;
    if (function->local_bytes() > current->local_bytes) {
        set_local_bytes(function->local_bytes());
        ++enlarged();
    }
    const std::shared_lock lock(current->launches);
    put_launch(of(stream), std::move(launch));
    return kSuccess;
}
}
