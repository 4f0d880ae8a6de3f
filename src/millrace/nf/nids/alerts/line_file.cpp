#include "millrace/nf/nids/alerts/line_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace::nf::nids {

LineFile::~LineFile() {
    flush();
    if (descriptor_ >= 0) ::close(descriptor_);
}

void LineFile::append(const std::string& line) {
    buffer_ += line;
    buffer_ += '\n';
    if (buffer_.size() >= kBufferBytes) flush();
}

bool LineFile::open() {
    if (descriptor_ < 0) descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return descriptor_ >= 0;
}

void LineFile::lose(size_t from) {
    const int error = errno;
    lost_ += static_cast<uint64_t>(std::count(buffer_.begin() + static_cast<ptrdiff_t>(from), buffer_.end(), '\n'));
    if (said_) return;
    said_ = true;
    warn_({{path_, 0, 0}, std::string("cannot be written: ") + std::strerror(error),
           "alerts are lost until it can; eve-lines-lost counts them", Diagnostic::Severity::warning});
}

void LineFile::flush() {
    if (buffer_.empty()) return;
    size_t written = 0;
    if (open()) {
        while (written < buffer_.size()) {
            const ssize_t n = ::write(descriptor_, buffer_.data() + written, buffer_.size() - written);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) break;
            written += static_cast<size_t>(n);
        }
    }
    if (written < buffer_.size()) lose(written);
    buffer_.clear();
}

}  // namespace millrace::nf::nids
