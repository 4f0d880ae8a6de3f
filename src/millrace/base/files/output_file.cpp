#include "millrace/base/files/output_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace millrace {
namespace {
namespace fs = std::filesystem;

constexpr int kMaxLinks = 16;

mode_t mode_of(Readers readers) { return readers == Readers::owner ? 0600 : 0640; }

std::string folder_of(const std::string& path) {
    const std::string folder = fs::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
}

[[noreturn]] void fail_with(int error, const std::string& path, const Location& asked_from) {
    const std::string why = std::string("cannot be written: ") + std::strerror(error);
    std::error_code unknown;
    if (error == ENOENT && !fs::exists(folder_of(path), unknown))
        cannot_write(path, asked_from, "cannot be written: there is no folder " + folder_of(path),
                     "make that folder, or name another file");
    if (error == ENXIO)
        cannot_write(path, asked_from, "is a pipe or socket that nobody reads", "start its reader first");
    if (error == EISDIR) cannot_write(path, asked_from, "is a folder, not a file", "name a file in it");
    if (error == EACCES || error == EPERM || error == EROFS)
        cannot_write(path, asked_from, why, "name a file in a folder where this user may write");
    cannot_write(path, asked_from, why);
}

/// Where a name leads, by links of this user and of root only; whoever may put a link there must not say what is
/// written.
struct Target {
    std::string path;
    bool is_magic = false;  ///< a link of /proc to something that is open, which has no path: opened through the link
};

Target follow_links(const std::string& path, const Location& asked_from) {
    Target target{path};
    for (int links = 0; links < kMaxLinks; ++links) {
        const int link = ::open(target.path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (link < 0) return target;
        struct stat status{};
        struct statfs system{};
        char text[4096];
        const bool is_link = fstat(link, &status) == 0 && S_ISLNK(status.st_mode);
        const ssize_t length = is_link ? readlinkat(link, "", text, sizeof text) : 0;
        target.is_magic = is_link && fstatfs(link, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
        ::close(link);
        if (!is_link) return target;
        if (status.st_uid != geteuid() && status.st_uid != 0)
            cannot_write(path, asked_from, target.path + " is a link of another user, and is not followed",
                         "remove the link, or name another file");
        if (target.is_magic && std::string_view(text, static_cast<size_t>(std::max<ssize_t>(length, 0))) != "self")
            return target;
        if (length <= 0) return target;
        target.path = (fs::path(folder_of(target.path)) / std::string(text, static_cast<size_t>(length))).string();
    }
    fail_with(ELOOP, path, asked_from);
}

/// Refuses what can be opened and yet is no place for output.
void check_kind(const struct stat& status, const std::string& path, const Location& asked_from) {
    if (S_ISDIR(status.st_mode)) fail_with(EISDIR, path, asked_from);
    if (S_ISBLK(status.st_mode)) cannot_write(path, asked_from, "is a disk, not a file", "name a file");
}

/// Opens what is there, or makes it. Nothing is cut off yet.
int open_target(const Target& target, int flags, mode_t mode, const std::string& path, const Location& asked_from) {
    // Without O_NONBLOCK, a pipe that nobody reads would keep the program here for ever.
    const int descriptor = ::open(
        target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (target.is_magic ? 0 : O_NOFOLLOW) | flags,
        mode);
    if (descriptor < 0) fail_with(errno, path, asked_from);
    struct stat status{};
    try {
        if (fstat(descriptor, &status) != 0) fail_with(errno, path, asked_from);
        check_kind(status, path, asked_from);
    } catch (...) {
        ::close(descriptor);
        throw;
    }
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
    return descriptor;
}

using Inode = std::pair<dev_t, ino_t>;

/// Locks a regular file against other processes: the generations of one process may write it one after the other, and
/// at once.
std::shared_ptr<const int> lock(int descriptor, const std::string& path, const Location& asked_from) {
    struct stat status{};
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
    static std::mutex mutex;
    static std::map<Inode, std::weak_ptr<const int>> locks;
    const std::lock_guard guard(mutex);
    std::erase_if(locks, [](const auto& entry) { return entry.second.expired(); });
    auto& known = locks[Inode(status.st_dev, status.st_ino)];
    if (auto own = known.lock()) return own;
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        cannot_write(path, asked_from, "is being written by another process",
                     "give each instance an output folder of its own");
    // A descriptor of its own keeps the lock when the first of the writers is done.
    const std::shared_ptr<const int> own(new int(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)), [](const int* kept) {
        ::close(*kept);
        delete kept;
    });
    known = own;
    return own;
}

/// A name beside `path` that nobody can know before.
std::string unguessable_name(const std::string& path) {
    std::array<unsigned char, 12> random{};
    if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        throw std::runtime_error("the system gives no random bytes");
    std::string name = "." + fs::path(path).filename().string().substr(0, 200) + ".";
    for (const unsigned char byte : random) name += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    return (fs::path(folder_of(path)) / name).string();
}

}  // namespace

size_t write_bytes(int descriptor, std::string_view bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t n = ::write(descriptor, bytes.data() + done, bytes.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = ENOSPC;
        if (n <= 0) break;
        done += static_cast<size_t>(n);
    }
    return done;
}

void cannot_write(const std::string& path, const Location& asked_from, const std::string& why,
                  const std::string& hint) {
    if (asked_from.file.empty()) throw std::runtime_error(path + ": " + why + (hint.empty() ? "" : " (" + hint + ")"));
    throw ConfigError(Diagnostic{asked_from, path + ": " + why, hint});
}

void check_output_folder(const std::string& path, const Location& asked_from) {
    std::error_code error;
    fs::path folder = fs::absolute(path, error);
    struct stat status{};
    while (stat(folder.c_str(), &status) != 0) {
        if (errno != ENOENT || !folder.has_relative_path()) fail_with(errno, path, asked_from);
        folder = folder.parent_path();
    }
    if (!S_ISDIR(status.st_mode))
        cannot_write(path, asked_from, folder.string() + " is a file, not a folder", "name another folder");
    // Root may write anything but what the kernel makes up.
    struct statfs system{};
    const bool is_proc = statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
    if (is_proc || faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
        fail_with(is_proc ? EROFS : errno, path, asked_from);
}

void check_output(const std::string& path, const Location& asked_from, const std::string& made_folder) {
    const Target target = follow_links(path, asked_from);
    struct stat status{};
    if (!target.is_magic && lstat(target.path.c_str(), &status) == 0) {
        check_kind(status, path, asked_from);
        if (S_ISSOCK(status.st_mode)) fail_with(ENXIO, path, asked_from);
        if (faccessat(AT_FDCWD, target.path.c_str(), W_OK, AT_EACCESS) != 0) fail_with(errno, path, asked_from);
    } else if (!target.is_magic) {
        if (errno != ENOENT) fail_with(errno, path, asked_from);
        const std::string folder = folder_of(target.path);
        const std::string inside = fs::path(folder).lexically_relative(made_folder).string();
        if (!made_folder.empty() && !inside.empty() && !inside.starts_with(".."))
            return check_output_folder(folder, asked_from);
        if (stat(folder.c_str(), &status) != 0) fail_with(errno, path, asked_from);
        if (!S_ISDIR(status.st_mode)) fail_with(ENOTDIR, path, asked_from);
        if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) fail_with(errno, path, asked_from);
    }
}

OutputFile::OutputFile(const std::string& path, Begin begin, Readers readers, const Location& asked_from) {
    const Target target = follow_links(path, asked_from);
    descriptor_ = open_target(target, O_CREAT | (begin == Begin::at_end ? O_APPEND : 0), mode_of(readers), path,
                              asked_from);
    try {
        lock_ = lock(descriptor_, path, asked_from);
        if (begin == Begin::empty && lock_ != nullptr && ftruncate(descriptor_, 0) != 0)
            fail_with(errno, path, asked_from);
    } catch (...) {
        ::close(descriptor_);
        throw;
    }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), lock_(std::move(other.lock_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    lock_ = std::move(other.lock_);
    return *this;
}

OutputFile::~OutputFile() { close(); }

bool OutputFile::close() {
    lock_.reset();
    return descriptor_ < 0 || ::close(std::exchange(descriptor_, -1)) == 0;
}

/// Hands what is written to a descriptor in large pieces, and remembers the first error.
class WholeFile::Buffer : public std::streambuf {
public:
    explicit Buffer(int descriptor) : descriptor_(descriptor) { setp(bytes_.data(), bytes_.data() + bytes_.size()); }
    ~Buffer() override {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    int error() const { return error_; }
    void close() {
        sync();
        if (::close(std::exchange(descriptor_, -1)) != 0 && error_ == 0) error_ = errno;
    }

protected:
    int_type overflow(int_type c) override {
        if (sync() != 0) return traits_type::eof();
        if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
        return traits_type::not_eof(c);
    }
    int sync() override {
        const std::string_view waiting(pbase(), static_cast<size_t>(pptr() - pbase()));
        if (error_ == 0 && write_bytes(descriptor_, waiting) < waiting.size()) error_ = errno;
        setp(bytes_.data(), bytes_.data() + bytes_.size());
        return error_ == 0 ? 0 : -1;
    }

private:
    int descriptor_, error_ = 0;
    std::array<char, 1 << 16> bytes_;
};

WholeFile::WholeFile(const std::string& path, Readers readers, const Location& asked_from)
    : path_(path), asked_from_(asked_from) {
    const Target target = follow_links(path, asked_from);
    target_ = target.path;
    struct stat status{};
    const bool is_there = target.is_magic || lstat(target_.c_str(), &status) == 0;
    const bool is_file = is_there && !target.is_magic && S_ISREG(status.st_mode);
    if (is_there && !target.is_magic) check_kind(status, path, asked_from);
    int descriptor = -1;
    if (!is_there || is_file) {
        unfinished_ = unguessable_name(target_);
        descriptor = ::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                            mode_of(readers));
        // A file that may be written in a folder that may not: all that is left is to write the file itself.
        if (descriptor < 0 && (!is_file || (errno != EACCES && errno != EPERM && errno != EROFS)))
            fail_with(errno, path, asked_from);
        // Who could read the file before may go on to do so, unless it holds secrets.
        if (descriptor >= 0 && is_file && readers == Readers::group && status.st_uid == geteuid())
            fchmod(descriptor, status.st_mode & 0777);
    }
    if (descriptor < 0) {
        unfinished_.clear();
        descriptor = open_target(target, is_file ? O_TRUNC : 0, 0, path, asked_from);
    }
    buffer_ = std::make_unique<Buffer>(descriptor);
    stream_ = std::make_unique<std::ostream>(buffer_.get());
}

WholeFile::~WholeFile() {
    if (!unfinished_.empty()) ::unlink(unfinished_.c_str());
}

std::ostream& WholeFile::stream() { return *stream_; }

void WholeFile::finish() {
    buffer_->close();
    if (buffer_->error() != 0) fail_with(buffer_->error(), path_, asked_from_);
    if (unfinished_.empty()) return;
    if (::rename(unfinished_.c_str(), target_.c_str()) != 0) fail_with(errno, path_, asked_from_);
    unfinished_.clear();
}

void write_file(const std::string& path, std::string_view bytes, Readers readers) {
    std::error_code error;
    fs::create_directories(folder_of(path), error);
    WholeFile file(path, readers);
    file.stream().write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.finish();
}

}  // namespace millrace
