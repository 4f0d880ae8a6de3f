#include "millrace/nf/plugin.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "millrace/base/files/file.hpp"
#include "millrace/base/running.hpp"
#include "millrace/nf/registry.hpp"

// In the section of that name; a plugin has one of its own.
extern "C" __attribute__((visibility("hidden"))) const char millrace_abi[];

namespace millrace::nf {
namespace {

constexpr std::string_view kStampSection = ".millrace.abi";
constexpr size_t kMaxPluginBytes = size_t{1} << 30;

/// Guards the two below, and that one library is loaded at a time.
std::mutex& plugin_mutex() {
    static std::mutex mutex;
    return mutex;
}
/// By content; never freed, as types and code are used until the program ends.
std::map<std::string, std::unique_ptr<Plugin>>& plugins() {
    static auto& all = *new std::map<std::string, std::unique_ptr<Plugin>>;
    return all;
}
/// What `load_plugin` was given, and what it found there.
struct Standing {
    std::string path;
    const Plugin* plugin;
};
std::vector<Standing>& standing_plugins() {
    static std::vector<Standing> all;
    return all;
}

template <class T>
bool read_at(std::string_view bytes, uint64_t at, T& into) {
    if (at > bytes.size() || sizeof into > bytes.size() - at) return false;
    std::memcpy(&into, bytes.data() + at, sizeof into);
    return true;
}
std::string_view part_of(std::string_view bytes, uint64_t at, uint64_t count) {
    return at > bytes.size() || count > bytes.size() - at ? std::string_view() : bytes.substr(at, count);
}
std::string_view until_zero(std::string_view text) { return text.substr(0, text.find('\0')); }

std::string content_of(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
        throw PluginError(path + ": there is no such file", "build it first, or mend the path");
    try {
        return read_file(path, {}, kMaxPluginBytes);
    } catch (const std::exception& e) {
        throw PluginError(e.what());
    }
}

/// A copy in memory that nobody else can write to. dlopen gives back a library that it has already when file or name
/// are the same, so the descriptor of a library at work stays open: no later copy gets its number.
class PrivateCopy {
public:
    PrivateCopy(const std::string& path, std::string_view content)
        : file_(memfd_create(std::filesystem::path(path).filename().c_str(), MFD_CLOEXEC)) {
        while (file_ >= 0 && !content.empty()) {
            const ssize_t wrote = write(file_, content.data(), content.size());
            if (wrote > 0) content.remove_prefix(static_cast<size_t>(wrote));
            else if (errno != EINTR) break;
        }
        if (file_ >= 0 && content.empty()) return;
        const std::string why = std::strerror(errno);
        if (file_ >= 0) close(file_);
        throw PluginError(path + ": there is no memory for a copy of it: " + why);
    }
    ~PrivateCopy() {
        if (file_ >= 0) close(file_);
    }
    PrivateCopy(const PrivateCopy&) = delete;
    PrivateCopy& operator=(const PrivateCopy&) = delete;
    std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
    void keep() { file_ = -1; }

private:
    int file_;
};

/// Loader messages name the copy.
std::string with_path(std::string message, const std::string& copy, const std::string& path) {
    if (const size_t at = message.find(copy); at != std::string::npos) message.replace(at, copy.size(), path);
    return message;
}

void check_stamp(const std::string& path, std::string_view content) {
    constexpr const char* kBuildAgain =
        "build it again, against this Millrace: cmake -DCMAKE_PREFIX_PATH=… with the folder that it is installed in";
    const std::string_view stamp = abi_stamp_of(content);
    if (stamp.empty())
        throw PluginError(path + ": this is no plugin of Millrace: it carries no stamp of what it was built against",
                          "build it with millrace_add_nf");
    if (stamp != abi_stamp())
        throw PluginError(path + ": it was built against the headers of another Millrace (" + std::string(stamp) +
                              "; this one is " + std::string(abi_stamp()) + ")",
                          kBuildAgain);
}

}  // namespace

std::string_view abi_stamp() { return millrace_abi; }

std::string_view abi_stamp_of(std::string_view library) {
    Elf64_Ehdr head;
    if (!read_at(library, 0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr))
        return {};
    const auto section = [&](unsigned index, Elf64_Shdr& into) {
        return read_at(library, head.e_shoff + uint64_t{index} * sizeof into, into);
    };
    Elf64_Shdr names;
    if (!section(head.e_shstrndx, names)) return {};
    const std::string_view all_names = part_of(library, names.sh_offset, names.sh_size);
    for (unsigned i = 0; i < head.e_shnum; ++i) {
        Elf64_Shdr one;
        if (!section(i, one) || one.sh_type == SHT_NOBITS || one.sh_name >= all_names.size()) continue;
        if (until_zero(all_names.substr(one.sh_name)) == kStampSection)
            return until_zero(part_of(library, one.sh_offset, one.sh_size));
    }
    return {};
}

const Plugin& Plugin::open(const std::string& path) {
    const std::string content = content_of(path);
    const std::lock_guard lock(plugin_mutex());
    auto& all = plugins();
    if (const auto found = all.find(content); found != all.end()) return *found->second;
    check_stamp(path, content);
    std::unique_ptr<Plugin> plugin(new Plugin);
    plugin->path_ = path;
    plugin->load(content);
    return *all.emplace(content, std::move(plugin)).first->second;
}

void Plugin::check(const std::string& path) { check_stamp(path, content_of(path)); }

void Plugin::load(const std::string& content) {
    PrivateCopy copy(path_, content);
    Registrations registered;
    void* const library = [&] {
        const Running running(path_, Call::loading);
        return dlopen(copy.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }();
    if (library == nullptr)
        throw PluginError(with_path(dlerror(), copy.path(), path_),
                          "what it calls must be Millrace's, or of a library that it is linked with by its whole path");
    sources_ = std::move(registered.sources);
    for (std::unique_ptr<Type>& type : registered.types) {
        type->plugin = path_;
        type->sources = &sources_;
        types_.push_back(std::move(type));
    }
    try {
        check_types();
    } catch (...) {
        // Nobody has called any of its code yet.
        types_.clear();
        sources_.clear();
        dlclose(library);
        throw;
    }
    copy.keep();
}

void Plugin::check_types() {
    if (types_.empty())
        throw PluginError(path_ + ": it registers no network function",
                          "a constant of type millrace::nf::Register makes one known");
    for (const auto& type : types_) {
        const std::string who = path_ + ": '" + type->name + "' ";
        if (type->name.empty()) throw PluginError(path_ + ": a network function of it has no name");
        if (type->outcomes.empty()) throw PluginError(who + "declares no outcomes", "it needs one at least");
        if (type->outcomes.size() > kUndeclaredOutcome)
            throw PluginError(who + "declares more outcomes than the " + std::to_string(kUndeclaredOutcome) +
                              " that there may be");
        if (find_built_in(type->name) != nullptr)
            throw PluginError(who + "has the name of a network function that is built in", "give it another");
        if (find_device_source(type->device_header, &sources_) == nullptr)
            throw PluginError(who + "brings no header '" + type->device_header + "' along for GPUs",
                              "device_header is the header's path below ROOT of millrace_add_nf");
        for (const auto& other : types_)
            if (other != type && other->name == type->name)
                throw PluginError(path_ + ": two network functions of it are named '" + type->name + "'");
    }
}

void load_plugin(const std::string& path) {
    const Plugin& plugin = Plugin::open(path);
    Catalogue().add(path);  // throws where it does not go together with those before
    auto& all = standing_plugins();
    const auto known = std::find_if(all.begin(), all.end(),
                                    [&](const Standing& standing) { return standing.path == path; });
    if (known == all.end()) all.push_back({path, &plugin});
    else known->plugin = &plugin;
}

Catalogue::Catalogue() : types_(all_built_in()) {
    for (const Standing& standing : standing_plugins()) add(standing.path);
}

void Catalogue::add(const std::string& path) {
    for (const auto& type : Plugin::open(path).types()) {
        const Type* taken = find(type->name);
        if (taken == type.get()) continue;  // the same content by two paths
        if (taken != nullptr)
            throw PluginError(
                path + ": a network function named '" + type->name + "' comes from " + paths_[taken] + " already",
                "name one of the two plugins only");
        paths_[type.get()] = path;
        types_.insert(std::upper_bound(types_.begin(), types_.end(), type.get(),
                                       [](const Type* a, const Type* b) { return a->name < b->name; }),
                      type.get());
    }
}

const Type* Catalogue::find(std::string_view name) const {
    const auto found = std::find_if(types_.begin(), types_.end(), [&](const Type* type) { return type->name == name; });
    return found == types_.end() ? nullptr : *found;
}

const Type* find_type(std::string_view name) {
    for (const Type* type : all_types())
        if (type->name == name) return type;
    return nullptr;
}

std::vector<const Type*> all_types() {
    std::vector<const Type*> all = all_built_in();
    for (const Standing& standing : standing_plugins())
        for (const auto& type : standing.plugin->types()) all.push_back(type.get());
    std::sort(all.begin(), all.end(), [](const Type* a, const Type* b) { return a->name < b->name; });
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

}  // namespace millrace::nf
