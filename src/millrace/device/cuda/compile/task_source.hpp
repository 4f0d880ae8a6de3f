// The CUDA C++ of a task.
#pragma once

#include <string>

#include "millrace/device/cuda/compile/chain_source.hpp"

namespace millrace::device::cuda {

inline constexpr size_t kTableAlignment = 16;

/// One kernel with the parameters (in, out, count, tables by value).
struct TaskSource {
    TranslationUnit unit;
    std::string kernel;
    unsigned threads = 0;  ///< of a block
    unsigned items = 0;    ///< that a block works on
};

/// `tables_bytes` is a multiple of kTableAlignment.
TaskSource make_task_source(const Task& task, size_t tables_bytes);

}  // namespace millrace::device::cuda
