#include "millrace/device/cuda/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace millrace::device::cuda {
namespace {

struct Loaded {
    Driver driver{};
    bool there = false;
    std::string why;
};

template <class F>
void bind(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr)
        throw std::runtime_error(std::string("the CUDA driver has no function ") + name + ": it is too old");
}

/// All of them, or none.
void bind_partitions(void* library, Driver& d) {
    try {
        bind(library, d.device_resource, "cuDeviceGetDevResource");
        bind(library, d.resource_split, "cuDevSmResourceSplitByCount");
        bind(library, d.resource_describe, "cuDevResourceGenerateDesc");
        bind(library, d.green_context_destroy, "cuGreenCtxDestroy");
        bind(library, d.green_stream_create, "cuGreenCtxStreamCreate");
        bind(library, d.green_context_create, "cuGreenCtxCreate");
    } catch (const std::runtime_error&) {
        d.green_context_create = nullptr;
    }
}

void bind_all(void* library, Driver& d) {
    bind(library, d.init, "cuInit");
    bind(library, d.error_name, "cuGetErrorName");
    bind(library, d.error_text, "cuGetErrorString");
    bind(library, d.version, "cuDriverGetVersion");
    bind(library, d.device_count, "cuDeviceGetCount");
    bind(library, d.device_get, "cuDeviceGet");
    bind(library, d.device_name, "cuDeviceGetName");
    bind(library, d.device_attribute, "cuDeviceGetAttribute");
    bind(library, d.device_memory, "cuDeviceTotalMem_v2");
    bind(library, d.device_bus_id, "cuDeviceGetPCIBusId");
    bind(library, d.context_retain, "cuDevicePrimaryCtxRetain");
    bind(library, d.context_release, "cuDevicePrimaryCtxRelease_v2");
    bind(library, d.context_set, "cuCtxSetCurrent");
    bind(library, d.context_limit, "cuCtxSetLimit");
    bind(library, d.memory_info, "cuMemGetInfo_v2");
    bind(library, d.allocate, "cuMemAlloc_v2");
    bind(library, d.free, "cuMemFree_v2");
    bind(library, d.clear, "cuMemsetD8_v2");
    bind(library, d.memory_granularity, "cuMemGetAllocationGranularity");
    bind(library, d.address_reserve, "cuMemAddressReserve");
    bind(library, d.address_free, "cuMemAddressFree");
    bind(library, d.memory_create, "cuMemCreate");
    bind(library, d.memory_release, "cuMemRelease");
    bind(library, d.memory_map, "cuMemMap");
    bind(library, d.memory_unmap, "cuMemUnmap");
    bind(library, d.memory_access, "cuMemSetAccess");
    bind(library, d.host_allocate, "cuMemHostAlloc");
    bind(library, d.host_free, "cuMemFreeHost");
    bind(library, d.host_register, "cuMemHostRegister_v2");
    bind(library, d.host_unregister, "cuMemHostUnregister");
    bind(library, d.stream_create, "cuStreamCreate");
    bind(library, d.stream_destroy, "cuStreamDestroy_v2");
    bind(library, d.stream_query, "cuStreamQuery");
    bind(library, d.stream_synchronize, "cuStreamSynchronize");
    bind(library, d.stream_wait, "cuStreamWaitEvent");
    bind(library, d.stream_write, "cuStreamWriteValue32_v2");
    bind(library, d.event_create, "cuEventCreate");
    bind(library, d.event_destroy, "cuEventDestroy_v2");
    bind(library, d.event_record, "cuEventRecord");
    bind(library, d.event_query, "cuEventQuery");
    bind(library, d.event_elapsed, "cuEventElapsedTime");
    bind(library, d.copy_to_device, "cuMemcpyHtoD_v2");
    bind(library, d.copy_to_device_async, "cuMemcpyHtoDAsync_v2");
    bind(library, d.copy_to_host_async, "cuMemcpyDtoHAsync_v2");
    bind(library, d.copy_2d_async, "cuMemcpy2DAsync_v2");
    bind(library, d.module_load, "cuModuleLoadData");
    bind(library, d.module_unload, "cuModuleUnload");
    bind(library, d.module_function, "cuModuleGetFunction");
    bind(library, d.function_set, "cuFuncSetAttribute");
    bind(library, d.function_attribute, "cuFuncGetAttribute");
    bind(library, d.launch, "cuLaunchKernel");
    bind_partitions(library, d);
    bind(library, d.graph_create, "cuGraphCreate");
    bind(library, d.graph_destroy, "cuGraphDestroy");
    bind(library, d.graph_add_kernel, "cuGraphAddKernelNode_v2");
    bind(library, d.graph_add_copy, "cuGraphAddMemcpyNode");
    bind(library, d.graph_add_record, "cuGraphAddEventRecordNode");
    bind(library, d.graph_add_wait, "cuGraphAddEventWaitNode");
    bind(library, d.graph_instantiate, "cuGraphInstantiateWithFlags");
    bind(library, d.graph_set_kernel, "cuGraphExecKernelNodeSetParams_v2");
    bind(library, d.graph_set_copy, "cuGraphExecMemcpyNodeSetParams");
    bind(library, d.graph_set_record, "cuGraphExecEventRecordNodeSetEvent");
    bind(library, d.graph_set_wait, "cuGraphExecEventWaitNodeSetEvent");
    bind(library, d.graph_launch, "cuGraphLaunch");
    bind(library, d.graph_program_destroy, "cuGraphExecDestroy");
}

Loaded load() {
    Loaded loaded;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        loaded.why = "the CUDA driver's library, libcuda.so.1, is not installed";
        return loaded;
    }
    try {
        bind_all(library, loaded.driver);
    } catch (const std::runtime_error& e) {
        loaded.why = e.what();
        return loaded;
    }
    if (const Result result = loaded.driver.init(0); result != kSuccess) {
        loaded.why = "the CUDA driver does not start: " + loaded.driver.text(result);
        return loaded;
    }
    loaded.there = true;
    return loaded;
}

}  // namespace

void Driver::expect_waiting_kernels() {
    // Code that is brought to the GPU when it first runs would wait for such a kernel.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

void Driver::expect_residents() {
    expect_waiting_kernels();
    // It holds up what comes behind it in the same of the hardware's queues. The driver takes 8 of them unless told
    // otherwise, and 32 at most; with these chains of launched kernels are slower (docs/benchmarks/method.md).
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

const Driver* Driver::get(std::string* why) {
    static const Loaded loaded = load();
    if (why != nullptr) *why = loaded.why;
    return loaded.there ? &loaded.driver : nullptr;
}

std::string Driver::text(Result result) const {
    const char *name = nullptr, *text = nullptr;
    if (error_name(result, &name) != kSuccess || error_text(result, &text) != kSuccess)
        return "CUDA error " + std::to_string(result);
    return std::string(name) + ": " + text;
}

}  // namespace millrace::device::cuda
