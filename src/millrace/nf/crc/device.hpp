// CRC-32 at the end of a frame, set or checked (UCL thesis, section 3.3). Its lowest byte comes first, so that the bits
// have the order of Ethernet's frame check sequence (IEEE 802.3, section 3.2.9).
#pragma once

#include "millrace/nf/crc/remainder.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::crc {

inline constexpr uint32_t kCrcBytes = 4;

struct Crc {
    enum Outcome : uint32_t { kSet, kValid, kBadCrc, kTooShort, kNoRoom };

    static constexpr Fields reads = field::everything;
    static constexpr Fields writes = field::length;
    /// A frame of 1518 bytes is 48 words for each of them.
    static constexpr unsigned lanes = 8;
    static constexpr uint32_t block_bytes = 4 * kSteps * kStepWords;

    struct Tables {
        CrcTables crc;
        uint32_t set = 0;    ///< 1: set it; 0: check it
        uint32_t strip = 0;  ///< 1: take one that is right off the frame
    };

#if MILLRACE_GPU
    MILLRACE_DEVICE static void stage(const Tables& tables, uint32_t* block) { stage_steps(tables.crc, block); }
#endif

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        return decide(packet, tables, lanes,
                      [&](const uint8_t* data, uint32_t bytes) { return crc_of(data, bytes, tables.crc, lanes); });
    }

    /// The decision on `packet`, and what becomes of it, where `crc(data, bytes)` is the CRC of so many bytes.
    template <class Lanes, class Compute>
    MILLRACE_DEVICE static Decision decide(Packet& packet, const Tables& tables, Lanes lanes, Compute&& crc) {
        const uint32_t length = packet.length();
        if (tables.set != 0) {
            if (!packet.grow_back(kCrcBytes)) return {kNoDetail, kNoRoom};
            const uint32_t value = crc(packet.data(), length);
            lanes.once([&] { store_raw<uint32_t>(packet.data() + length, value); });
            keep_end(packet, length + kCrcBytes);
            return {kNoDetail, kSet};
        }
        // What headers speak of must not reach into the CRC. Of a frame that is not IP they speak of nothing behind
        // them.
        const Layers& layers = packet.layers();
        if (length < (layers.is_ip() ? layers.end : layers.payload_offset) + kCrcBytes) return {kNoDetail, kTooShort};
        const uint32_t covered = length - kCrcBytes;
        if (crc(packet.data(), covered) != load_raw<uint32_t>(packet.data() + covered)) return {kNoDetail, kBadCrc};
        if (tables.strip != 0 && packet.shrink_back(kCrcBytes)) keep_end(packet, covered);
        return {kNoDetail, kValid};
    }

private:
    /// A frame that is not IP ends where its last byte is.
    MILLRACE_DEVICE static void keep_end(Packet& packet, uint32_t length) {
        if (!packet.layers().is_ip()) packet.layers_to_set().end = length;
    }
};

}  // namespace millrace::nf::crc
