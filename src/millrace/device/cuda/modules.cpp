// Modules of kernels on a GPU, and the memory that their threads have of their own.
#include <fmt/format.h>

#include "millrace/device/cuda/loaded.hpp"

namespace millrace::device::cuda {

std::vector<std::shared_ptr<CudaDevice::LoadedModules>> CudaDevice::modules_of(
    const std::vector<const ChainSource*>& sources) {
    std::vector<std::string> names;
    std::vector<std::shared_ptr<LoadedModules>> modules;
    std::vector<const ChainSource*> missing;
    for (const ChainSource* const source : sources) {
        names.push_back(fingerprint(*source, architecture_));
        modules.push_back(source->cubins.empty() ? std::make_shared<LoadedModules>() : modules_[names.back()].lock());
        if (modules.back() == nullptr) missing.push_back(source);
    }
    std::vector<Cubins> cubins;
    try {
        cubins = kernels_.cubins(missing, architecture_);
    } catch (const CompileError& e) {
        throw DeviceError(describe() + ": " + e.what());
    }
    auto own = cubins.begin();
    for (size_t i = 0; i < sources.size(); ++i) {
        if (modules[i] != nullptr) continue;
        modules[i] = std::make_shared<LoadedModules>();
        for (const std::string& cubin : *own++) modules[i]->push_back(load_module(cubin, sources[i]->chain.name));
        modules_[names[i]] = modules[i];
    }
    return modules;
}

std::unique_ptr<CudaDevice::LoadedModule> CudaDevice::load_module(const std::string& cubin, const std::string& name) {
    auto module = std::make_unique<LoadedModule>(*this);
    const ResidentKernels::Pause pause(resident_);
    if (!pause) throw DeviceError(describe() + ": no kernels can be loaded: the GPU does not answer");
    if (const Result result = driver_.module_load(&module->module, cubin.data()); result != kSuccess)
        throw DeviceError(
            fmt::format("{}: the driver refuses the kernels of {}: {}", describe(), name, driver_.text(result)));
    return module;
}

/// The driver sets memory aside for the stacks of as many threads as the GPU has room for, as much for each as any
/// kernel has asked for so far. Left to itself it does so when a kernel is launched that asks for more, for which it
/// waits until all others have ended, those that wait for this very launch as well.
Function CudaDevice::function_of(const LoadedModule& module, const std::string& kernel, const std::string& what) {
    constexpr int kLocalBytes = 3, kStackSize = 0;
    constexpr size_t kStep = 1024;
    const auto require = [&](Result result, const std::string& trouble) {
        if (result != kSuccess)
            throw DeviceError(fmt::format("{}: {}: {}: {}", describe(), what, trouble, driver_.text(result)));
    };
    Function function = nullptr;
    require(driver_.module_function(&function, module.module, kernel.c_str()), "no kernel " + kernel);
    int bytes = 0;
    require(driver_.function_attribute(&bytes, kLocalBytes, function), "kernel " + kernel + " is not known");
    if (static_cast<size_t>(bytes) <= local_bytes_) return function;
    const size_t wanted = (static_cast<size_t>(bytes) + kStep - 1) / kStep * kStep;
    const ResidentKernels::Pause pause(resident_);
    if (!pause) throw DeviceError(fmt::format("{}: {}: the GPU does not answer", describe(), what));
    require(driver_.context_limit(kStackSize, wanted), fmt::format("no {} bytes of its own for each thread", wanted));
    local_bytes_ = wanted;
    return function;
}

}  // namespace millrace::device::cuda
