// Writing packet captures: pcap or pcapng, with times in nanoseconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/base/files/output_file.hpp"

namespace millrace::io {

enum class CaptureFormat { pcap, pcapng };

/// By the end of the file's name: `.pcapng` or `.ntar` is pcapng, all else pcap.
CaptureFormat capture_format(const std::string& path);

/// Writes one capture of Ethernet frames in the byte order of this machine. Records are collected and
/// written in large pieces. After an error (a full disk) nothing more is written, the file is cut back to
/// its last whole record, and everything since counts as lost: written + lost + buffered records is always
/// the number of calls of `write`. One thread at a time.
class CaptureWriter {
public:
    /// Creates or empties the file. Throws ConfigError, at `asked_from` if given, when that fails.
    CaptureWriter(const std::string& path, CaptureFormat format, const Location& asked_from = {});
    explicit CaptureWriter(const std::string& path) : CaptureWriter(path, capture_format(path)) {}
    ~CaptureWriter();
    CaptureWriter(const CaptureWriter&) = delete;
    CaptureWriter& operator=(const CaptureWriter&) = delete;

    /// Appends a record of the pieces' bytes one after the other. `wire_bytes` below their sum counts as the sum.
    void write(uint64_t timestamp_ns, std::span<const std::span<const uint8_t>> pieces, uint32_t wire_bytes = 0);
    void write(uint64_t timestamp_ns, std::span<const uint8_t> bytes, uint32_t wire_bytes = 0) {
        write(timestamp_ns, std::span(&bytes, 1), wire_bytes);
    }
    /// Hands everything to the kernel; false when something was lost, now or before.
    bool flush();
    /// Flushes and closes. Called again it does nothing.
    bool close();

    uint64_t written_records() const { return written_records_; }
    uint64_t written_bytes() const { return written_bytes_; }  ///< of frames, without the format's own
    uint64_t lost_records() const { return lost_records_; }
    const std::string& error() const { return error_; }

private:
    void append(const void* data, size_t size);
    void append_file_header();
    bool write_buffer();

    std::string path_;
    CaptureFormat format_;
    OutputFile file_;
    std::string error_;
    std::vector<uint8_t> buffer_;
    uint64_t file_bytes_ = 0;  // written so far, whole records only
    uint64_t buffered_records_ = 0, buffered_bytes_ = 0;
    uint64_t written_records_ = 0, written_bytes_ = 0, lost_records_ = 0;
};

}  // namespace millrace::io
