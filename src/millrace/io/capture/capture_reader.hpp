// Reading packet captures: pcap and pcapng of either byte order and any time resolution, plain, .xz or .gz.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/io/capture/link_type.hpp"

namespace millrace::io {

inline constexpr int kEthernetLink = 1;

/// One record of a capture. The bytes are the reader's, good until its next call.
struct CaptureRecord {
    uint64_t number = 0;        ///< in the file, from 1
    uint64_t timestamp_ns = 0;  ///< since the epoch
    std::span<const uint8_t> bytes;
    int link_type = 1;        ///< LINKTYPE_ or DLT_ number; 1 is Ethernet
    uint32_t wire_bytes = 0;  ///< length on the wire, at least bytes.size(); more when the capture was cut (snapped)
    /// After `to_ethernet`: the Ethernet header that stands before `bytes`; empty for Ethernet captures.
    std::span<const uint8_t> head;
};

/// Reads one capture from front to back: pcap with libpcap, pcapng with PcapngReader, as libpcap refuses files
/// whose interfaces differ. Damage is no exception: reading ends there, and `error()` says where and what.
/// Records of pcap may have 256 KiB (libpcap's limit), whatever snap length the file's header claims: libpcap
/// alone would cut them to that.
class CaptureReader {
public:
    /// Opens a file; `.xz` and `.gz` are unpacked while reading. Throws ConfigError, at `asked_from` if
    /// given, when it cannot be opened or is no capture.
    explicit CaptureReader(const std::string& path, const Location& asked_from = {});
    /// Reads a capture that lies in memory, which must stay there. `name` is for errors.
    CaptureReader(std::span<const uint8_t> bytes, const std::string& name);
    ~CaptureReader();
    CaptureReader(const CaptureReader&) = delete;
    CaptureReader& operator=(const CaptureReader&) = delete;

    /// The next record; false at the end and at damage (`error()` tells them apart).
    bool next(CaptureRecord& record);
    /// Goes back to the first record; numbers go on counting. Throws ConfigError when the file is gone.
    void rewind();
    /// Back to the first record, with the number 1.
    void restart() {
        rewind();
        records_ = 0;
    }

    /// Gives `record` an Ethernet header if its link type has none of its own (link_type.hpp), cutting
    /// off what stood there. False when this link type has no Ethernet form or the record is cut short.
    bool to_ethernet(CaptureRecord& record);

    /// The link type of the file, in pcapng of its first interface, and its name ("EN10MB").
    int link_type() const;
    std::string link_type_name() const;
    bool is_ethernet() const { return link_type() == kEthernetLink; }
    /// What is wrong with the file and behind which record and byte; empty when nothing is.
    const std::string& error() const { return error_; }
    /// Share of the (packed) file that was read, 0 to 1.
    double progress() const;
    /// Records read so far, over all rounds.
    uint64_t records() const { return records_; }

private:
    struct Input;
    void open();
    bool open_format(std::string& why);
    bool next_pcap(CaptureRecord& record, std::string& why);
    bool next_pcapng(CaptureRecord& record, std::string& why);
    std::unique_ptr<Input> input_;
    std::string name_;
    Location asked_from_;
    std::string error_;
    uint64_t records_ = 0;
    EthernetHead head_;
};

/// What a quick pass over a capture tells.
struct CaptureScan {
    uint64_t records = 0;
    uint64_t bytes = 0;
    uint32_t longest_bytes = 0;       ///< longest record as captured
    uint32_t longest_wire_bytes = 0;  ///< longest frame on the wire
    bool all_ethernet = true;
    bool complete = true;  ///< false: `limit_bytes` ended the pass
};

/// Reads through `reader` until `limit_bytes` of records have passed, and rewinds it.
CaptureScan scan_capture(CaptureReader& reader, uint64_t limit_bytes);

}  // namespace millrace::io
