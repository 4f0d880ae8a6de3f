#include "millrace/device/cuda/compile/assembler.hpp"

namespace millrace::device::cuda {

std::string Assembler::cubin(const std::string& ptx, const std::string& architecture) {
    const std::lock_guard lock(mutex_);
    for (const Made& one : made_)
        if (one.ptx == ptx && one.architecture == architecture) return one.cubin;
    if (compiler_ == nullptr) compiler_ = std::make_unique<Compiler>();
    std::string cubin = compiler_->assemble(ptx, architecture);
    if (made_.size() == kKept) made_.pop_front();
    made_.push_back({architecture, ptx, cubin});
    return cubin;
}

}  // namespace millrace::device::cuda
