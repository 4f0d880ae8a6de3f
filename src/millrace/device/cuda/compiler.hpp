// From source to machine code for a GPU: NVRTC to LTO-IR, nvJitLink to a cubin. No GPU is needed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/device/cuda/chain_source.hpp"

namespace millrace::device::cuda {

/// NVRTC or nvJitLink is missing, or refuses the source; `what()` carries their log.
class CompileError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// NVIDIA's run-time compiler and linker, loaded when the first one is made. Looks for
/// libnvrtc.so and libnvJitLink.so where the system keeps its libraries, in $MILLRACE_CUDA, and in
/// the Python wheels of `.venv` in the working directory. Calls are safe from any thread.
class Compiler {
public:
    /// Throws CompileError when a library can't be found, saying where it was looked for.
    Compiler();
    ~Compiler();
    std::string version() const;

    /// One translation unit to LTO-IR for an architecture, such as "sm_90".
    std::string compile(const TranslationUnit& unit, const std::string& architecture) const;
    /// LTO-IR of several units to one cubin, inlined across them.
    std::string link(const std::vector<std::string>& units, const std::string& architecture) const;
    /// A whole chain.
    std::string build(const ChainSource& source, const std::string& architecture) const;

private:
    struct Libraries;
    std::unique_ptr<Libraries> libraries_;
};

}  // namespace millrace::device::cuda
