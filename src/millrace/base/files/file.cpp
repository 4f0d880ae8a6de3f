#include "millrace/base/files/file.hpp"

#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "millrace/base/descriptor.hpp"

namespace millrace {
namespace {

[[noreturn]] void fail(const std::string& path, const Location& asked_from, const std::string& why,
                       const std::string& hint = {}) {
    if (asked_from.file.empty()) throw ConfigError(Diagnostic{{path, 0, 0}, why, hint});
    throw ConfigError(Diagnostic{asked_from, path + ": " + why, hint});
}

/// Reads to the end, or one byte beyond the limit.
std::string read_bytes(int descriptor, const std::string& path, const Location& asked_from, size_t limit) {
    struct stat status{};
    fstat(descriptor, &status);
    std::string bytes(std::min(static_cast<size_t>(status.st_size), limit) + 1, '\0');
    size_t done = 0;
    while (done <= limit) {
        const ssize_t n = ::read(descriptor, bytes.data() + done, bytes.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail(path, asked_from, std::string("cannot be read: ") + std::strerror(errno));
        if (n == 0) break;
        done += static_cast<size_t>(n);
        // It grows, or is one of /proc, which tell no size.
        if (done == bytes.size()) bytes.resize(std::min(2 * bytes.size(), limit + 1));
    }
    bytes.resize(done);
    return bytes;
}

/// Unpacks all of it, or a little more than the limit.
std::string unpack_xz(const std::string& packed, const std::string& path, const Location& asked_from, size_t limit) {
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream, kMaxXzMemoryBytes, LZMA_CONCATENATED) != LZMA_OK)
        fail(path, asked_from, "no memory to unpack it");
    stream.next_in = reinterpret_cast<const uint8_t*>(packed.data());
    stream.avail_in = packed.size();
    std::string out;
    char buffer[1 << 16];
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK && out.size() <= limit) {
        stream.next_out = reinterpret_cast<uint8_t*>(buffer);
        stream.avail_out = sizeof buffer;
        result = lzma_code(&stream, LZMA_FINISH);
        out.append(buffer, sizeof buffer - stream.avail_out);
    }
    lzma_end(&stream);
    if (out.size() > limit) return out;
    if (result == LZMA_MEMLIMIT_ERROR)
        fail(path, asked_from, "takes too much memory to unpack", "pack it with 'xz -9' or less");
    if (result != LZMA_STREAM_END)
        fail(path, asked_from, "is not a sound .xz file", "unpack it with 'xz -t' to see where it breaks");
    return out;
}

/// Unpacks all of it, or a little more than the limit.
std::string unpack_gz(int descriptor, const std::string& path, const Location& asked_from, size_t limit) {
    gzFile file = gzdopen(dup(descriptor), "rb");
    if (file == nullptr) fail(path, asked_from, "no memory to unpack it");
    std::string out;
    char buffer[1 << 16];
    int got = 0;
    while (out.size() <= limit && (got = gzread(file, buffer, sizeof buffer)) > 0)
        out.append(buffer, static_cast<size_t>(got));
    const bool is_bad = gzclose(file) != Z_OK || got < 0;
    if (is_bad && out.size() <= limit)
        fail(path, asked_from, "is not a sound .gz file", "unpack it with 'gzip -t' to see where it breaks");
    return out;
}

/// The content, or more than `limit` bytes of it.
std::string read_open_file(int descriptor, const std::string& path, const Location& asked_from, size_t limit) {
    if (path.ends_with(".gz")) return unpack_gz(descriptor, path, asked_from, limit);
    if (!path.ends_with(".xz")) return read_bytes(descriptor, path, asked_from, limit);
    return unpack_xz(read_bytes(descriptor, path, asked_from, kMaxFileBytes), path, asked_from, limit);
}

const char* kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "is a folder, not a file";
    if (S_ISFIFO(mode)) return "is a pipe, not a file";
    if (S_ISSOCK(mode)) return "is a socket, not a file";
    return "is a device, not a file";
}

}  // namespace

int open_file(const std::string& path, const Location& asked_from, const FileCheck& check) {
    // What is no file could keep the program waiting here, or read for ever.
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0 && errno == ENXIO) fail(path, asked_from, kind_of(S_IFSOCK), "name a file");
    if (descriptor < 0)
        fail(path, asked_from, std::strerror(errno),
             errno == ENOENT ? "paths are taken from the folder of the file that names them" : "");
    struct stat status{};
    std::string why = fstat(descriptor, &status) != 0 ? std::strerror(errno) : "", hint;
    if (why.empty() && !S_ISREG(status.st_mode)) {
        why = kind_of(status.st_mode);
        hint = S_ISDIR(status.st_mode) ? "name a file in it" : "write what it gives into a file, and name that";
    }
    if (why.empty() && check) std::tie(why, hint) = check(status);
    if (why.empty()) return descriptor;
    ::close(descriptor);
    fail(path, asked_from, why, hint);
}

std::string read_file(const std::string& path, const Location& asked_from, size_t limit_bytes, const FileCheck& check) {
    const Descriptor file(open_file(path, asked_from, check));
    const bool is_packed = path.ends_with(".gz") || path.ends_with(".xz");
    struct stat status{};
    const bool is_too_long = !is_packed && fstat(file.get(), &status) == 0 &&
                             static_cast<uint64_t>(status.st_size) > limit_bytes;
    std::string text = is_too_long ? "" : read_open_file(file.get(), path, asked_from, limit_bytes);
    if (is_too_long || text.size() > limit_bytes)
        fail(path, asked_from,
             "is longer than " + std::to_string(limit_bytes) + " bytes" + (is_packed ? " unpacked" : ""),
             "is it the file that is meant?");
    return text;
}

std::string read_beginning(const std::string& path, size_t most_bytes) {
    const Descriptor file(open_file(path));
    std::string text = read_open_file(file.get(), path, {}, most_bytes);
    text.resize(std::min(text.size(), most_bytes));
    return text;
}

void for_each_line(std::string_view text, const std::function<void(std::string_view, uint32_t)>& f) {
    uint32_t number = 0;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        if (line.ends_with('\r')) line.remove_suffix(1);
        f(line, ++number);
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

std::string resolve_path(const std::string& path, const std::string& from_file) {
    const std::filesystem::path p(path);
    if (p.is_absolute() || from_file.empty()) return path;
    return (std::filesystem::path(from_file).parent_path() / p).lexically_normal().string();
}

std::string cache_folder() {
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
        return std::string(cache) + "/millrace";
    if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
        return std::string(home) + "/.cache/millrace";
    return {};
}

}  // namespace millrace
