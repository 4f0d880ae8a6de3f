#include "millrace/show/socket_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

namespace millrace::show {
namespace {

constexpr int kBacklog = 64;

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw std::runtime_error(path + ": " + why); }

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        fail(path, "a socket's path has from 1 to " + std::to_string(sizeof address.sun_path - 1) + " bytes");
    path.copy(address.sun_path, path.size());
    return address;
}

int new_socket(int more_flags) {
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | more_flags, 0);
    if (made < 0) throw std::runtime_error(std::string("no Unix socket: ") + std::strerror(errno));
    return made;
}

/// Keeps others from changing who has a path of this folder. A lock on the folder itself leaves no file behind.
class FolderLock {
public:
    explicit FolderLock(const std::string& path) {
        const std::string folder = std::filesystem::path(path).parent_path().string();
        folder_.emplace(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        // Nobody holds it for long, unless to be a nuisance.
        for (int tries = 0; folder_->get() >= 0 && tries < 100; ++tries) {
            if (flock(folder_->get(), LOCK_EX | LOCK_NB) == 0) {
                held_ = true;
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    bool held() const { return held_; }

private:
    std::optional<Descriptor> folder_;
    bool held_ = false;
};

bool is_same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// Takes away what a dead process has left. With the folder locked.
void make_way(const std::string& path, const sockaddr_un& address) {
    struct stat there{};
    if (lstat(path.c_str(), &there) != 0) return;
    if (!S_ISSOCK(there.st_mode)) fail(path, "something else is there, and stays");
    // Without waiting: a process that lives and takes no connections has a full queue of them.
    const Descriptor probe(new_socket(SOCK_NONBLOCK));
    const bool answers = connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (answers || errno != ECONNREFUSED)
        throw Taken(path + ": " +
                    (answers || errno == EAGAIN ? std::string("another process answers there")
                                                : std::string(std::strerror(errno))));
    if (unlink(path.c_str()) != 0) fail(path, std::string("a dead process's socket stays: ") + std::strerror(errno));
}

}  // namespace

SocketFile::SocketFile(std::string path) : path_(std::move(path)), socket_(new_socket(SOCK_NONBLOCK)) {
    const sockaddr_un address = address_of(path_);
    const FolderLock lock(path_);
    if (!lock.held()) fail(path_, "its folder can't be locked: is there one?");
    make_way(path_, address);
    // Before it has a name, so that nobody else gets in between.
    if (fchmod(socket_.get(), S_IRUSR | S_IWUSR) != 0 ||
        bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        fail(path_, std::strerror(errno));
    if (lstat(path_.c_str(), &made_) != 0 || listen(socket_.get(), kBacklog) != 0) {
        const int error = errno;
        unlink(path_.c_str());
        fail(path_, std::strerror(error));
    }
}

SocketFile::~SocketFile() {
    const FolderLock lock(path_);
    struct stat there{};
    if (lock.held() && lstat(path_.c_str(), &there) == 0 && is_same(there, made_)) unlink(path_.c_str());
}

int connect_to(const std::string& path) {
    const sockaddr_un address = address_of(path);
    const int made = new_socket(0);
    if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return made;
    const int error = errno;
    close(made);
    fail(path, error == ECONNREFUSED ? "the run that answered there has ended" : std::strerror(error));
}

}  // namespace millrace::show
