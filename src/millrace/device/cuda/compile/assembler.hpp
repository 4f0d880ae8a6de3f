// Machine code of functions of others, from PTX that was fenced.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/device/cuda/compile/compiler.hpp"

namespace millrace::device::cuda {

/// Apart from the store of chains' kernels: nobody waits for what others have sent, and none of it goes to disk, which
/// they could fill. Any thread.
class Assembler {
public:
    /// A cubin. Throws CompileError. One that was made lately is not made again: a tenant comes back with the same.
    std::string cubin(const std::string& ptx, const std::string& architecture);
    /// The same of several modules, with a unit of ours whose kernels call their functions.
    std::string cubin(const TranslationUnit& unit, const std::vector<std::string>& ptx,
                      const std::string& architecture);

private:
    /// The latest that were made, by what they were made of.
    class Kept {
    public:
        template <class Make>
        const std::string& find(std::vector<std::string> of, const Make& make) {
            for (const Made& one : made_)
                if (one.of == of) return one.code;
            std::string code = make();
            if (made_.size() == kMax) made_.pop_front();
            return made_.emplace_back(Made{std::move(of), std::move(code)}).code;
        }

    private:
        static constexpr size_t kMax = 16;
        struct Made {
            std::vector<std::string> of;
            std::string code;
        };
        std::deque<Made> made_;  // the latest last
    };
    const Compiler& compiler();

    std::mutex mutex_;
    std::unique_ptr<Compiler> compiler_;
    Kept units_, cubins_;
};

}  // namespace millrace::device::cuda
