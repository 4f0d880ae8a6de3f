#include "millrace/base/file.hpp"

#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace millrace {
namespace {

[[noreturn]] void fail(const std::string& path, const Location& asked_from, const std::string& why, const std::string& hint = {}) {
    if (asked_from.file.empty()) throw ConfigError(Diagnostic{{path, 0, 0}, why, hint});
    throw ConfigError(Diagnostic{asked_from, path + ": " + why, hint});
}

std::string unpack_xz(const std::string& packed, const std::string& path, const Location& asked_from, size_t limit) {
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream, UINT64_MAX, LZMA_CONCATENATED) != LZMA_OK) fail(path, asked_from, "no memory to unpack it");
    stream.next_in = reinterpret_cast<const uint8_t*>(packed.data());
    stream.avail_in = packed.size();
    std::string out;
    char buffer[1 << 16];
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK) {
        stream.next_out = reinterpret_cast<uint8_t*>(buffer);
        stream.avail_out = sizeof buffer;
        result = lzma_code(&stream, LZMA_FINISH);
        out.append(buffer, sizeof buffer - stream.avail_out);
        if (out.size() > limit) break;
    }
    lzma_end(&stream);
    if (out.size() > limit) fail(path, asked_from, "is longer than " + std::to_string(limit) + " bytes unpacked");
    if (result != LZMA_STREAM_END) fail(path, asked_from, "is not a sound .xz file", "unpack it with 'xz -t' to see where it breaks");
    return out;
}

std::string unpack_gz(const std::string& path, const Location& asked_from, size_t limit) {
    gzFile file = gzopen(path.c_str(), "rb");
    if (file == nullptr) fail(path, asked_from, std::strerror(errno));
    std::string out;
    char buffer[1 << 16];
    int got = 0;
    while ((got = gzread(file, buffer, sizeof buffer)) > 0 && out.size() <= limit) out.append(buffer, static_cast<size_t>(got));
    const bool bad = got < 0 || gzclose(file) != Z_OK;
    if (out.size() > limit) fail(path, asked_from, "is longer than " + std::to_string(limit) + " bytes unpacked");
    if (bad) fail(path, asked_from, "is not a sound .gz file", "unpack it with 'gzip -t' to see where it breaks");
    return out;
}

}  // namespace

std::string read_file(const std::string& path, const Location& asked_from, size_t limit_bytes) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) fail(path, asked_from, "is a folder, not a file");
    if (path.ends_with(".gz")) return unpack_gz(path, asked_from, limit_bytes);
    std::ifstream in(path, std::ios::binary);
    if (!in) fail(path, asked_from, std::strerror(errno), "paths are taken from the folder of the file that names them");
    std::ostringstream content;
    content << in.rdbuf();
    if (in.bad()) fail(path, asked_from, "cannot be read");
    std::string text = std::move(content).str();
    if (path.ends_with(".xz")) return unpack_xz(text, path, asked_from, limit_bytes);
    if (text.size() > limit_bytes) fail(path, asked_from, "is longer than " + std::to_string(limit_bytes) + " bytes");
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

bool write_file(const std::string& path, std::string_view bytes) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    const std::string fresh = path + "." + std::to_string(getpid());
    bool written = false;
    {
        std::ofstream out(fresh, std::ios::binary);
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        out.flush();
        written = out.good();
    }
    error.clear();
    if (written) fs::rename(fresh, path, error);
    if (written && !error) return true;
    fs::remove(fresh, error);
    return false;
}

std::string cache_folder() {
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return std::string(cache) + "/millrace";
    if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::string(home) + "/.cache/millrace";
    return {};
}

}  // namespace millrace
