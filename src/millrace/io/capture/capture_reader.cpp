#include "millrace/io/capture/capture_reader.hpp"

#include <pcap/pcap.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "millrace/io/capture/capture_input.hpp"
#include "millrace/io/capture/pcapng_reader.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::io {

struct CaptureReader::Input {
    std::span<const uint8_t> memory;  // when it is read from memory
    bool from_memory = false;
    std::unique_ptr<ByteStream> stream;
    FILE* file = nullptr;  // for libpcap
    pcap_t* pcap = nullptr;
    std::unique_ptr<PcapngReader> pcapng;
    uint64_t round_records = 0;  // since the file was last opened

    void close() {
        if (pcap != nullptr) pcap_close(pcap);  // closes the file too
        else if (file != nullptr) fclose(file);
        pcap = nullptr;
        file = nullptr;
        pcapng.reset();
        stream.reset();
    }
    ~Input() { close(); }
};

namespace {

constexpr size_t kPcapHeaderBytes = 24, kPcapSnapLengthAt = 16;

/// libpcap cuts records to the header's snap length. Captures whose records are longer exist, and their bytes
/// are there, so the header is made to allow the most that libpcap takes.
void lift_snap_length(std::vector<uint8_t>& head) {
    constexpr uint32_t kMagics[] = {0xa1b2c3d4, 0xa1b23c4d, 0xa1b2cd34};  // us, ns, and Linux of the nineties
    constexpr uint32_t kMax = 262144;
    if (head.size() < kPcapHeaderBytes) return;
    for (const uint32_t magic : kMagics) {
        if (load_be32(head.data()) == magic) store_be32(head.data() + kPcapSnapLengthAt, kMax);
        if (load_be32(head.data()) == __builtin_bswap32(magic))
            store_be32(head.data() + kPcapSnapLengthAt, __builtin_bswap32(kMax));
    }
}

bool is_pcapng(const std::vector<uint8_t>& head) { return head.size() >= 4 && load_be32(head.data()) == 0x0a0d0d0a; }

}  // namespace

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
    input_->stream = input_->from_memory ? memory_stream(input_->memory) : open_stream(name_, asked_from_);
    std::string why;
    if (!open_format(why))
        fail("is no capture that can be read: " + why, "pcap and pcapng are read, plain, .xz and .gz");
}

bool CaptureReader::open_format(std::string& why) {
    std::vector<uint8_t> head(kPcapHeaderBytes);
    size_t got = 0;
    for (int64_t n = 1; n > 0 && got < head.size(); got += static_cast<size_t>(std::max<int64_t>(n, 0)))
        n = input_->stream->read(head.data() + got, head.size() - got);
    if (why = input_->stream->error(); !why.empty() && got < head.size()) return false;
    head.resize(got);
    lift_snap_length(head);
    const bool pcapng = is_pcapng(head);
    input_->stream = rejoined_stream(std::move(head), std::move(input_->stream));
    if (pcapng) {
        input_->pcapng = std::make_unique<PcapngReader>(*input_->stream);
        if (input_->pcapng->open()) return true;
        why = input_->pcapng->error();
        return false;
    }
    input_->file = as_file(*input_->stream);
    char message[PCAP_ERRBUF_SIZE] = "";
    if (input_->file != nullptr)
        input_->pcap = pcap_fopen_offline_with_tstamp_precision(input_->file, PCAP_TSTAMP_PRECISION_NANO, message);
    else why = std::strerror(errno);
    if (input_->pcap != nullptr) return true;
    if (why.empty()) why = input_->stream->error().empty() ? message : input_->stream->error();
    return false;
}

bool CaptureReader::next_pcap(CaptureRecord& record, std::string& why) {
    pcap_pkthdr* header = nullptr;
    const u_char* bytes = nullptr;
    const int result = pcap_next_ex(input_->pcap, &header, &bytes);
    if (result != 1) {
        if (result != PCAP_ERROR_BREAK)
            why = "near byte " + std::to_string(ftello(input_->file)) + ": " +
                  (input_->stream->error().empty() ? pcap_geterr(input_->pcap) : input_->stream->error());
        return false;
    }
    // Times before the epoch or far behind our age are a damaged header: they must not overflow.
    constexpr int64_t kMaxSeconds = int64_t{1} << 33;
    const int64_t seconds = std::clamp<int64_t>(header->ts.tv_sec, 0, kMaxSeconds);
    const int64_t nanoseconds = std::clamp<int64_t>(header->ts.tv_usec, 0, 999'999'999);
    record.timestamp_ns = static_cast<uint64_t>(seconds) * 1'000'000'000 + static_cast<uint64_t>(nanoseconds);
    record.bytes = {bytes, header->caplen};
    record.wire_bytes = std::max(header->len, header->caplen);
    record.link_type = pcap_datalink(input_->pcap);
    return true;
}

bool CaptureReader::next_pcapng(CaptureRecord& record, std::string& why) {
    PcapngRecord read;
    const PcapngReader::Result result = input_->pcapng->next(read);
    if (result != PcapngReader::Result::record) {
        if (result == PcapngReader::Result::damaged)
            why = "in the block at byte " + std::to_string(input_->pcapng->position()) + ": " + input_->pcapng->error();
        return false;
    }
    record.timestamp_ns = read.timestamp_ns;
    record.bytes = read.bytes;
    record.wire_bytes = read.wire_bytes;
    record.link_type = read.link_type;
    return true;
}

bool CaptureReader::next(CaptureRecord& record) {
    if (!error_.empty()) return false;
    std::string why;
    if (!(input_->pcapng ? next_pcapng(record, why) : next_pcap(record, why))) {
        if (!why.empty())
            error_ = name_ + ": damaged behind record " + std::to_string(input_->round_records) + ", " + why;
        return false;
    }
    ++input_->round_records;
    record.number = ++records_;
    record.head = {};
    return true;
}

void CaptureReader::rewind() {
    open();
    error_.clear();
}

bool CaptureReader::to_ethernet(CaptureRecord& record) {
    if (record.link_type == kEthernetLink) return true;
    if (!to_ethernet_head(record.link_type, record.bytes, head_)) return false;
    record.bytes = record.bytes.subspan(head_.skip);
    // A file may claim any length on the wire.
    const uint64_t wire = uint64_t{record.wire_bytes} - head_.skip + head_.bytes.size();
    record.wire_bytes = static_cast<uint32_t>(std::min<uint64_t>(wire, UINT32_MAX));
    record.head = head_.bytes;
    return true;
}

int CaptureReader::link_type() const {
    return input_->pcapng ? input_->pcapng->first_link_type() : pcap_datalink(input_->pcap);
}

std::string CaptureReader::link_type_name() const {
    const char* name = pcap_datalink_val_to_name(link_type());
    return name != nullptr ? name : std::to_string(link_type());
}

double CaptureReader::progress() const { return std::min(input_->stream->progress(), 1.0); }

CaptureScan scan_capture(CaptureReader& reader, uint64_t limit_bytes) {
    CaptureScan scan;
    CaptureRecord record;
    while (reader.next(record)) {
        ++scan.records;
        scan.bytes += record.bytes.size();
        scan.longest_bytes = std::max(scan.longest_bytes, static_cast<uint32_t>(record.bytes.size()));
        scan.longest_wire_bytes = std::max(scan.longest_wire_bytes, record.wire_bytes);
        scan.all_ethernet &= record.link_type == kEthernetLink;
        if (scan.bytes > limit_bytes) {
            scan.complete = false;
            break;
        }
    }
    reader.restart();
    return scan;
}

}  // namespace millrace::io
