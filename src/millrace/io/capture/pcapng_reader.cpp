#include "millrace/io/capture/pcapng_reader.hpp"

#include <algorithm>
#include <cstring>

#include "millrace/io/capture/pcapng.hpp"

namespace millrace::io {
namespace {

constexpr uint16_t kEndOfOptions = 0, kTimeResolution = 9, kTimeOffset = 14;

template <class T>
T load(const uint8_t* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

size_t padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

/// if_tsresol: a power of ten, or of two when the top bit is set. Finer than a clock can be counts as its limit.
uint64_t resolution(uint8_t value) {
    if ((value & 0x80) != 0) return uint64_t{1} << std::min<unsigned>(value & 0x7f, 63);
    uint64_t units = 1;
    for (unsigned i = 0; i < std::min<unsigned>(value, 19); ++i) units *= 10;
    return units;
}

uint64_t to_ns(uint64_t ticks, uint64_t units_per_second, int64_t offset_seconds) {
    constexpr __int128 kMax = static_cast<__int128>(1) << 63;
    __int128 ns = static_cast<__int128>(static_cast<unsigned __int128>(ticks) * 1'000'000'000u / units_per_second);
    ns += static_cast<__int128>(offset_seconds) * 1'000'000'000;
    return static_cast<uint64_t>(std::clamp<__int128>(ns, 0, kMax));
}

}  // namespace

uint16_t PcapngReader::u16(const uint8_t* p) const {
    const auto value = load<uint16_t>(p);
    return swapped_ ? __builtin_bswap16(value) : value;
}
uint32_t PcapngReader::u32(const uint8_t* p) const {
    const auto value = load<uint32_t>(p);
    return swapped_ ? __builtin_bswap32(value) : value;
}

PcapngReader::Block PcapngReader::fail(const std::string& why) {
    error_ = why;
    return Block::damaged;
}

bool PcapngReader::fill(uint8_t* out, size_t size, size_t& got) {
    got = 0;
    while (got < size) {
        const int64_t n = stream_.read(out + got, size - got);
        if (n <= 0) {
            if (n < 0) error_ = stream_.error();
            return false;
        }
        got += static_cast<size_t>(n);
    }
    at_ += size;
    return true;
}

PcapngReader::Block PcapngReader::read_block(PcapngRecord& record) {
    block_at_ = at_;
    uint8_t head[12];
    size_t got = 0;
    if (!fill(head, sizeof head, got)) {
        if (got == 0 && error_.empty()) return Block::end;
        return fail(error_.empty() ? "the file ends inside a block" : error_);
    }
    // The type of a section header reads the same in both byte orders; its magic tells which one follows.
    const bool is_section = load<uint32_t>(head) == kSectionHeader;
    if (is_section) {
        const auto magic = load<uint32_t>(head + 8);
        if (magic != kByteOrderMagic && magic != kSwappedMagic)
            return fail("a section begins without its byte-order mark");
        swapped_ = magic == kSwappedMagic;
    }
    const uint32_t type = u32(head), length = u32(head + 4);
    if (length < 12 || length % 4 != 0 || length > kLongestBlock)
        return fail("a block claims " + std::to_string(length) + " bytes");
    body_.resize(length - 8);
    std::memcpy(body_.data(), head + 8, 4);
    if (!fill(body_.data() + 4, body_.size() - 4, got))
        return fail(error_.empty() ? "the file ends inside a block" : error_);
    if (u32(body_.data() + body_.size() - 4) != length) return fail("a block's two lengths differ");
    const std::span<const uint8_t> body(body_.data(), body_.size() - 4);
    if (is_section) return section(body);
    switch (type) {
        case kInterfaceDescription: return interface_description(body);
        case kEnhancedPacket: return enhanced_packet(body, false, record);
        case kObsoletePacket: return enhanced_packet(body, true, record);
        case kSimplePacket: return simple_packet(body, record);
        default: return Block::other;
    }
}

PcapngReader::Block PcapngReader::section(std::span<const uint8_t> body) {
    if (body.size() < 16) return fail("a section header is too short");
    if (u16(body.data() + 4) != 1)
        return fail("its format version is " + std::to_string(u16(body.data() + 4)) + ", not 1");
    interfaces_.clear();
    return Block::other;
}

PcapngReader::Block PcapngReader::interface_description(std::span<const uint8_t> body) {
    if (body.size() < 8) return fail("an interface description is too short");
    if (interfaces_.size() >= 65536) return fail("it has more than 65,536 interfaces");
    Interface interface;
    interface.link_type = u16(body.data());
    interface.snap_length = u32(body.data() + 4);
    read_interface_options(body.subspan(8), interface);
    interfaces_.push_back(interface);
    return Block::other;
}

void PcapngReader::read_interface_options(std::span<const uint8_t> options, Interface& interface) {
    while (options.size() >= 4) {
        const uint16_t code = u16(options.data()), length = u16(options.data() + 2);
        if (code == kEndOfOptions || padded(length) > options.size() - 4) return;
        const uint8_t* value = options.data() + 4;
        if (code == kTimeResolution && length >= 1) interface.units_per_second = resolution(*value);
        if (code == kTimeOffset && length >= 8) {
            const auto offset = load<uint64_t>(value);
            interface.offset_seconds = static_cast<int64_t>(swapped_ ? __builtin_bswap64(offset) : offset);
        }
        options = options.subspan(4 + padded(length));
    }
}

PcapngReader::Block PcapngReader::enhanced_packet(std::span<const uint8_t> body, bool obsolete, PcapngRecord& record) {
    if (body.size() < 20) return fail("a packet block is too short");
    // The obsolete block has 16 bits of interface and 16 of drop count where the enhanced one has 32 of interface.
    const uint32_t number = obsolete ? u16(body.data()) : u32(body.data());
    if (number >= interfaces_.size())
        return fail("a packet names interface " + std::to_string(number) + ", which is not described");
    const Interface& interface = interfaces_[number];
    const uint64_t ticks = uint64_t{u32(body.data() + 4)} << 32 | u32(body.data() + 8);
    const uint32_t captured = u32(body.data() + 12);
    if (captured > body.size() - 20)
        return fail("a packet claims " + std::to_string(captured) + " bytes, more than its block holds");
    record.timestamp_ns = last_ns_ = to_ns(ticks, interface.units_per_second, interface.offset_seconds);
    record.bytes = body.subspan(20, captured);
    record.wire_bytes = std::max(u32(body.data() + 16), captured);
    record.link_type = interface.link_type;
    return Block::record;
}

PcapngReader::Block PcapngReader::simple_packet(std::span<const uint8_t> body, PcapngRecord& record) {
    if (body.size() < 4) return fail("a packet block is too short");
    if (interfaces_.empty()) return fail("a packet comes before any interface");
    const uint32_t wire = u32(body.data());
    uint32_t captured = wire;
    if (interfaces_[0].snap_length != 0) captured = std::min(captured, interfaces_[0].snap_length);
    captured = std::min(captured, static_cast<uint32_t>(body.size() - 4));
    record.timestamp_ns = last_ns_;  // the block has no time
    record.bytes = body.subspan(4, captured);
    record.wire_bytes = std::max(wire, captured);
    record.link_type = interfaces_[0].link_type;
    return Block::record;
}

bool PcapngReader::open() {
    // The link type is known once the first packet has come, so that one is read ahead.
    if (read_block(pending_) != Block::other) {
        if (error_.empty()) error_ = "it is empty";
        return false;
    }
    do pending_block_ = read_block(pending_);
    while (pending_block_ == Block::other);
    have_pending_ = true;
    return true;
}

PcapngReader::Result PcapngReader::next(PcapngRecord& record) {
    Block block = pending_block_;
    if (have_pending_) {
        record = pending_;
        have_pending_ = false;
    } else {
        if (pending_block_ == Block::end || pending_block_ == Block::damaged)
            return pending_block_ == Block::end ? Result::end : Result::damaged;
        do block = read_block(record);
        while (block == Block::other);
        pending_block_ = block;
    }
    return block == Block::record ? Result::record : block == Block::end ? Result::end : Result::damaged;
}

}  // namespace millrace::io
