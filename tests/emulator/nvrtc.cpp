#include "nvrtc.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace emulator {
namespace {

constexpr int kFailed = 6;  // NVRTC_ERROR_COMPILATION

struct Nvrtc {
    using Program = void*;
    int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
    int (*destroy)(Program*) = nullptr;
    int (*compile)(Program, int, const char* const*) = nullptr;
    int (*log_size)(Program, size_t*) = nullptr;
    int (*log)(Program, char*) = nullptr;
    int (*ptx_size)(Program, size_t*) = nullptr;
    int (*ptx)(Program, char*) = nullptr;
};

template <class F>
bool bind(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

/// Null where there is none.
const Nvrtc* nvrtc() {
    static const Nvrtc* const found = []() -> const Nvrtc* {
        const char* const folder = std::getenv("EMULATED_NVRTC");
        if (folder == nullptr || *folder == '\0') return nullptr;
        // It opens its built-in functions by name alone: they must be there already.
        std::error_code error;
        void* library = nullptr;
        for (const char* const first : {"libnvrtc-builtins.so", "libnvrtc.so"})
            for (const auto& file : std::filesystem::directory_iterator(folder, error))
                if (file.path().filename().string().starts_with(first))
                    if (void* const opened = dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL)) library = opened;
        static Nvrtc own;
        const bool whole = library != nullptr && bind(library, own.create, "nvrtcCreateProgram") &&
                           bind(library, own.destroy, "nvrtcDestroyProgram") &&
                           bind(library, own.compile, "nvrtcCompileProgram") &&
                           bind(library, own.log_size, "nvrtcGetProgramLogSize") &&
                           bind(library, own.log, "nvrtcGetProgramLog") &&
                           bind(library, own.ptx_size, "nvrtcGetPTXSize") && bind(library, own.ptx, "nvrtcGetPTX");
        return whole ? &own : nullptr;
    }();
    return found;
}

}  // namespace

int compile_ptx(const std::string& source, const std::string& name,
                const std::vector<std::pair<std::string, std::string>>& headers,
                const std::vector<const char*>& options, std::string& ptx, std::string& log) {
    const Nvrtc* const real = nvrtc();
    if (real == nullptr) {
        log = "emulator: PTX needs NVIDIA's NVRTC, in the folder that EMULATED_NVRTC names";
        return kFailed;
    }
    std::vector<const char*> names, texts;
    for (const auto& [own, text] : headers) {
        names.push_back(own.c_str());
        texts.push_back(text.c_str());
    }
    Nvrtc::Program program = nullptr;
    int result = real->create(&program, source.c_str(), name.c_str(), static_cast<int>(names.size()), texts.data(),
                              names.data());
    if (result != 0) return result;
    result = real->compile(program, static_cast<int>(options.size()), options.data());
    size_t size = 0;
    std::string& out = result == 0 ? ptx : log;
    (result == 0 ? real->ptx_size : real->log_size)(program, &size);
    out.resize(size);
    (result == 0 ? real->ptx : real->log)(program, out.data());
    while (!out.empty() && out.back() == '\0') out.pop_back();
    real->destroy(&program);
    return result;
}

}  // namespace emulator
