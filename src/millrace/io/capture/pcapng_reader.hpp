// Walking through the blocks of a pcapng capture. Private to io/.
//
// libpcap reads pcapng too, but refuses files whose interfaces differ in link type or snap length, which
// every capture on several interfaces has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/io/capture/capture_input.hpp"

namespace millrace::io {

/// What one packet block says.
struct PcapngRecord {
    uint64_t timestamp_ns = 0;
    std::span<const uint8_t> bytes;  // the reader's, until the next call
    uint32_t wire_bytes = 0;
    int link_type = 0;  // LINKTYPE_ number
};

/// Reads sections of either byte order one after the other, with enhanced, simple and (obsolete) packet blocks
/// and any time resolution; other blocks are passed over. Source: draft-ietf-opsawg-pcapng.
class PcapngReader {
public:
    /// A block that claims to be longer is damage; none that a capture program writes comes near.
    static constexpr uint32_t kLongestBlock = 16u << 20;

    explicit PcapngReader(ByteStream& stream) : stream_(stream) {}
    /// Reads the first section header and interfaces up to the first packet; false with `error` when it is no pcapng.
    bool open();
    enum class Result { record, end, damaged };
    Result next(PcapngRecord& record);

    /// Of the first interface, 1 when there is none.
    int first_link_type() const { return interfaces_.empty() ? 1 : interfaces_[0].link_type; }
    const std::string& error() const { return error_; }
    /// Position of the block being read, in the unpacked file.
    uint64_t position() const { return block_at_; }

private:
    struct Interface {
        int link_type = 1;
        uint32_t snap_length = 0;
        uint64_t units_per_second = 1'000'000;
        int64_t offset_seconds = 0;
    };
    enum class Block { other, record, end, damaged };

    Block read_block(PcapngRecord& record);
    Block fail(const std::string& why);
    /// Fills `out` unless the stream ends before; `got` says how far it came.
    bool fill(uint8_t* out, size_t size, size_t& got);
    Block section(std::span<const uint8_t> first);
    Block interface_description(std::span<const uint8_t> body);
    void read_interface_options(std::span<const uint8_t> options, Interface& interface);
    Block enhanced_packet(std::span<const uint8_t> body, bool obsolete, PcapngRecord& record);
    Block simple_packet(std::span<const uint8_t> body, PcapngRecord& record);
    uint16_t u16(const uint8_t* p) const;
    uint32_t u32(const uint8_t* p) const;

    ByteStream& stream_;
    bool swapped_ = false;  // this section's byte order is not this machine's
    std::vector<Interface> interfaces_;
    std::vector<uint8_t> body_;
    uint64_t at_ = 0, block_at_ = 0;
    uint64_t last_ns_ = 0;  // time of the last packet that had one
    bool have_pending_ = false;
    PcapngRecord pending_;
    Block pending_block_ = Block::other;
    std::string error_;
};

}  // namespace millrace::io
