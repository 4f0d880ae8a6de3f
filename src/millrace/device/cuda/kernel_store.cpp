#include "millrace/device/cuda/kernel_store.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>

#include "millrace/base/file.hpp"
#include "millrace/nf/crypto/sha1.hpp"

namespace millrace::device::cuda {
namespace fs = std::filesystem;
namespace {

std::string sha1_text(const std::string& bytes) {
    crypto::Sha1 state;
    crypto::sha1_finish(state, reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<uint32_t>(bytes.size()), 0);
    std::string text;
    for (const uint32_t word : state.h) text += fmt::format("{:08x}", word);
    return text;
}

void write_whole(const fs::path& path, const std::string& bytes) {
    if (!write_file(path.string(), bytes))
        spdlog::warn("{}: compiled kernels can't be kept there; they will be compiled again at the next start", path.parent_path().string());
}

// A cubin on disk begins with its own digest: a file cut short is compiled anew.
constexpr size_t kDigestBytes = 40;

std::string read_cubin(const fs::path& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return {};
    std::string bytes;
    try {
        bytes = read_file(path.string());
    } catch (const std::exception&) {
        return {};
    }
    if (bytes.size() <= kDigestBytes) return {};
    std::string cubin = bytes.substr(kDigestBytes);
    return sha1_text(cubin) == bytes.substr(0, kDigestBytes) ? cubin : std::string();
}

}  // namespace

std::string fingerprint(const ChainSource& source, const std::string& architecture) {
    std::string all = architecture + "\n" + compile_options();
    std::map<std::string, std::string> headers;
    const auto add = [&](const TranslationUnit& unit) {
        all += unit.text;
        collect_headers(unit.text, headers);
    };
    for (const TranslationUnit& unit : source.nfs) add(unit);
    add(source.chain);
    for (const auto& [name, text] : headers) all += name + "\n" + text;
    return sha1_text(all);
}

KernelStore::KernelStore(KernelStoreOptions options) : options_(std::move(options)) {
    if (options_.folder.empty()) options_.folder = cache_folder();
}

std::string KernelStore::cubin(const ChainSource& source, const std::string& architecture) {
    const std::lock_guard lock(mutex_);
    std::string& cubin = cubins_[fingerprint(source, architecture)];
    if (cubin.empty()) {
        cubin = build(source, architecture);
        if (!options_.keep.empty()) keep(source, architecture, cubin);
    }
    return cubin;
}

std::string KernelStore::build(const ChainSource& source, const std::string& architecture) {
    const fs::path path = options_.folder.empty() ? fs::path() : fs::path(options_.folder) / (fingerprint(source, architecture) + ".cubin");
    if (!path.empty()) {
        std::string cubin = read_cubin(path);
        if (!cubin.empty()) {
            ++from_disk_;
            return cubin;
        }
    }
    if (compiler_ == nullptr) compiler_ = std::make_unique<Compiler>();
    std::string cubin = compiler_->build(source, architecture);
    ++compiled_;
    if (!path.empty()) write_whole(path, sha1_text(cubin) + cubin);
    return cubin;
}

void KernelStore::keep(const ChainSource& source, const std::string& architecture, const std::string& cubin) {
    const fs::path folder = options_.keep;
    const std::string name = fs::path(source.chain.name).stem().string() + "-" + fingerprint(source, architecture).substr(0, 8);
    for (const TranslationUnit& unit : source.nfs) write_whole(folder / unit.name, unit.text);
    write_whole(folder / (name + ".cu"), source.chain.text);
    write_whole(folder / (name + "-" + architecture + ".cubin"), cubin);
    if (compiler_ == nullptr) compiler_ = std::make_unique<Compiler>();
    write_whole(folder / (name + "-" + architecture + ".ptx"), compiler_->build_ptx(source, architecture));
}

}  // namespace millrace::device::cuda
