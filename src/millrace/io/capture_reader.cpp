#include "millrace/io/capture_reader.hpp"

#include <pcap/pcap.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "millrace/io/capture_input.hpp"

namespace millrace::io {

struct CaptureReader::Input {
    std::span<const uint8_t> memory;  // when it is read from memory
    bool from_memory = false;
    std::unique_ptr<ByteStream> stream;
    FILE* file = nullptr;
    pcap_t* pcap = nullptr;
    uint64_t round_records = 0;  // since the file was last opened

    void close() {
        if (pcap != nullptr) pcap_close(pcap);  // closes the file too
        else if (file != nullptr) fclose(file);
        pcap = nullptr;
        file = nullptr;
        stream.reset();
    }
    ~Input() { close(); }
};

CaptureReader::CaptureReader(const std::string& path, const Location& asked_from)
    : input_(std::make_unique<Input>()), name_(path), asked_from_(asked_from) {
    open();
}

CaptureReader::CaptureReader(std::span<const uint8_t> bytes, const std::string& name)
    : input_(std::make_unique<Input>()), name_(name) {
    input_->memory = bytes;
    input_->from_memory = true;
    open();
}

CaptureReader::~CaptureReader() = default;

void CaptureReader::open() {
    const auto fail = [this](const std::string& why, const std::string& hint) {
        if (asked_from_.file.empty()) throw ConfigError(Diagnostic{{name_, 0, 0}, why, hint});
        throw ConfigError(Diagnostic{asked_from_, name_ + ": " + why, hint});
    };
    input_->close();
    input_->round_records = 0;
    input_->stream = input_->from_memory ? memory_stream(input_->memory) : open_stream(name_);
    if (!input_->stream) fail(std::strerror(errno), "paths are taken from the folder of the file that names them");
    input_->file = as_file(*input_->stream);
    if (input_->file == nullptr) fail(std::strerror(errno), "");
    char message[PCAP_ERRBUF_SIZE] = "";
    input_->pcap = pcap_fopen_offline_with_tstamp_precision(input_->file, PCAP_TSTAMP_PRECISION_NANO, message);
    if (input_->pcap == nullptr)
        fail("is no capture that can be read: " + (input_->stream->error().empty() ? message : input_->stream->error()),
             "pcap and pcapng are read, plain, .xz and .gz");
}

bool CaptureReader::next(CaptureRecord& record) {
    if (!error_.empty()) return false;
    pcap_pkthdr* header = nullptr;
    const u_char* bytes = nullptr;
    const int result = pcap_next_ex(input_->pcap, &header, &bytes);
    if (result == PCAP_ERROR_BREAK) return false;
    if (result != 1) {
        const std::string& unpacking = input_->stream->error();
        error_ = name_ + ": damaged behind record " + std::to_string(input_->round_records) + ", near byte " +
                 std::to_string(ftello(input_->file)) + ": " + (unpacking.empty() ? pcap_geterr(input_->pcap) : unpacking);
        return false;
    }
    ++input_->round_records;
    record.number = ++records_;
    // Times before the epoch or far behind our age are a damaged header: they must not overflow.
    constexpr int64_t kMostSeconds = int64_t{1} << 34;
    const int64_t seconds = std::clamp<int64_t>(header->ts.tv_sec, 0, kMostSeconds);
    const int64_t nanoseconds = std::clamp<int64_t>(header->ts.tv_usec, 0, 999'999'999);
    record.timestamp_ns = static_cast<uint64_t>(seconds) * 1'000'000'000 + static_cast<uint64_t>(nanoseconds);
    record.bytes = {bytes, header->caplen};
    record.wire_bytes = std::max(header->len, header->caplen);
    record.head = {};
    return true;
}

void CaptureReader::rewind() {
    open();
    error_.clear();
}

bool CaptureReader::to_ethernet(CaptureRecord& record) {
    if (is_ethernet()) return true;
    if (!to_ethernet_head(link_type(), record.bytes, head_)) return false;
    record.bytes = record.bytes.subspan(head_.skip);
    record.wire_bytes = record.wire_bytes - head_.skip + static_cast<uint32_t>(head_.bytes.size());
    record.head = head_.bytes;
    return true;
}

int CaptureReader::link_type() const { return pcap_datalink(input_->pcap); }

std::string CaptureReader::link_type_name() const {
    const char* name = pcap_datalink_val_to_name(link_type());
    return name != nullptr ? name : std::to_string(link_type());
}

bool CaptureReader::is_ethernet() const { return link_type() == DLT_EN10MB; }
uint32_t CaptureReader::snap_length() const { return static_cast<uint32_t>(std::max(pcap_snapshot(input_->pcap), 0)); }
double CaptureReader::progress() const { return std::min(input_->stream->progress(), 1.0); }

CaptureScan scan_capture(CaptureReader& reader, uint64_t limit_bytes) {
    CaptureScan scan;
    CaptureRecord record;
    while (reader.next(record)) {
        ++scan.records;
        scan.bytes += record.bytes.size();
        scan.longest_bytes = std::max(scan.longest_bytes, static_cast<uint32_t>(record.bytes.size()));
        scan.longest_wire_bytes = std::max(scan.longest_wire_bytes, record.wire_bytes);
        if (scan.bytes > limit_bytes) {
            scan.complete = false;
            break;
        }
    }
    reader.restart();
    return scan;
}

}  // namespace millrace::io
