#include "millrace/device/cuda/kernel_store.hpp"

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

std::vector<std::string> KernelStore::cubins(const std::vector<const ChainSource*>& sources,
                                             const std::string& architecture) {
    const std::lock_guard lock(mutex_);
    std::vector<const ChainSource*> missing;
    for (const ChainSource* const source : sources) {
        const std::string name = fingerprint(*source, architecture);
        if (cubins_.contains(name)) continue;
        std::string cubin = options_.folder.empty() ? std::string() : read_cubin(path_of(name));
        if (cubin.empty()) {
            missing.push_back(source);
        } else {
            ++from_disk_;
            cubins_[name] = std::move(cubin);
        }
    }
    if (!missing.empty()) build(missing, architecture);
    std::vector<std::string> cubins;
    for (const ChainSource* const source : sources) {
        cubins.push_back(cubins_.at(fingerprint(*source, architecture)));
        if (!options_.keep.empty()) keep(*source, architecture, cubins.back());
    }
    return cubins;
}

std::string KernelStore::path_of(const std::string& fingerprint) const {
    return fs::path(options_.folder) / (fingerprint + ".cubin");
}

void KernelStore::build(const std::vector<const ChainSource*>& sources, const std::string& architecture) {
    if (compiler_ == nullptr) compiler_ = std::make_unique<Compiler>();
    std::vector<std::string> built = compiler_->build(sources, architecture);
    for (size_t i = 0; i < sources.size(); ++i) {
        ++compiled_;
        const std::string name = fingerprint(*sources[i], architecture);
        if (!options_.folder.empty())
            write_whole(path_of(name), digest(path_of(name), built[i]) + built[i], Readers::owner);
        cubins_[name] = std::move(built[i]);
    }
}

void KernelStore::keep(const ChainSource& source, const std::string& architecture, const std::string& cubin) {
    const fs::path folder = options_.keep;
    const std::string name = fs::path(source.chain.name).stem().string() + "-" +
                             fingerprint(source, architecture).substr(0, 8);
    for (const TranslationUnit& unit : source.nfs) write_whole(folder / unit.name, unit.text, Readers::group);
    write_whole(folder / (name + ".cu"), source.chain.text, Readers::group);
    write_whole(folder / (name + "-" + architecture + ".cubin"), cubin, Readers::group);
    if (compiler_ == nullptr) compiler_ = std::make_unique<Compiler>();
    write_whole(folder / (name + "-" + architecture + ".ptx"), compiler_->build_ptx(source, architecture),
                Readers::group);
}

}  // namespace millrace::device::cuda
