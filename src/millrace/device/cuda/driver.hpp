// The CUDA driver's interface, loaded at run time: this program runs where there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace::device::cuda {

// The types of the driver's C interface that are used, as NVIDIA's manual of the driver API gives them.
using Result = int;
using DeviceOrdinal = int;
using DevicePointer = uint64_t;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using DriverEvent = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphNode = struct GraphNodeTag*;
using GraphProgram = struct GraphProgramTag*;  // CUgraphExec
using GreenContext = struct GreenContextTag*;
using ResourceDescription = struct ResourceDescriptionTag*;  // CUdevResourceDesc

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotReady = 600;
inline constexpr Result kNotSupported = 801;

/// CUDA_MEMCPY2D.
struct Copy2D {
    size_t source_x = 0, source_y = 0;
    unsigned source_kind = 0;  ///< 1: host, 2: device
    const void* source_host = nullptr;
    DevicePointer source_device = 0;
    void* source_array = nullptr;
    size_t source_pitch = 0;
    size_t target_x = 0, target_y = 0;
    unsigned target_kind = 0;
    void* target_host = nullptr;
    DevicePointer target_device = 0;
    void* target_array = nullptr;
    size_t target_pitch = 0;
    size_t width_bytes = 0;
    size_t height = 0;
};

/// CUDA_MEMCPY3D, of which a graph's copies use one dimension.
struct Copy3D {
    size_t source_x = 0, source_y = 0, source_z = 0, source_level = 0;
    unsigned source_kind = 0;  ///< as in Copy2D
    const void* source_host = nullptr;
    DevicePointer source_device = 0;
    void* source_array = nullptr;
    void* reserved0 = nullptr;
    size_t source_pitch = 0, source_height = 0;
    size_t target_x = 0, target_y = 0, target_z = 0, target_level = 0;
    unsigned target_kind = 0;
    void* target_host = nullptr;
    DevicePointer target_device = 0;
    void* target_array = nullptr;
    void* reserved1 = nullptr;
    size_t target_pitch = 0, target_height = 0;
    size_t width_bytes = 0, height = 1, depth = 1;
};

/// CUDA_KERNEL_NODE_PARAMS (its second version).
struct KernelCall {
    Function function = nullptr;
    unsigned grid_x = 1, grid_y = 1, grid_z = 1, block_x = 1, block_y = 1, block_z = 1;
    unsigned shared_bytes = 0;
    void** parameters = nullptr;
    void** extra = nullptr;
    void* kernel = nullptr;
    Context context = nullptr;
};

/// CUmemLocation, of a GPU.
struct MemoryLocation {
    unsigned kind = 1;  ///< a device
    int ordinal = 0;
};
/// CUmemAllocationProp.
struct MemoryKind {
    unsigned kind = 1;  ///< pinned
    unsigned handle_kinds = 0;
    MemoryLocation location;
    void* handle_data = nullptr;
    unsigned char compression = 0, reachable_by_others = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
};
/// CUmemAccessDesc.
struct MemoryAccess {
    MemoryLocation location;
    unsigned flags = 3;  ///< reads and writes
};
using MemoryHandle = unsigned long long;  // CUmemGenericAllocationHandle

/// CUdevResource (its first version), of multiprocessors. Made by the driver, and given back to it as it is.
struct DeviceResource {
    int kind = 0;
    unsigned char padding[92] = {};
    unsigned sms = 0;
    unsigned char reserved[44] = {};
};

/// The driver's functions. One object for the process; null where there is no driver.
struct Driver {
    /// Loads the driver at the first call. Null without one; `why` then says what was missing.
    static const Driver* get(std::string* why = nullptr);
    /// Has the driver prepare for kernels that wait for others, those of chains with an order. To be called before it
    /// is loaded, and while the program has one thread.
    static void expect_waiting_kernels();
    /// The same for kernels that stay on a GPU (--mode persistent).
    static void expect_residents();

    /// "CUDA_ERROR_OUT_OF_MEMORY: out of memory".
    std::string text(Result result) const;

    Result (*init)(unsigned flags);
    Result (*error_name)(Result, const char**);
    Result (*error_text)(Result, const char**);
    Result (*version)(int*);
    Result (*device_count)(int*);
    Result (*device_get)(DeviceOrdinal*, int);
    Result (*device_name)(char*, int, DeviceOrdinal);
    Result (*device_attribute)(int*, int, DeviceOrdinal);
    Result (*device_memory)(size_t*, DeviceOrdinal);
    Result (*device_bus_id)(char*, int length, DeviceOrdinal);
    Result (*context_retain)(Context*, DeviceOrdinal);
    Result (*context_release)(DeviceOrdinal);
    Result (*context_set)(Context);
    Result (*context_limit)(int limit, size_t value);
    Result (*memory_info)(size_t* free, size_t* total);
    Result (*allocate)(DevicePointer*, size_t);
    Result (*free)(DevicePointer);
    Result (*clear)(DevicePointer, unsigned char value, size_t bytes);
    Result (*memory_granularity)(size_t*, const MemoryKind*, unsigned option);
    Result (*address_reserve)(DevicePointer*, size_t bytes, size_t alignment, DevicePointer wanted,
                              unsigned long long flags);
    Result (*address_free)(DevicePointer, size_t);
    Result (*memory_create)(MemoryHandle*, size_t, const MemoryKind*, unsigned long long flags);
    Result (*memory_release)(MemoryHandle);
    Result (*memory_map)(DevicePointer, size_t bytes, size_t offset, MemoryHandle, unsigned long long flags);
    Result (*memory_unmap)(DevicePointer, size_t);
    Result (*memory_access)(DevicePointer, size_t, const MemoryAccess*, size_t count);
    Result (*host_allocate)(void**, size_t, unsigned flags);
    Result (*host_free)(void*);
    Result (*host_register)(void*, size_t, unsigned flags);
    Result (*host_unregister)(void*);
    Result (*stream_create)(Stream*, unsigned flags);
    Result (*stream_destroy)(Stream);
    Result (*stream_query)(Stream);
    Result (*stream_synchronize)(Stream);
    Result (*stream_wait)(Stream, DriverEvent, unsigned flags);
    Result (*stream_write)(Stream, DevicePointer, uint32_t value, unsigned flags);
    Result (*event_create)(DriverEvent*, unsigned flags);
    Result (*event_destroy)(DriverEvent);
    Result (*event_record)(DriverEvent, Stream);
    Result (*event_query)(DriverEvent);
    Result (*event_elapsed)(float* milliseconds, DriverEvent from, DriverEvent to);
    Result (*copy_to_device)(DevicePointer, const void*, size_t);
    Result (*copy_to_device_async)(DevicePointer, const void*, size_t, Stream);
    Result (*copy_to_host_async)(void*, DevicePointer, size_t, Stream);
    Result (*copy_2d_async)(const Copy2D*, Stream);
    Result (*module_load)(Module*, const void*);
    Result (*module_unload)(Module);
    Result (*module_function)(Function*, Module, const char*);
    Result (*function_set)(Function, int attribute, int value);
    Result (*function_attribute)(int* value, int attribute, Function);
    Result (*launch)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                     unsigned block_z, unsigned shared_bytes, Stream, void** parameters, void** extra);
    // Of partitions; null in drivers before 12.4.
    Result (*device_resource)(DeviceOrdinal, DeviceResource*, int kind);
    Result (*resource_split)(DeviceResource* groups, unsigned* count, const DeviceResource* all, DeviceResource* rest,
                             unsigned flags, unsigned least_sms);
    Result (*resource_describe)(ResourceDescription*, DeviceResource* resources, unsigned count);
    Result (*green_context_create)(GreenContext*, ResourceDescription, DeviceOrdinal, unsigned flags);
    Result (*green_context_destroy)(GreenContext);
    Result (*green_stream_create)(Stream*, GreenContext, unsigned flags, int priority);
    Result (*graph_create)(Graph*, unsigned flags);
    Result (*graph_destroy)(Graph);
    Result (*graph_add_kernel)(GraphNode*, Graph, const GraphNode* after, size_t count, const KernelCall*);
    Result (*graph_add_copy)(GraphNode*, Graph, const GraphNode* after, size_t count, const Copy3D*, Context);
    Result (*graph_add_record)(GraphNode*, Graph, const GraphNode* after, size_t count, DriverEvent);
    Result (*graph_add_wait)(GraphNode*, Graph, const GraphNode* after, size_t count, DriverEvent);
    Result (*graph_instantiate)(GraphProgram*, Graph, unsigned long long flags);
    Result (*graph_set_kernel)(GraphProgram, GraphNode, const KernelCall*);
    Result (*graph_set_copy)(GraphProgram, GraphNode, const Copy3D*, Context);
    Result (*graph_set_record)(GraphProgram, GraphNode, DriverEvent);
    Result (*graph_set_wait)(GraphProgram, GraphNode, DriverEvent);
    Result (*graph_launch)(GraphProgram, Stream);
    Result (*graph_program_destroy)(GraphProgram);
};

}  // namespace millrace::device::cuda
