// A file that lines are appended to.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "millrace/base/diagnostic.hpp"

namespace millrace::nf::nids {

/// Appends lines to a file through a buffer. The file is made when the first lines are written out.
/// What cannot be written is counted, and said once. Not for several threads at once, but for `lost`.
class LineFile {
public:
    LineFile(std::string path, std::function<void(Diagnostic)> warn) : path_(std::move(path)), warn_(std::move(warn)) {}
    ~LineFile();
    LineFile(const LineFile&) = delete;
    LineFile& operator=(const LineFile&) = delete;

    void append(const std::string& line);
    void flush();
    const std::string& path() const { return path_; }
    /// Lines that could not be written.
    uint64_t lost() const { return lost_; }

private:
    static constexpr size_t kBufferBytes = 1 << 16;
    bool open();
    void lose(size_t from);

    std::string path_;
    std::function<void(Diagnostic)> warn_;
    std::string buffer_;
    int descriptor_ = -1;
    bool said_ = false;
    std::atomic<uint64_t> lost_ = 0;
};

}  // namespace millrace::nf::nids
