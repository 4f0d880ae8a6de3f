// From source to machine code for a GPU: NVRTC to LTO-IR, nvJitLink to a cubin. No GPU is needed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/cuda/compile/chain_source.hpp"

namespace millrace::device::cuda {

/// NVRTC or nvJitLink is missing, or refuses the source; `what()` carries their log.
class CompileError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Those of a source: one for each of ChainSource::cubins.
using Cubins = std::vector<std::string>;

/// NVIDIA's run-time compiler and linker, loaded when the first one is made. Looks for
/// libnvrtc.so and libnvJitLink.so in $MILLRACE_CUDA, where the system keeps its libraries, and in the
/// CUDA toolkit. For one thread at a time.
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
    /// One translation unit to PTX for a domain, its functions among it that nothing calls. What only asks for memory
    /// is left out: there is no access in it that could be fenced.
    std::string compile_ptx(const TranslationUnit& unit, const std::string& architecture) const;
    /// PTX, such as the isolation wrote it, to a cubin.
    std::string assemble(const std::string& ptx, const std::string& architecture) const;
    /// The same of several modules, with the LTO-IR of a unit that calls their functions.
    std::string assemble_with(const std::string& lto_ir, const std::vector<std::string>& ptx,
                              const std::string& architecture) const;
    /// The cubins of several sources, in their order, compiled and linked concurrently. NFs that were compiled before
    /// are not compiled again.
    std::vector<Cubins> build(const std::vector<const ChainSource*>& sources, const std::string& architecture);
    /// The same as PTX, for people to read.
    Cubins build_ptx(const ChainSource& source, const std::string& architecture);

private:
    struct Libraries;
    enum class Output { cubin, ptx };
    enum class Code { lto_ir, ptx };
    struct LinkInput {
        Code code;
        const std::string* bytes;
    };
    std::string compile_to(Code code, const TranslationUnit& unit, const std::string& architecture) const;
    static std::string key_of(const TranslationUnit& unit, const std::string& architecture);
    std::vector<Cubins> build_all(Output output, const std::vector<const ChainSource*>& sources,
                                  const std::string& architecture);
    std::string link_to(Output output, const std::vector<LinkInput>& units, const std::vector<Kernel>& kernels,
                        const std::string& architecture) const;
    std::unique_ptr<Libraries> libraries_;
    std::map<std::string, std::string> compiled_nfs_;  // LTO-IR by architecture, source and headers
};

/// The options that every unit is compiled with, besides the architecture.
std::string compile_options();
/// The embedded headers that a unit needs, those that they include in their turn too, by name.
std::map<std::string, std::string> collect_headers(const TranslationUnit& unit);

}  // namespace millrace::device::cuda
