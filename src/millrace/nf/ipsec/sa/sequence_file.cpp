#include "millrace/nf/ipsec/sa/sequence_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "millrace/base/descriptor.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/nf/crypto/sha256.hpp"

namespace millrace::nf::ipsec {
namespace {

constexpr std::string_view kHead = "millrace sequence numbers 1";
constexpr size_t kDigits = 8 * crypto::Sha256::kWords;

/// Identities hold keys, so that only their digests are written.
std::string digest(const std::string& identity) {
    crypto::Sha256 state;
    crypto::hash_finish(state, reinterpret_cast<const uint8_t*>(identity.data()),
                        static_cast<uint32_t>(identity.size()), 0);
    std::string text;
    char digits[9];
    for (const uint32_t word : state.h)
        text.append(digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%08x", word)));
    return text;
}

[[noreturn]] void fail(const std::string& path) {
    throw std::runtime_error("sequence numbers can't be reserved in " + path + ": " + std::strerror(errno));
}

}  // namespace

SequenceFile::SequenceFile(std::string path, Location named_at)
    : path_(std::move(path)), named_at_(std::move(named_at)) {
    lock();
    try {
        if (std::filesystem::exists(path_)) read();
        commit();  // whether it can be written is known before a packet comes
    } catch (const ConfigError&) {
        close(lock_);
        throw;
    } catch (const std::runtime_error& error) {
        close(lock_);
        throw ConfigError({named_at_, error.what(), "name a file in a folder that can be written to"});
    }
}

SequenceFile::~SequenceFile() {
    if (lock_ >= 0) close(lock_);
}

/// A file beside it, as this one is replaced. Two nodes of one process must not share it either.
void SequenceFile::lock() {
    const std::string name = path_ + ".lock";
    lock_ = open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock_ < 0) cannot_write(name, named_at_, std::strerror(errno));
    if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
    close(std::exchange(lock_, -1));
    cannot_write(path_, named_at_, "is in use by another process, or another IPsec gateway of this one",
                 "give each a file of its own");
}

void SequenceFile::read() {
    const auto check = [&](const struct stat& status) -> std::pair<std::string, std::string> {
        if (status.st_uid != geteuid()) return {"belongs to another user", "make it anew, with fresh keys"};
        if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
            return {"is open to others than its owner", "run: chmod 600 " + path_};
        return {};
    };
    for_each_line(read_file(path_, named_at_, kMaxFileBytes, check), [&](std::string_view line, uint32_t number) {
        const auto damaged = [&] {
            throw ConfigError({{path_, number, 1},
                               "this is no line of reserved sequence numbers",
                               "take the file away only together with all keys: make new ones"});
        };
        if (number == 1) {
            if (line != kHead) damaged();
            return;
        }
        if (line.size() < kDigits + 2 || line[kDigits] != ' ') damaged();
        uint64_t up_to = 0;
        const auto [end, error] = std::from_chars(line.data() + kDigits + 1, line.data() + line.size(), up_to);
        if (error != std::errc{} || end != line.data() + line.size()) damaged();
        reserved_[std::string(line.substr(0, kDigits))] = up_to;
    });
}

uint64_t SequenceFile::reserved(const std::string& identity) const {
    const auto found = reserved_.find(digest(identity));
    return found == reserved_.end() ? 0 : found->second;
}

void SequenceFile::reserve(const std::string& identity, uint64_t up_to) { reserved_[digest(identity)] = up_to; }

void SequenceFile::forget(const std::string& identity) { reserved_.erase(digest(identity)); }

void SequenceFile::commit() {
    if (!write()) fail(path_);
}

bool SequenceFile::write() {
    std::string text(kHead);
    text += '\n';
    for (const auto& [name, up_to] : reserved_) text += name + ' ' + std::to_string(up_to) + '\n';
    // Whole under another name first: a crash leaves the old one or the new one.
    const std::string fresh = path_ + ".new";
    unlink(fresh.c_str());
    {
        const Descriptor file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (file.get() < 0 || write_bytes(file.get(), text) != text.size() || fsync(file.get()) != 0) return false;
    }
    if (rename(fresh.c_str(), path_.c_str()) != 0) return false;
    const std::string folder = std::filesystem::path(path_).parent_path();
    const Descriptor directory(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return directory.get() >= 0 && fsync(directory.get()) == 0;
}

}  // namespace millrace::nf::ipsec
