#include "millrace/device/cuda/compile/assembler.hpp"

namespace millrace::device::cuda {

const Compiler& Assembler::compiler() {
    if (compiler_ == nullptr) compiler_ = std::make_unique<Compiler>();
    return *compiler_;
}

std::string Assembler::cubin(const std::string& ptx, const std::string& architecture) {
    const std::lock_guard lock(mutex_);
    return cubins_.find({architecture, ptx}, [&] { return compiler().assemble(ptx, architecture); });
}

std::string Assembler::cubin(const TranslationUnit& unit, const std::vector<std::string>& ptx,
                             const std::string& architecture) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> of{architecture, unit.text};
    of.insert(of.end(), ptx.begin(), ptx.end());
    return cubins_.find(std::move(of), [&] {
        const std::string& own = units_.find({architecture, unit.text},
                                             [&] { return compiler().compile(unit, architecture); });
        return compiler().assemble_with(own, ptx, architecture);
    });
}

}  // namespace millrace::device::cuda
