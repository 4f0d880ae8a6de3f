#include "millrace/io/capture/capture_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "millrace/io/capture/pcapng.hpp"

namespace millrace::io {
namespace {

constexpr size_t kWrittenAtOnce = size_t{1} << 20;
constexpr uint32_t kEthernet = 1;  // LINKTYPE_ETHERNET
constexpr uint32_t kSnapLength = 262144;
constexpr uint32_t kNanosecondMagic = 0xa1b23c4d;

constexpr uint16_t kOptionTimeResolution = 9;  // of pcapng

uint32_t padding(uint32_t bytes) { return (4 - bytes % 4) % 4; }

}  // namespace

CaptureFormat capture_format(const std::string& path) {
    return path.ends_with(".pcapng") || path.ends_with(".ntar") ? CaptureFormat::pcapng : CaptureFormat::pcap;
}

CaptureWriter::CaptureWriter(const std::string& path, CaptureFormat format, const Location& asked_from)
    : path_(path), format_(format), file_(path, OutputFile::Begin::empty, Readers::group, asked_from) {
    buffer_.reserve(kWrittenAtOnce + kSnapLength + 64);
    append_file_header();
}

CaptureWriter::~CaptureWriter() { close(); }

void CaptureWriter::append(const void* data, size_t size) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    buffer_.insert(buffer_.end(), bytes, bytes + size);
}

void CaptureWriter::append_file_header() {
    if (format_ == CaptureFormat::pcap) {
        const struct {
            uint32_t magic = kNanosecondMagic;
            uint16_t major = 2, minor = 4;
            uint32_t zone = 0, accuracy = 0, snap_length = kSnapLength, link_type = kEthernet;
        } header;
        append(&header, sizeof header);
        return;
    }
    const struct {
        uint32_t type = kSectionHeader, length = 28, magic = kByteOrderMagic;
        uint16_t major = 1, minor = 0;
        uint32_t section_low = 0xffffffff, section_high = 0xffffffff;  // length unknown
        uint32_t length_again = 28;
    } section;
    append(&section, sizeof section);
    const struct {
        uint32_t type = kInterfaceDescription, length = 32;
        uint16_t link_type = kEthernet, reserved = 0;
        uint32_t snap_length = 0;  // unlimited
        uint16_t option = kOptionTimeResolution, option_length = 1;
        uint8_t resolution = 9, pad[3] = {0, 0, 0};  // 10^-9 s
        uint32_t end_of_options = 0;
        uint32_t length_again = 32;
    } interface;
    append(&interface, sizeof interface);
}

void CaptureWriter::write(uint64_t timestamp_ns, std::span<const std::span<const uint8_t>> pieces,
                          uint32_t wire_bytes) {
    if (!error_.empty() || !file_.is_open()) {
        ++lost_records_;
        return;
    }
    uint32_t captured = 0;
    for (const auto& piece : pieces) captured += static_cast<uint32_t>(piece.size());
    const uint32_t wire = std::max(wire_bytes, captured);
    if (format_ == CaptureFormat::pcap) {
        const uint32_t header[4] = {static_cast<uint32_t>(timestamp_ns / 1'000'000'000),
                                    static_cast<uint32_t>(timestamp_ns % 1'000'000'000), captured, wire};
        append(header, sizeof header);
        for (const auto& piece : pieces) append(piece.data(), piece.size());
    } else {
        const uint32_t length = 32 + captured + padding(captured);
        const uint32_t header[7] = {kEnhancedPacket,
                                    length,
                                    0 /* interface */,
                                    static_cast<uint32_t>(timestamp_ns >> 32),
                                    static_cast<uint32_t>(timestamp_ns),
                                    captured,
                                    wire};
        append(header, sizeof header);
        for (const auto& piece : pieces) append(piece.data(), piece.size());
        const uint32_t zero = 0;
        append(&zero, padding(captured));
        append(&length, sizeof length);
    }
    ++buffered_records_;
    buffered_bytes_ += captured;
    if (buffer_.size() >= kWrittenAtOnce) write_buffer();
}

bool CaptureWriter::write_buffer() {
    const std::string_view bytes(reinterpret_cast<const char*>(buffer_.data()), buffer_.size());
    if (write_bytes(file_.descriptor(), bytes) < bytes.size()) error_ = path_ + ": " + std::strerror(errno);
    if (error_.empty()) {
        file_bytes_ += buffer_.size();
        written_records_ += buffered_records_;
        written_bytes_ += buffered_bytes_;
    } else {
        lost_records_ += buffered_records_;
        // Half a record at the end would make the file look damaged; pipes and devices cannot be cut.
        if (ftruncate(file_.descriptor(), static_cast<off_t>(file_bytes_)) != 0)
            error_ += " (and its end cannot be cut off)";
    }
    buffer_.clear();
    buffered_records_ = buffered_bytes_ = 0;
    return error_.empty();
}

bool CaptureWriter::flush() {
    if (!file_.is_open() || !error_.empty()) return error_.empty();
    return buffer_.empty() || write_buffer();
}

bool CaptureWriter::close() {
    if (!file_.is_open()) return error_.empty();
    flush();
    if (!file_.close() && error_.empty()) error_ = path_ + ": " + std::strerror(errno);
    return error_.empty();
}

}  // namespace millrace::io
