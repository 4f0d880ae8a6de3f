#include "millrace/device/cuda/compile/compiler.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "millrace/base/concurrently.hpp"
#include "millrace/base/cuda_libraries.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::device::cuda {
namespace {

// The parts of NVIDIA's C interfaces that are used, as their manuals give them.
using NvrtcProgram = struct NvrtcProgramTag*;
using JitLinkHandle = struct JitLinkTag*;
constexpr int kJitLinkInputPtx = 2, kJitLinkInputLtoIr = 3;

/// NVRTC opens its built-in functions by name alone; from a folder of their own they must be there already.
void load_companions(const std::string& folder) {
    std::error_code error;
    if (folder.empty()) return;
    for (const auto& file : std::filesystem::directory_iterator(folder, error))
        if (file.path().filename().string().starts_with("libnvrtc-builtins.so"))
            dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* open_library(const std::vector<std::string>& names) {
    std::string looked;
    const CudaFolders places = cuda_library_folders();
    for (const std::string& folder : places.folders) {
        for (const std::string& name : names)
            if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
                load_companions(folder);
                return library;
            }
        if (!folder.empty()) looked += " " + folder;
    }
    std::string refused;
    for (const std::string& why : places.refused) refused += "; " + why;
    throw CompileError(
        fmt::format("{} was not found in the system's library folders{}{}; install CUDA's NVRTC, or name its "
                    "folder in MILLRACE_CUDA{}",
                    names.front(), looked.empty() ? "" : " nor in", looked, refused));
}

/// So few that a block of the ordered kernels fits beside three blocks of 256 threads.
constexpr const char* kRegisters = "-maxrregcount=72";
/// Costs nothing at run time, and lets profilers name source lines.
constexpr const char* kLines = "-lineinfo";
constexpr const char* kLinkLater = "-dlto";
constexpr const char* kOptions[] = {"--std=c++20", kLines, "--relocatable-device-code=true",
                                    "--device-as-default-execution-space", "--extra-device-vectorization"};

}  // namespace

std::string compile_options() {
    std::string text;
    for (const char* option : kOptions) text += std::string(option) + "\n";
    text.append(kLinkLater).append("\n").append(kRegisters);
    return text;
}

namespace {

void collect(std::string_view text, const nf::DeviceSources* own, std::map<std::string, std::string>& headers) {
    constexpr std::string_view kInclude = "#include \"";
    for (size_t at = text.find(kInclude); at != std::string_view::npos; at = text.find(kInclude, at + 1)) {
        const size_t begin = at + kInclude.size(), end = text.find('"', begin);
        if (end == std::string_view::npos) return;
        const std::string name(text.substr(begin, end - begin));
        if (headers.contains(name)) continue;
        const std::string_view* source = nf::find_device_source(name, own);
        if (source == nullptr) continue;  // NVRTC says what is missing, and where
        headers.emplace(name, *source);
        collect(*source, own, headers);
    }
}

}  // namespace

std::map<std::string, std::string> collect_headers(const TranslationUnit& unit) {
    std::map<std::string, std::string> headers;
    collect(unit.text, unit.own, headers);
    return headers;
}

struct Compiler::Libraries {
    template <class F>
    static void bind(void* library, F*& function, const char* name) {
        function = reinterpret_cast<F*>(dlsym(library, name));
        if (function == nullptr) throw CompileError(fmt::format("the library has no function {}: it is too old", name));
    }

    Libraries() {
        // The linker's library must be there before NVRTC is asked for LTO-IR.
        void* jitlink = open_library({"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"});
        void* nvrtc = open_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
        bind(nvrtc, version, "nvrtcVersion");
        bind(nvrtc, error_string, "nvrtcGetErrorString");
        bind(nvrtc, create, "nvrtcCreateProgram");
        bind(nvrtc, destroy, "nvrtcDestroyProgram");
        bind(nvrtc, compile, "nvrtcCompileProgram");
        bind(nvrtc, log_size, "nvrtcGetProgramLogSize");
        bind(nvrtc, log, "nvrtcGetProgramLog");
        bind(nvrtc, lto_size, "nvrtcGetLTOIRSize");
        bind(nvrtc, lto, "nvrtcGetLTOIR");
        ptx_of_size = reinterpret_cast<decltype(ptx_of_size)>(dlsym(nvrtc, "nvrtcGetPTXSize"));
        ptx_of = reinterpret_cast<decltype(ptx_of)>(dlsym(nvrtc, "nvrtcGetPTX"));
        bind(jitlink, link_create, "nvJitLinkCreate");
        bind(jitlink, link_destroy, "nvJitLinkDestroy");
        bind(jitlink, link_add, "nvJitLinkAddData");
        bind(jitlink, link_complete, "nvJitLinkComplete");
        bind(jitlink, cubin_size, "nvJitLinkGetLinkedCubinSize");
        bind(jitlink, cubin, "nvJitLinkGetLinkedCubin");
        bind(jitlink, ptx_size, "nvJitLinkGetLinkedPtxSize");
        bind(jitlink, ptx, "nvJitLinkGetLinkedPtx");
        bind(jitlink, link_log_size, "nvJitLinkGetErrorLogSize");
        bind(jitlink, link_log, "nvJitLinkGetErrorLog");
    }

    int (*version)(int*, int*);
    const char* (*error_string)(int);
    int (*create)(NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*);
    int (*destroy)(NvrtcProgram*);
    int (*compile)(NvrtcProgram, int, const char* const*);
    int (*log_size)(NvrtcProgram, size_t*);
    int (*log)(NvrtcProgram, char*);
    int (*lto_size)(NvrtcProgram, size_t*);
    int (*lto)(NvrtcProgram, char*);
    int (*ptx_of_size)(NvrtcProgram, size_t*);  ///< may be missing
    int (*ptx_of)(NvrtcProgram, char*);
    int (*link_create)(JitLinkHandle*, uint32_t, const char**);
    int (*link_destroy)(JitLinkHandle*);
    int (*link_add)(JitLinkHandle, int, const void*, size_t, const char*);
    int (*link_complete)(JitLinkHandle);
    int (*cubin_size)(JitLinkHandle, size_t*);
    int (*cubin)(JitLinkHandle, void*);
    int (*ptx_size)(JitLinkHandle, size_t*);
    int (*ptx)(JitLinkHandle, void*);
    int (*link_log_size)(JitLinkHandle, size_t*);
    int (*link_log)(JitLinkHandle, char*);
};

Compiler::Compiler() : libraries_(std::make_unique<Libraries>()) {}
Compiler::~Compiler() = default;

std::string Compiler::version() const {
    int major = 0, minor = 0;
    libraries_->version(&major, &minor);
    return fmt::format("NVRTC {}.{}", major, minor);
}

std::string Compiler::compile(const TranslationUnit& unit, const std::string& architecture) const {
    return compile_to(Code::lto_ir, unit, architecture);
}

namespace {

/// PTX without the lines that ask for memory and use none of it (packet/prefetch.hpp).
std::string without_prefetches(const std::string& ptx) {
    std::string text;
    for (size_t at = 0; at < ptx.size();) {
        const size_t end = std::min(ptx.find('\n', at), ptx.size() - 1) + 1;
        const std::string_view line(ptx.data() + at, end - at);
        if (line.find("prefetch.global.") == std::string_view::npos) text += line;
        at = end;
    }
    return text;
}

}  // namespace

std::string Compiler::compile_ptx(const TranslationUnit& unit, const std::string& architecture) const {
    if (libraries_->ptx_of == nullptr || libraries_->ptx_of_size == nullptr)
        throw CompileError("NVRTC has no function nvrtcGetPTX");
    std::string text = compile_to(Code::ptx, unit, architecture);
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return without_prefetches(text);
}

std::string Compiler::compile_to(Code code, const TranslationUnit& unit, const std::string& architecture) const {
    const Libraries& l = *libraries_;
    const std::map<std::string, std::string> headers = collect_headers(unit);
    std::vector<const char*> texts, names;
    for (const auto& [name, text] : headers) {
        names.push_back(name.c_str());
        texts.push_back(text.c_str());
    }
    NvrtcProgram program = nullptr;
    int result = l.create(&program, unit.text.c_str(), unit.name.c_str(), static_cast<int>(names.size()), texts.data(),
                          names.data());
    if (result != 0) throw CompileError(fmt::format("NVRTC refuses {}: {}", unit.name, l.error_string(result)));
    const std::string arch = "--gpu-architecture=" + architecture;
    std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
    options.push_back(arch.c_str());
    if (code == Code::lto_ir) options.push_back(kLinkLater);
    result = l.compile(program, static_cast<int>(options.size()), options.data());
    std::string output;
    if (result != 0) {
        size_t size = 0;
        l.log_size(program, &size);
        output.resize(size);
        l.log(program, output.data());
    } else {
        size_t size = 0;
        (code == Code::lto_ir ? l.lto_size : l.ptx_of_size)(program, &size);
        output.resize(size);
        (code == Code::lto_ir ? l.lto : l.ptx_of)(program, output.data());
    }
    l.destroy(&program);
    if (result != 0)
        throw CompileError(fmt::format("{} does not compile for {}:\n{}", unit.name, architecture, output));
    return output;
}

std::string Compiler::link(const std::vector<std::string>& units, const std::string& architecture) const {
    std::vector<LinkInput> all;
    for (const std::string& unit : units) all.push_back({Code::lto_ir, &unit});
    return link_to(Output::cubin, all, {}, architecture);
}

std::string Compiler::assemble(const std::string& ptx, const std::string& architecture) const {
    const std::string text = ptx + '\0';
    return link_to(Output::cubin, {{Code::ptx, &text}}, {}, architecture);
}

std::string Compiler::assemble_with(const std::string& lto_ir, const std::vector<std::string>& ptx,
                                    const std::string& architecture) const {
    std::vector<std::string> texts;
    for (const std::string& one : ptx) texts.push_back(one + '\0');
    std::vector<LinkInput> all{{Code::lto_ir, &lto_ir}};
    for (const std::string& text : texts) all.push_back({Code::ptx, &text});
    return link_to(Output::cubin, all, {}, architecture);
}

/// With the kernels that are named, or all. What no kernel calls is left out before anything is made of it.
std::string Compiler::link_to(Output output_kind, const std::vector<LinkInput>& units,
                              const std::vector<Kernel>& kernels, const std::string& architecture) const {
    const Libraries& l = *libraries_;
    const std::string arch = "-arch=" + architecture;
    std::vector<const char*> options = {arch.c_str(), kRegisters};
    std::vector<std::string> used;
    for (const Kernel& kernel : kernels) used.push_back("-kernels-used=" + kernel.name);
    for (const std::string& option : used) options.push_back(option.c_str());
    if (units.front().code == Code::lto_ir) options.insert(options.end(), {"-lto", kLines});
    if (output_kind == Output::ptx) options.push_back("-ptx");
    const auto ask_size = output_kind == Output::ptx ? l.ptx_size : l.cubin_size;
    const auto ask = output_kind == Output::ptx ? l.ptx : l.cubin;
    JitLinkHandle handle = nullptr;
    int result = l.link_create(&handle, static_cast<uint32_t>(options.size()), options.data());
    for (size_t i = 0; i < units.size() && result == 0; ++i)
        result = l.link_add(handle, units[i].code == Code::ptx ? kJitLinkInputPtx : kJitLinkInputLtoIr,
                            units[i].bytes->data(), units[i].bytes->size(), fmt::format("unit{}", i).c_str());
    if (result == 0) result = l.link_complete(handle);
    size_t size = 0;
    std::string output;
    if (result == 0) {
        result = ask_size(handle, &size);
        output.resize(size);
        if (result == 0) result = ask(handle, output.data());
    } else if (handle != nullptr && l.link_log_size(handle, &size) == 0) {
        output.resize(size);
        l.link_log(handle, output.data());
    }
    if (handle != nullptr) l.link_destroy(&handle);
    if (result != 0)
        throw CompileError(
            fmt::format("the chain does not link for {} (nvJitLink error {}):\n{}", architecture, result, output));
    return output;
}

/// What a unit's LTO-IR depends on. The same text may mean another function: a plugin's that was built anew.
std::string Compiler::key_of(const TranslationUnit& unit, const std::string& architecture) {
    std::string all = architecture + "\n" + unit.text;
    if (unit.own != nullptr)
        for (const auto& [name, text] : collect_headers(unit)) all.append(name).append("\n").append(text);
    return all;
}

std::vector<Cubins> Compiler::build_all(Output output, const std::vector<const ChainSource*>& sources,
                                        const std::string& architecture) {
    // An NF compiles to the same for every chain that it stands in.
    std::erase_if(compiled_nfs_, [](const auto& one) { return one.second.empty(); });  // did not compile
    std::map<std::string, std::string> chains;  // LTO-IR of the chains' own units
    std::vector<std::pair<const TranslationUnit*, std::string*>> fresh;
    const auto add = [&](std::map<std::string, std::string>& compiled, const TranslationUnit& unit) {
        const auto [place, is_new] = compiled.try_emplace(key_of(unit, architecture));
        if (is_new) fresh.emplace_back(&unit, &place->second);
    };
    for (const ChainSource* const source : sources) {
        for (const TranslationUnit& unit : source->nfs) add(compiled_nfs_, unit);
        add(chains, source->chain);
    }
    for_each_concurrently(fresh.size(), [&](size_t i) { *fresh[i].second = compile(*fresh[i].first, architecture); });

    struct Link {
        std::vector<LinkInput> units;
        const std::vector<Kernel>& kernels;
        std::string& linked;
    };
    std::vector<Link> links;
    std::vector<Cubins> linked;
    linked.reserve(sources.size());
    for (const ChainSource* const source : sources) {
        std::vector<LinkInput> units;
        for (const TranslationUnit& unit : source->nfs)
            units.push_back({Code::lto_ir, &compiled_nfs_.at(key_of(unit, architecture))});
        units.push_back({Code::lto_ir, &chains.at(key_of(source->chain, architecture))});
        linked.emplace_back(source->cubins.size());
        for (size_t i = 0; i < source->cubins.size(); ++i)
            links.push_back({units, source->cubins[i], linked.back()[i]});
    }
    for_each_concurrently(links.size(), [&](size_t i) {
        links[i].linked = link_to(output, links[i].units, links[i].kernels, architecture);
    });
    return linked;
}

std::vector<Cubins> Compiler::build(const std::vector<const ChainSource*>& sources, const std::string& architecture) {
    return build_all(Output::cubin, sources, architecture);
}

Cubins Compiler::build_ptx(const ChainSource& source, const std::string& architecture) {
    return build_all(Output::ptx, {&source}, architecture).front();
}

}  // namespace millrace::device::cuda
