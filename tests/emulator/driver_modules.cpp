// Modules of the CUDA driver's interface: kernels that were loaded, by their names.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "driver.hpp"
#include "ptx.hpp"

using namespace emulator;

namespace {

/// A module's library stays loaded: its kernels may not have ended, and say so when they run on.
struct Module {
    void* library = nullptr;
    std::atomic<bool> loaded{true};
    std::set<std::string> names;  ///< of its kernels; empty: all that the library has
    std::map<std::string, Kernel> kernels;
    std::unique_ptr<PtxModule> ptx;                   ///< in place of a library
    std::vector<std::unique_ptr<PtxModule>> foreign;  ///< that the library's kernels call functions of
};

}  // namespace

extern "C" {

int cuModuleLoadData(Module** module, const void* image) {
    ANSWER_TROUBLE;
    current->wait_alone();
    uint64_t bytes = 0;
    memcpy(&bytes, image, sizeof bytes);
    if (bytes == 0) {
        // As nvJitLink's part makes an image of PTX: the text follows.
        std::string why;
        auto read = PtxModule::read(static_cast<const char*>(image) + sizeof bytes, why);
        if (read == nullptr) return kInvalidImage;
        auto made = std::make_unique<Module>();
        made->ptx = std::move(read);
        *module = made.release();
        return kSuccess;
    }
    const int file = memfd_create("kernels", MFD_CLOEXEC);  // stays open: faults are looked up in it
    const auto* const library = static_cast<const char*>(image) + sizeof bytes;
    if (file < 0 || write(file, library, bytes) != static_cast<ssize_t>(bytes)) return kInvalidImage;
    auto made = std::make_unique<Module>();
    made->library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto connect = made->library == nullptr ? nullptr
                                                  : reinterpret_cast<Connect>(dlsym(made->library, "emulated_connect"));
    if (connect == nullptr) {
        fprintf(stderr, "emulator: kernels can't be loaded: %s\n", dlerror());
        return kInvalidImage;
    }
    connect(&kCalls);
    const char* text = library + bytes;
    for (; *text != '\0'; text += strlen(text) + 1) made->names.insert(text);
    for (++text; *text != '\0'; text += strlen(text) + 1) {
        std::string why;
        made->foreign.push_back(PtxModule::read(text, why));
        auto** const places = static_cast<const void**>(dlsym(made->library, "emulated_foreign"));
        if (made->foreign.back() == nullptr || places == nullptr) return kInvalidImage;
        places[made->foreign.size() - 1] = made->foreign.back().get();
    }
    *module = made.release();
    return kSuccess;
}
int cuModuleUnload(Module* module) {
    if (module == nullptr) return kInvalidHandle;
    current->wait();
    module->loaded = false;
    return kSuccess;
}
int cuModuleGetFunction(Kernel** function, Module* module, const char* name) {
    ANSWER_TROUBLE;
    if (module->ptx != nullptr) {
        const KernelEntry* const own = module->ptx->entry(name);
        if (own == nullptr) return kNotFound;
        Kernel& kernel = module->kernels[name];
        kernel.name = name;
        kernel.code = {kernel.name.c_str(), own, nullptr};
        kernel.ptx = module->ptx.get();
        kernel.loaded = &module->loaded;
        *function = &kernel;
        return kSuccess;
    }
    const auto* entry = static_cast<const KernelEntry*>(
        dlsym(module->library, (std::string("emulated_") + name).c_str()));
    if (entry == nullptr || (!module->names.empty() && !module->names.contains(name))) return kNotFound;
    Kernel& kernel = module->kernels[name];
    kernel.name = name;
    kernel.code = {kernel.name.c_str(), entry, reinterpret_cast<Enter>(dlsym(module->library, "emulated_enter"))};
    kernel.loaded = &module->loaded;
    *function = &kernel;
    return kSuccess;
}
int cuFuncGetAttribute(int* value, int attribute, Kernel* function) {
    ANSWER_TROUBLE;
    constexpr int kLocalBytes = 3;
    if (attribute != kLocalBytes) return kInvalidValue;
    *value = static_cast<int>(function->local_bytes());
    return kSuccess;
}
int cuFuncSetAttribute(Kernel* function, int attribute, int value) {
    ANSWER_TROUBLE;
    constexpr int kMaxDynamicShared = 8, kMax = 227 << 10;
    if (attribute != kMaxDynamicShared || value > kMax) return kInvalidValue;
    function->most_block_bytes = static_cast<size_t>(value);
    return kSuccess;
}
}
