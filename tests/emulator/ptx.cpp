#include "ptx.hpp"

#include <algorithm>
#include <cstring>

#include "isolation/interpreter/machine.hpp"
#include "millrace/isolation/ptx/reader.hpp"

namespace emulator {
namespace {

namespace machine = millrace::test::ptx_machine;

// The driver's numbers for what kernels die of.
constexpr int kIllegalAddress = 700, kMisalignedAddress = 716, kLaunchFailed = 719;

/// All that the GPU has, as a kernel of the host's sees it.
class WholeMemory : public machine::GlobalMemory {
public:
    explicit WholeMemory(Memory& memory) : memory_(memory) {}
    uint8_t* reach(uint64_t address, uint64_t bytes) override {
        auto* const at = reinterpret_cast<uint8_t*>(address);
        // What follows mostly lies near: it is looked up by pages, each once.
        const uint64_t page = address / kPage;
        if (page == page_ && (address + bytes - 1) / kPage == page) return at;
        if (!memory_.has(at, bytes)) return nullptr;
        if (memory_.has(reinterpret_cast<void*>(page * kPage), kPage)) page_ = page;
        return at;
    }

private:
    static constexpr uint64_t kPage = 4096;
    Memory& memory_;
    uint64_t page_ = 0;
};

int result_of(machine::Violation::Kind kind) {
    switch (kind) {
        case machine::Violation::Kind::outside: return kIllegalAddress;
        case machine::Violation::Kind::misaligned: return kMisalignedAddress;
        default: return kLaunchFailed;
    }
}

}  // namespace

std::unique_ptr<PtxModule> PtxModule::read(const std::string& text, std::string& why) {
    namespace ptx = millrace::isolation::ptx;
    auto made = std::make_unique<PtxModule>();
    try {
        ptx::Limits limits;
        limits.reserved_names = true;
        made->module_ = ptx::read(text, "module.ptx", limits);
    } catch (const std::runtime_error& e) {
        why = e.what();
        return nullptr;
    }
    made->decodings_ = std::make_shared<const machine::Decodings>(made->module_);
    for (const ptx::Function& function : made->module_.functions) {
        if (!function.entry || function.parameters.size() > KernelEntry::kMaxParameters) continue;
        KernelEntry entry{nullptr, static_cast<unsigned>(function.parameters.size()), {}};
        for (unsigned i = 0; i < entry.parameters; ++i)
            entry.bytes[i] = static_cast<unsigned>(function.variables[function.parameters[i]].bytes());
        made->entries_[function.name] = entry;
    }
    return made;
}

const KernelEntry* PtxModule::entry(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
}

std::vector<std::string> PtxModule::functions() const {
    std::vector<std::string> names;
    for (const auto& function : module_.functions)
        if (function.defined && function.visible && !function.entry) names.push_back(function.name);
    return names;
}

uint64_t PtxModule::call(const std::string& function, const ThreadView& thread, const std::vector<uint64_t>& arguments,
                         Memory& memory) const {
    WholeMemory whole(memory);
    machine::MachineOptions options;
    options.threads = thread.block_size.x;
    options.thread = thread.thread.x;
    options.block = thread.block.x;
    options.blocks = thread.grid.x;
    machine::Outcome outcome;
    try {
        outcome = machine::Machine(module_, whole, options, decodings_).run(function, arguments);
    } catch (const std::exception& e) {
        throw KernelFault{kLaunchFailed, function + ": " + e.what()};
    }
    if (!outcome.harmless())
        throw KernelFault{result_of(outcome.violation.kind), function + ": " + outcome.violation.what};
    uint64_t value = 0;
    memcpy(&value, outcome.result.data(), std::min(sizeof value, outcome.result.size()));
    return value;
}

void PtxModule::run(const std::string& kernel, const BlockLaunch& launch,
                    const std::vector<std::vector<unsigned char>>& parameters, Memory& memory) const {
    std::vector<uint64_t> arguments;
    for (const auto& bytes : parameters) {
        uint64_t value = 0;
        memcpy(&value, bytes.data(), std::min(sizeof value, bytes.size()));
        arguments.push_back(value);
    }
    WholeMemory whole(memory);
    machine::MachineOptions options;
    options.threads = launch.block_size.x;
    options.block = launch.block.x;
    options.blocks = launch.grid.x;
    machine::Machine one(module_, whole, options, decodings_);
    for (unsigned thread = 0; thread < launch.block_size.x; ++thread) {
        one.begin_anew(thread);
        std::string what;
        int result = kLaunchFailed;
        try {
            const machine::Outcome outcome = one.run(kernel, arguments);
            if (outcome.harmless()) continue;
            what = outcome.violation.what;
            result = result_of(outcome.violation.kind);
        } catch (const std::exception& e) {
            what = e.what();
        }
        throw KernelFault{result, kernel + ": " + what};
    }
}

}  // namespace emulator
