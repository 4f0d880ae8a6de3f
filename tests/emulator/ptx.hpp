// PTX: kernels around fenced functions, and functions that other kernels call. The tests' interpreter runs them, thread
// by thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "millrace/isolation/ptx/module.hpp"

namespace millrace::test::ptx_machine {
class Decodings;
}

namespace emulator {

class PtxModule {
public:
    /// Null, and why, for text that is not understood.
    static std::unique_ptr<PtxModule> read(const std::string& text, std::string& why);
    /// The parameters of a kernel; null when there is none of that name.
    const KernelEntry* entry(const std::string& name) const;
    /// Runs a block's threads, one after the other: no barrier is among what is interpreted. Throws KernelFault.
    void run(const std::string& kernel, const BlockLaunch& launch,
             const std::vector<std::vector<unsigned char>>& parameters, Memory& memory) const;

    /// Functions that others may call.
    std::vector<std::string> functions() const;
    /// What one of them gives, in one thread of a kernel. Throws KernelFault.
    uint64_t call(const std::string& function, const ThreadView& thread, const std::vector<uint64_t>& arguments,
                  Memory& memory) const;

private:
    millrace::isolation::ptx::Module module_;
    std::shared_ptr<const millrace::test::ptx_machine::Decodings> decodings_;
    std::map<std::string, KernelEntry> entries_;
};

}  // namespace emulator
