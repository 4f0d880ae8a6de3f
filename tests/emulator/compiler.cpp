// The part of NVRTC's and nvJitLink's interfaces that the program uses: "LTO-IR" is an object file of the host here,
// and a "cubin" a shared library that holds the kernels.
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "host_text.hpp"
#include "nvrtc.hpp"
#include "ptx.hpp"

namespace fs = std::filesystem;

namespace {

constexpr int kFailed = 6;  // NVRTC_ERROR_COMPILATION

std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}
void write(const fs::path& path, const std::string& bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
}

/// A folder for one compiler's run.
class Folder {
public:
    Folder() {
        std::string name = (fs::temp_directory_path() / "emulator-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("emulator: no folder can be made in " + fs::temp_directory_path().string());
        path_ = name;
    }
    ~Folder() {
        std::error_code error;
        fs::remove_all(path_, error);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

/// Whether `words` ran and succeeded in `folder`; `log` is what it said.
bool run(const fs::path& folder, const std::vector<std::string>& words, std::string& log) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string log_path = folder / "log";
    posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    // The compiler is not to meet the libraries that stand in for a GPU's, and its own cache lies where it always does.
    std::vector<char*> environment;
    for (char** variable = environ; *variable != nullptr; ++variable)
        if (strncmp(*variable, "LD_", 3) != 0 && strncmp(*variable, "XDG_", 4) != 0) environment.push_back(*variable);
    environment.push_back(nullptr);
    pid_t child = 0;
    int status = 1;
    const bool started = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environment.data()) == 0;
    posix_spawn_file_actions_destroy(&actions);
    if (started) waitpid(child, &status, 0);
    log = started ? read(log_path) : words[0] + " can't be run";
    return started && status == 0;
}

std::vector<std::string> compiler() { return {EMULATOR_LAUNCHER EMULATOR_COMPILER}; }

/// Where what is made of these texts is kept, for all processes; empty where there is no folder for it (`emulated`
/// names one). Those of another emulator are gone: CMakeLists.txt.
fs::path kept_path(const std::vector<std::string>& texts) {
    static const char* const cache = std::getenv("XDG_CACHE_HOME");
    std::error_code error;
    if (cache == nullptr || (fs::create_directories(fs::path(cache) / "units", error), error)) return {};
    // FNV-1a, over bytes and over lengths with them: 128 bits.
    uint64_t first = 0xcbf29ce484222325, second = 0x84222325cbf29ce4;
    for (const std::string& text : texts) {
        for (const char c : text) {
            first = (first ^ static_cast<uint8_t>(c)) * 0x100000001b3;
            second = (second ^ static_cast<uint8_t>(c) ^ (second >> 29)) * 0x100000001b3;
        }
        first = (first ^ text.size()) * 0x100000001b3;
        second = (second ^ text.size()) * 0x100000001b3;
    }
    std::ostringstream name;
    name << std::hex << first << '-' << second << ".o";
    return fs::path(cache) / "units" / name.str();
}

/// Held while something is made: who wants the same waits for it.
class Lock {
public:
    /// Of what is to lie at `path`; of nothing where that is empty.
    explicit Lock(const fs::path& path)
        : file_(path.empty() ? -1 : open((path.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
        if (file_ >= 0) flock(file_, LOCK_EX);
    }
    ~Lock() {
        if (file_ >= 0) close(file_);
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

private:
    const int file_;
};

/// What `make` makes of texts, in `made`: once, by whichever process comes first. False if it makes nothing.
template <class Make>
bool make_once(const std::vector<std::string>& texts, std::string& made, const Make& make) {
    const fs::path kept = kept_path(texts);
    const Lock lock(kept);
    made = kept.empty() ? std::string() : read(kept);
    if (!made.empty()) return true;
    if (!make()) return false;
    if (kept.empty()) return true;
    // Whole or not at all, also where a process is killed meanwhile.
    const fs::path written = kept.string() + ".new";
    write(written, made);
    std::error_code error;
    fs::rename(written, kept, error);
    return true;
}

/// The object that `words` make of files by name, the last of which is compiled; false, and why, if they make none.
bool compile(std::vector<std::string> words, const std::vector<std::pair<std::string, std::string>>& files,
             std::string& object, std::string& log) {
    for (const char* word : {"-c", "-o", "unit.o"}) words.push_back(word);
    words.push_back(files.back().first);
    std::vector<std::string> texts = words;
    for (const auto& [name, text] : files) texts.insert(texts.end(), {name, text});
    return make_once(texts, object, [&] {
        const Folder folder;
        for (const auto& [name, text] : files) write(folder.path() / name, text);
        if (!run(folder.path(), words, log)) return false;
        object = read(folder.path() / "unit.o");
        return true;
    });
}

const std::vector<std::string> kPlainCompiler{EMULATOR_COMPILER, "-std=c++20",          "-O1",
                                              "-fPIC",           "-fvisibility=hidden", "-fno-gnu-unique"};

/// The library of kernels that objects make; false, and why, if they make none.
bool link_library(const std::vector<std::string>& objects, std::string& library, std::string& log) {
    const char* const connection =
        "#include \"" EMULATOR_FOLDER
        "calls.hpp\"\nnamespace emulator {\nthread_local const ThreadView* self = nullptr;\nconst Calls* calls = "
        "nullptr;\n}\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) void emulated_connect(const emulator::Calls* calls) { "
        "emulator::calls = calls; }\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) void emulated_enter(const emulator::ThreadView* view) "
        "{ emulator::self = view; }\n";
    std::vector<std::string> all(1);
    if (!compile(kPlainCompiler, {{"library.cpp", connection}}, all[0], log)) return false;
    all.insert(all.end(), objects.begin(), objects.end());
    return make_once(all, library, [&] {
        const Folder folder;
        std::vector<std::string> words = {EMULATOR_COMPILER, EMULATOR_LINKER "-shared", "-Wl,--no-undefined", "-o",
                                          "library.so"};
        for (size_t i = 0; i < all.size(); ++i) {
            words.push_back("unit" + std::to_string(i) + ".o");
            write(folder.path() / words.back(), all[i]);
        }
        if (run(folder.path(), words, log)) library = read(folder.path() / "library.so");
        return !library.empty();
    });
}

struct Program {
    std::string name, source, log, object, ptx;
    std::vector<std::pair<std::string, std::string>> headers;
};

constexpr int kInputPtx = 2;

struct Link {
    std::vector<std::string> objects, ptx;
    std::string kernels;  ///< those that are wanted, each ended by a zero; empty: all
    std::string image, log;
};

/// What kernels call in place of functions of PTX, which the driver's part reads: the interpreter.
bool add_foreign(Link& link) {
    std::string text = "#include \"" EMULATOR_FOLDER "calls.hpp\"\nnamespace emulator { extern const Calls* calls; }\n";
    text += "extern \"C\" __attribute__((visibility(\"default\"))) const void* emulated_foreign[" +
            std::to_string(link.ptx.size()) + "] = {};\n";
    for (size_t i = 0; i < link.ptx.size(); ++i) {
        const auto module = emulator::PtxModule::read(link.ptx[i], link.log);
        if (module == nullptr) return false;
        for (const std::string& name : module->functions())
            text += "extern \"C\" unsigned long long " + name +
                    "(void* handle, const void* tables) { return emulator::calls->foreign(emulated_foreign[" +
                    std::to_string(i) + "], \"" + name + "\", handle, tables); }\n";
    }
    return compile(kPlainCompiler, {{"foreign.cpp", text}}, link.objects.emplace_back(), link.log);
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
    *major = 12;
    *minor = 0;
    return 0;
}
const char* nvrtcGetErrorString(int result) { return result == 0 ? "success" : "the compiler of the host refuses it"; }
int nvrtcCreateProgram(Program** program, const char* source, const char* name, int headers, const char* const* texts,
                       const char* const* names) {
    *program = new Program{name, source, {}, {}, {}, {}};
    for (int i = 0; i < headers; ++i) (*program)->headers.emplace_back(names[i], texts[i]);
    return 0;
}
int nvrtcDestroyProgram(Program** program) {
    delete *program;
    *program = nullptr;
    return 0;
}
int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    if (!std::any_of(options, options + count, [](const char* option) { return strcmp(option, "-dlto") == 0; }))
        return emulator::compile_ptx(program->source, program->name, program->headers, {options, options + count},
                                     program->ptx, program->log);
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& [name, text] : program->headers) files.emplace_back(name, emulator::for_the_host(text));
    files.emplace_back(program->name,
                       emulator::for_the_host(program->source) + "\n" + emulator::entries(program->source));
    std::vector<std::string> words = compiler();
    // What a GPU faults at is to fault here: what is misaligned. Wholes are read as words, as GPUs' compilers let them
    // be. -Og makes a kernel in two thirds of the time of -O1, and -O0, which inlines nothing, in half the time of -Og.
    const char *const level = std::getenv("EMULATED_OPTIMIZATION"), *const first = EMULATOR_FOLDER "cuda_words.hpp";
    words.insert(words.end(), {"-x", "c++", "-std=c++20", level == nullptr ? "-Og" : level, "-w", "-fPIC",
                               "-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing", "-fno-exceptions",
                               "-fno-rtti", "-fno-asynchronous-unwind-tables", "-fsanitize=alignment",
                               "-fsanitize-undefined-trap-on-error", "-I.", "-include", first});
    return compile(words, files, program->object, program->log) ? 0 : kFailed;
}
int nvrtcGetPTXSize(Program* program, size_t* size) {
    *size = program->ptx.size() + 1;
    return 0;
}
int nvrtcGetPTX(Program* program, char* to) {
    memcpy(to, program->ptx.c_str(), program->ptx.size() + 1);
    return 0;
}
int nvrtcGetProgramLogSize(Program* program, size_t* size) {
    *size = program->log.size() + 1;
    return 0;
}
int nvrtcGetProgramLog(Program* program, char* log) {
    memcpy(log, program->log.c_str(), program->log.size() + 1);
    return 0;
}
int nvrtcGetLTOIRSize(Program* program, size_t* size) {
    *size = program->object.size();
    return 0;
}
int nvrtcGetLTOIR(Program* program, char* to) {
    std::ranges::copy(program->object, to);
    return 0;
}

int nvJitLinkCreate(Link** link, uint32_t count, const char** options) {
    constexpr std::string_view kUsed = "-kernels-used=";
    *link = new Link;
    for (uint32_t i = 0; i < count; ++i)
        if (const std::string_view option = options[i]; option.starts_with(kUsed))
            (*link)->kernels.append(option.substr(kUsed.size())) += '\0';
    return 0;
}
int nvJitLinkDestroy(Link** link) {
    delete *link;
    *link = nullptr;
    return 0;
}
int nvJitLinkAddData(Link* link, int kind, const void* data, size_t size, const char*) {
    if (kind == kInputPtx) link->ptx.emplace_back(static_cast<const char*>(data));
    else link->objects.emplace_back(static_cast<const char*>(data), size);
    return 0;
}
int nvJitLinkComplete(Link* link) {
    if (link->objects.empty()) {
        if (link->ptx.size() != 1) return kFailed;
        if (emulator::PtxModule::read(link->ptx[0], link->log) == nullptr) return kFailed;
        // In place of a library's length: what follows is text (driver_modules.cpp).
        link->image = std::string(sizeof(uint64_t), '\0') + link->ptx[0] + '\0';
        return 0;
    }
    if (!link->ptx.empty() && !add_foreign(*link)) return kFailed;
    std::string library;
    if (!link_library(link->objects, library, link->log)) return kFailed;
    // The driver is told where an image begins, but not where it ends.
    const uint64_t bytes = library.size();
    link->image.assign(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    link->image += library + link->kernels + '\0';
    for (const std::string& text : link->ptx) link->image += text + '\0';
    link->image += '\0';
    return 0;
}
int nvJitLinkGetLinkedCubinSize(Link* link, size_t* size) {
    *size = link->image.size();
    return 0;
}
int nvJitLinkGetLinkedCubin(Link* link, void* to) {
    memcpy(to, link->image.data(), link->image.size());
    return 0;
}
// There is no PTX: --keep-kernels writes an empty file.
int nvJitLinkGetLinkedPtxSize(Link*, size_t* size) {
    *size = 0;
    return 0;
}
int nvJitLinkGetLinkedPtx(Link*, char*) { return 0; }
int nvJitLinkGetErrorLogSize(Link* link, size_t* size) {
    *size = link->log.size() + 1;
    return 0;
}
int nvJitLinkGetErrorLog(Link* link, char* log) {
    memcpy(log, link->log.c_str(), link->log.size() + 1);
    return 0;
}
}
