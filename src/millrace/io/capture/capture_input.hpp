// A file, plain or packed, as a stream of bytes. Private to io/.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace::io {

/// Bytes from front to back; packed files are unpacked on the way.
class ByteStream {
public:
    virtual ~ByteStream() = default;
    /// Up to `size` bytes; 0 at the end; negative when the file cannot be read or unpacked (see `error`).
    virtual int64_t read(uint8_t* out, size_t size) = 0;
    /// Share of the file that was consumed.
    virtual double progress() const = 0;
    const std::string& error() const { return error_; }

protected:
    std::string error_;
};

/// Opens `path` by the end of its name (.xz, .gz, else plain). Throws ConfigError, at `asked_from` if given.
std::unique_ptr<ByteStream> open_stream(const std::string& path, const Location& asked_from);
std::unique_ptr<ByteStream> memory_stream(std::span<const uint8_t> bytes);
/// `head`, which was read from `rest` before (and may have been changed), and then `rest`.
std::unique_ptr<ByteStream> rejoined_stream(std::vector<uint8_t> head, std::unique_ptr<ByteStream> rest);

/// A stdio file over `stream`, which must outlive it; ftello tells the position in the unpacked bytes.
FILE* as_file(ByteStream& stream);

}  // namespace millrace::io
