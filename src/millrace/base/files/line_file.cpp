#include "millrace/base/files/line_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

namespace millrace {

void LineFile::start_afresh() { file_ = OutputFile(path_, OutputFile::Begin::empty); }

void LineFile::append(const std::string& line) {
    buffer_ += line;
    buffer_ += '\n';
    if (buffer_.size() >= kBufferBytes) flush();
}

/// Takes the piece of a line at the end of the first `written` bytes out of the file again; returns how many stay
/// there.
size_t LineFile::cut_to_whole_lines(size_t written) {
    if (written == 0) return 0;
    const size_t end = buffer_.rfind('\n', written - 1);
    const size_t whole = end == std::string::npos ? 0 : end + 1;
    const off_t at = ::lseek(file_.descriptor(), 0, SEEK_CUR);
    const auto piece = static_cast<off_t>(written - whole);
    // Pipes and devices cannot be cut.
    if (piece > 0 && at >= piece && ::ftruncate(file_.descriptor(), at - piece) == 0)
        ::lseek(file_.descriptor(), at - piece, SEEK_SET);
    return whole;
}

void LineFile::lose(size_t from, const std::string& why) {
    lost_ += static_cast<uint64_t>(std::count(buffer_.begin() + static_cast<ptrdiff_t>(from), buffer_.end(), '\n'));
    if (!std::exchange(said_, true)) reporter_.trouble({{}, why, lines_ + " are lost until it can"});
}

void LineFile::flush() {
    if (buffer_.empty()) return;
    try {
        if (!file_.is_open()) file_ = OutputFile(path_, OutputFile::Begin::at_end);
        const size_t written = write_bytes(file_.descriptor(), buffer_);
        const int error = errno;
        if (written < buffer_.size())
            lose(cut_to_whole_lines(written), path_ + ": cannot be written: " + std::strerror(error));
    } catch (const std::exception& e) {
        lose(0, e.what());
    }
    buffer_.clear();
}

}  // namespace millrace
