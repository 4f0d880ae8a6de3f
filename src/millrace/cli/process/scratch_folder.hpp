// Files that a command needs while it works.
#pragma once

#include <string>

namespace millrace::cli {

/// A folder below the system's for temporary files that vanishes with its owner.
class ScratchFolder {
public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    /// Before its owner goes: it vanishes now.
    void remove() const;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace millrace::cli
