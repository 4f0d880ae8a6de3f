#include "millrace/device/cuda/compile/task_source.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::device::cuda {

TaskSource make_task_source(const Task& task, size_t tables_bytes) {
    constexpr unsigned kThreads = 256;
    TaskSource source;
    source.kernel = "millrace_task";
    source.threads = kThreads;
    source.items = kThreads / task.lanes;
    source.unit.name = "task.cu";
    source.unit.text = fmt::format(
        "#include \"{0}\"\n#include \"millrace/packet/lanes.hpp\"\n"
        "struct alignas(16) TaskTables {{ unsigned char bytes[{1}]; }};\n"
        "extern \"C\" __global__ void __launch_bounds__({2}) {3}(const uint32_t* in, uint32_t* out, uint32_t count, "
        "const __grid_constant__ TaskTables tables) {{\n"
        "    const unsigned item = (blockIdx.x * {2}u + threadIdx.x) / {4}u;\n"
        "    if (item < count) {5}::run(tables.bytes, in, out, count, item, millrace::Lanes<{4}>{{}});\n}}\n",
        task.device_header, tables_bytes, kThreads, source.kernel, task.lanes, task.device_struct);
    return source;
}

}  // namespace millrace::device::cuda
