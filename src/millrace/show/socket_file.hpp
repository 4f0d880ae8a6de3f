// A Unix socket at a path that one process at a time answers at.
#pragma once

#include <sys/stat.h>

#include <stdexcept>
#include <string>

#include "millrace/base/descriptor.hpp"

namespace millrace::show {

/// The path has a socket that another process answers at.
struct Taken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Listens while it lives; only its user (and root) may connect. The socket of a process that is gone is replaced, that
/// of a living one is not, nor is anything else; where several processes begin at once, one of them gets the path.
class SocketFile {
public:
    /// Throws Taken, or std::runtime_error with what is wrong.
    explicit SocketFile(std::string path);
    /// Removes the path, unless somebody else has it by now.
    ~SocketFile();
    SocketFile(const SocketFile&) = delete;
    SocketFile& operator=(const SocketFile&) = delete;

    int descriptor() const { return socket_.get(); }
    const std::string& path() const { return path_; }

private:
    const std::string path_;
    Descriptor socket_;
    struct stat made_{};  // the path's, when it was made
};

/// Connects to the socket at a path. Throws std::runtime_error with what is wrong.
int connect_to(const std::string& path);

}  // namespace millrace::show
