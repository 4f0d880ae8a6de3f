// Machine code of functions of others, from PTX that was fenced.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/device/cuda/compile/compiler.hpp"

namespace millrace::device::cuda {

/// Apart from the store of chains' kernels: nobody waits for what others have sent, and none of it goes to disk, which
/// they could fill. Any thread.
class Assembler {
public:
    /// A cubin. Throws CompileError. One that was made lately is not made again: a tenant comes back with the same.
    std::string cubin(const std::string& ptx, const std::string& architecture);

private:
    static constexpr size_t kKept = 16;
    struct Made {
        std::string architecture, ptx, cubin;
    };
    std::mutex mutex_;
    std::unique_ptr<Compiler> compiler_;
    std::deque<Made> made_;  // the latest last
};

}  // namespace millrace::device::cuda
