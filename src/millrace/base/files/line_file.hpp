// A file that lines are appended to.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "millrace/base/files/output_file.hpp"
#include "millrace/base/reporter.hpp"

namespace millrace {

/// Appends lines to a file through a buffer. The file is made when the first lines are written out.
/// What cannot be written is counted, and said once; the next lines are tried again. The file always ends with a whole
/// line. Not for several threads at once, but for `lost`.
class LineFile {
public:
    /// `lines` is what they are called when they are lost: "alerts".
    LineFile(std::string path, std::string lines, Reporter reporter)
        : path_(std::move(path)), lines_(std::move(lines)), reporter_(std::move(reporter)) {}
    ~LineFile() { flush(); }
    LineFile(const LineFile&) = delete;
    LineFile& operator=(const LineFile&) = delete;

    /// Makes or empties the file, in place of appending to it. Throws as `cannot_write` does.
    void start_afresh();
    void append(const std::string& line);
    void flush();
    const std::string& path() const { return path_; }
    /// Lines that could not be written.
    uint64_t lost() const { return lost_; }

private:
    static constexpr size_t kBufferBytes = 1 << 16;
    void lose(size_t from, const std::string& why);
    size_t cut_to_whole_lines(size_t written);

    std::string path_, lines_;
    Reporter reporter_;
    std::string buffer_;
    OutputFile file_;
    bool said_ = false;
    std::atomic<uint64_t> lost_ = 0;
};

}  // namespace millrace
