#include "millrace/device/cuda/compile/kernel_store.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "millrace/base/files/file.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/base/files/ownership.hpp"
#include "millrace/nf/crypto/sha1.hpp"

namespace millrace::device::cuda {
namespace fs = std::filesystem;
namespace {

std::string sha1_text(const std::string& bytes) {
    crypto::Sha1 state;
    crypto::hash_finish(state, reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<uint32_t>(bytes.size()), 0);
    std::string text;
    for (const uint32_t word : state.h) text += fmt::format("{:08x}", word);
    return text;
}

void write_whole(const fs::path& path, const std::string& bytes, Readers readers) {
    try {
        write_file(path.string(), bytes, readers);
    } catch (const std::exception& e) {
        spdlog::warn("{}; compiled kernels are not kept, and will be compiled again at the next start", e.what());
    }
}

/// Nobody else may put code into this program: a kernel is taken only from a file that its user alone can write.
std::pair<std::string, std::string> check_own(const struct stat& status) {
    if (status.st_uid != geteuid()) return {"belongs to another user", ""};
    return {who_else_can_change(status, "this file", geteuid()), ""};
}

// A cubin on disk begins with the digest of its name and content: what was cut short, changed or renamed is compiled
// anew.
constexpr size_t kDigestBytes = 40;

std::string digest(const fs::path& path, const std::string& cubin) {
    return sha1_text(path.filename().string() + "\n" + cubin);
}

std::string read_cubin(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return {};
    std::string bytes;
    try {
        bytes = read_file(path.string(), {}, kMaxFileBytes, check_own);
    } catch (const std::exception& e) {
        spdlog::warn("{}", e.what());
        return {};
    }
    if (bytes.size() <= kDigestBytes) return {};
    std::string cubin = bytes.substr(kDigestBytes);
    return digest(path, cubin) == bytes.substr(0, kDigestBytes) ? cubin : std::string();
}

}  // namespace

std::string fingerprint(const ChainSource& source, const std::string& architecture) {
    std::string all = architecture + "\n" + compile_options();
    std::set<std::string> headers;  // told once, but for two plugins' of one name
    const auto add = [&](const TranslationUnit& unit) {
        all += unit.text;
        for (const auto& [name, text] : collect_headers(unit)) {
            std::string header = name;
            header.append("\n").append(text);
            if (headers.insert(header).second) all += header;
        }
    };
    for (const TranslationUnit& unit : source.nfs) add(unit);
    add(source.chain);
    for (const std::vector<Kernel>& cubin : source.cubins) {
        all += "\n";
        for (const Kernel& kernel : cubin) all += kernel.name + " ";
    }
    return sha1_text(all);
}

KernelStore::KernelStore(KernelStoreOptions options) : options_(std::move(options)) {
    if (options_.folder.empty()) options_.folder = cache_folder();
    if (options_.folder.empty()) return;
    std::error_code error;
    fs::create_directories(fs::path(options_.folder).parent_path(), error);
    mkdir(options_.folder.c_str(), 0700);
    if (!fs::exists(options_.folder, error)) return;  // writing to it will tell why
    const std::string who = who_else_can_change(options_.folder, geteuid());
    if (who.empty()) return;
    spdlog::warn("{}: compiled kernels are not kept there, as others could change them: {}", options_.folder, who);
    options_.folder.clear();
}

std::vector<Cubins> KernelStore::cubins(const std::vector<const ChainSource*>& sources,
                                        const std::string& architecture) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    std::vector<const ChainSource*> missing;
    std::vector<size_t> places;  // of those
    for (const ChainSource* const source : sources) {
        names.push_back(fingerprint(*source, architecture));
        if (cubins_.contains(names.back())) continue;
        if (Cubins kept = read(names.back(), source->cubins.size()); !kept.empty()) {
            cubins_[names.back()] = std::move(kept);
            continue;
        }
        missing.push_back(source);
        places.push_back(names.size() - 1);
    }
    const auto compiler = [&]() -> Compiler& {
        if (compiler_ == nullptr) compiler_ = std::make_unique<Compiler>();
        return *compiler_;
    };
    std::vector<Cubins> built;
    if (!missing.empty()) built = compiler().build(missing, architecture);
    for (size_t i = 0; i < built.size(); ++i) {
        const std::string& name = names[places[i]];
        for (size_t k = 0; k < built[i].size() && !options_.folder.empty(); ++k)
            write_whole(path_of(name, k), digest(path_of(name, k), built[i][k]) + built[i][k], Readers::owner);
        cubins_[name] = std::move(built[i]);
    }
    std::vector<Cubins> all;
    for (size_t i = 0; i < sources.size(); ++i) {
        all.push_back(cubins_.at(names[i]));
        if (!options_.keep.empty())
            keep(*sources[i], names[i], architecture, all.back(), compiler().build_ptx(*sources[i], architecture));
    }
    return all;
}

std::string KernelStore::path_of(const std::string& fingerprint, size_t cubin) const {
    return fs::path(options_.folder) / fmt::format("{}-{}.cubin", fingerprint, cubin);
}

/// From disk; empty unless all are there.
Cubins KernelStore::read(const std::string& fingerprint, size_t count) const {
    Cubins cubins;
    for (size_t i = 0; i < count && !options_.folder.empty(); ++i) {
        cubins.push_back(read_cubin(path_of(fingerprint, i)));
        if (cubins.back().empty()) return {};
    }
    return cubins;
}

void KernelStore::keep(const ChainSource& source, const std::string& fingerprint, const std::string& architecture,
                       const Cubins& cubins, const Cubins& ptx) const {
    const fs::path folder = options_.keep;
    const std::string name = fs::path(source.chain.name).stem().string() + "-" + fingerprint.substr(0, 8);
    for (const TranslationUnit& unit : source.nfs) write_whole(folder / unit.name, unit.text, Readers::group);
    write_whole(folder / (name + ".cu"), source.chain.text, Readers::group);
    for (size_t i = 0; i < cubins.size(); ++i) {
        const std::string own = fmt::format("{}-{}-{}", name, i, architecture);
        write_whole(folder / (own + ".cubin"), cubins[i], Readers::group);
        write_whole(folder / (own + ".ptx"), ptx[i], Readers::group);
    }
}

}  // namespace millrace::device::cuda
