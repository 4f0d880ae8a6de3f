// What zlib makes of texts, for tests of decoders.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace millrace::nf::nids {

enum class Wrap : int { gzip = 31, zlib = 15, bare = -15 };

/// A text as zlib compresses it.
inline std::string compress(const std::string& text, Wrap wrap, int level = 6, int strategy = Z_DEFAULT_STRATEGY) {
    z_stream stream{};
    if (deflateInit2(&stream, level, Z_DEFLATED, static_cast<int>(wrap), 8, strategy) != Z_OK)
        throw std::runtime_error("deflateInit2");
    std::string out(deflateBound(&stream, text.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int result = deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    if (result != Z_STREAM_END) throw std::runtime_error("deflate");
    return out;
}

/// What zlib makes of a bare deflate stream, as far as it gets; `good`: there was nothing wrong with it.
inline std::string decompress_bare(const std::string& data, size_t most, bool& good) {
    z_stream stream{};
    if (inflateInit2(&stream, -15) != Z_OK) throw std::runtime_error("inflateInit2");
    std::string out(most, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.avail_in = static_cast<uInt>(data.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int result = inflate(&stream, Z_SYNC_FLUSH);
    good = result != Z_DATA_ERROR && result != Z_NEED_DICT;
    out.resize(stream.total_out);
    inflateEnd(&stream);
    return out;
}

}  // namespace millrace::nf::nids
