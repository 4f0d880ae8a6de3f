#include "millrace/io/capture/capture_input.hpp"

#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "millrace/base/files/file.hpp"

namespace millrace::io {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;

class PlainStream : public ByteStream {
public:
    explicit PlainStream(int fd) : fd_(fd) {
        struct stat status{};
        if (fstat(fd, &status) == 0) size_ = static_cast<uint64_t>(status.st_size);
        posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    ~PlainStream() override { close(fd_); }
    int64_t read(uint8_t* out, size_t size) override {
        ssize_t n = 0;
        do n = ::read(fd_, out, size);
        while (n < 0 && errno == EINTR);
        if (n < 0) error_ = std::strerror(errno);
        else done_ += static_cast<uint64_t>(n);
        return n;
    }
    double progress() const override {
        return size_ == 0 ? 1 : static_cast<double>(done_) / static_cast<double>(size_);
    }

private:
    int fd_;
    uint64_t size_ = 0, done_ = 0;
};

class MemoryStream : public ByteStream {
public:
    explicit MemoryStream(std::span<const uint8_t> bytes) : bytes_(bytes) {}
    int64_t read(uint8_t* out, size_t size) override {
        const size_t n = std::min(size, bytes_.size() - done_);
        if (n != 0) std::memcpy(out, bytes_.data() + done_, n);
        done_ += n;
        return static_cast<int64_t>(n);
    }
    double progress() const override {
        return bytes_.empty() ? 1 : static_cast<double>(done_) / static_cast<double>(bytes_.size());
    }

private:
    std::span<const uint8_t> bytes_;
    size_t done_ = 0;
};

class XzStream : public ByteStream {
public:
    explicit XzStream(int fd) : packed_(fd), buffer_(kBufferBytes) {
        if (lzma_stream_decoder(&stream_, kMaxXzMemoryBytes, LZMA_CONCATENATED) != LZMA_OK)
            error_ = "no memory to unpack it";
    }
    ~XzStream() override { lzma_end(&stream_); }
    int64_t read(uint8_t* out, size_t size) override {
        if (ended_) return 0;
        if (!error_.empty()) return -1;
        stream_.next_out = out;
        stream_.avail_out = size;
        while (stream_.avail_out == size) {
            if (stream_.avail_in == 0 && !fill()) return -1;
            const lzma_ret result = lzma_code(&stream_, last_ ? LZMA_FINISH : LZMA_RUN);
            if (result == LZMA_STREAM_END) {
                ended_ = true;
                break;
            }
            if (result != LZMA_OK) {
                error_ = last_ && result == LZMA_BUF_ERROR ? "the .xz file is cut off" : "the .xz file is damaged";
                // What came before the damage is handed out first; the error is told at the next call.
                return stream_.avail_out == size ? -1 : static_cast<int64_t>(size - stream_.avail_out);
            }
        }
        return static_cast<int64_t>(size - stream_.avail_out);
    }
    double progress() const override { return packed_.progress(); }

private:
    bool fill() {
        const int64_t n = packed_.read(buffer_.data(), buffer_.size());
        if (n < 0) {
            error_ = packed_.error();
            return false;
        }
        last_ = n == 0;
        stream_.next_in = buffer_.data();
        stream_.avail_in = static_cast<size_t>(n);
        return true;
    }
    PlainStream packed_;
    std::vector<uint8_t> buffer_;
    lzma_stream stream_ = LZMA_STREAM_INIT;
    bool last_ = false, ended_ = false;
};

class GzStream : public ByteStream {
public:
    explicit GzStream(int fd) {
        struct stat status{};
        if (fstat(fd, &status) == 0) size_ = static_cast<uint64_t>(status.st_size);
        file_ = gzdopen(fd, "rb");
        if (file_ == nullptr) {
            close(fd);
            error_ = "no memory to unpack it";
        } else {
            gzbuffer(file_, kBufferBytes);
        }
    }
    ~GzStream() override {
        if (file_ != nullptr) gzclose(file_);
    }
    int64_t read(uint8_t* out, size_t size) override {
        if (file_ == nullptr) return -1;
        const int n = gzread(file_, out, static_cast<unsigned>(std::min<size_t>(size, 1 << 30)));
        int code = Z_OK;
        const char* text = gzerror(file_, &code);
        // A file that is cut off gives what it has, and Z_BUF_ERROR.
        if (n < 0 || (n == 0 && code != Z_OK)) {
            error_ = code == Z_BUF_ERROR ? "the .gz file is cut off" : std::string("the .gz file is damaged: ") + text;
            return -1;
        }
        return n;
    }
    double progress() const override {
        return size_ == 0 || file_ == nullptr ? 1 : static_cast<double>(gzoffset(file_)) / static_cast<double>(size_);
    }

private:
    gzFile file_ = nullptr;
    uint64_t size_ = 0;
};

class RejoinedStream : public ByteStream {
public:
    RejoinedStream(std::vector<uint8_t> head, std::unique_ptr<ByteStream> rest)
        : head_(std::move(head)), rest_(std::move(rest)) {}
    int64_t read(uint8_t* out, size_t size) override {
        if (done_ < head_.size()) {
            const size_t n = std::min(size, head_.size() - done_);
            std::memcpy(out, head_.data() + done_, n);
            done_ += n;
            return static_cast<int64_t>(n);
        }
        const int64_t n = rest_->read(out, size);
        if (n < 0) error_ = rest_->error();
        return n;
    }
    double progress() const override { return rest_->progress(); }

private:
    std::vector<uint8_t> head_;
    std::unique_ptr<ByteStream> rest_;
    size_t done_ = 0;
};

/// What stdio needs besides the stream: the position, which it asks for by a seek to nowhere.
struct Cookie {
    ByteStream* stream;
    int64_t position = 0;
};

ssize_t cookie_read(void* cookie, char* out, size_t size) {
    auto* self = static_cast<Cookie*>(cookie);
    const int64_t n = self->stream->read(reinterpret_cast<uint8_t*>(out), size);
    if (n < 0) {
        errno = EIO;
        return -1;
    }
    self->position += n;
    return static_cast<ssize_t>(n);
}

int cookie_seek(void* cookie, off64_t* offset, int whence) {
    auto* self = static_cast<Cookie*>(cookie);
    if (whence != SEEK_CUR || *offset != 0) {
        errno = ESPIPE;
        return -1;
    }
    *offset = self->position;
    return 0;
}

int cookie_close(void* cookie) {
    delete static_cast<Cookie*>(cookie);
    return 0;
}

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::string& path, const Location& asked_from) {
    const int fd = open_file(path, asked_from);
    if (path.ends_with(".xz")) return std::make_unique<XzStream>(fd);
    if (path.ends_with(".gz")) return std::make_unique<GzStream>(fd);
    return std::make_unique<PlainStream>(fd);
}

std::unique_ptr<ByteStream> memory_stream(std::span<const uint8_t> bytes) {
    return std::make_unique<MemoryStream>(bytes);
}

std::unique_ptr<ByteStream> rejoined_stream(std::vector<uint8_t> head, std::unique_ptr<ByteStream> rest) {
    return std::make_unique<RejoinedStream>(std::move(head), std::move(rest));
}

FILE* as_file(ByteStream& stream) {
    auto* cookie = new Cookie{&stream};
    FILE* file = fopencookie(cookie, "rb",
                             {.read = cookie_read, .write = nullptr, .seek = cookie_seek, .close = cookie_close});
    if (file == nullptr) delete cookie;
    else setvbuf(file, nullptr, _IOFBF, kBufferBytes);
    return file;
}

}  // namespace millrace::io
