// Memory for packets that are not in buffers: frames with room before and behind them, and guards around.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "millrace/packet/packet.hpp"
#include "millrace/nftest/packets/packet_builder.hpp"

namespace millrace::nftest {

/// Owns frames and gives attached and parsed `Packet`s, which stay where they are as long as the arena.
class PacketArena {
public:
    /// Bytes that a packet may grow at its head and tail.
    /// `fill` is what stands in the rooms and guards.
    explicit PacketArena(uint32_t headroom = 128, uint32_t tailroom = 128, uint8_t fill = 0xa5)
        : headroom_(headroom), tailroom_(tailroom), fill_(fill) {}

    /// Copies `frame`; only its first `present` bytes are in memory (all unless given).
    Packet& add(std::span<const uint8_t> frame, uint32_t present = 0xffffffffu) {
        const auto length = static_cast<uint32_t>(frame.size());
        present = std::min(present, length);
        Slot& slot = slots_.emplace_back();
        slot.bytes = size_t{headroom_} + present + tailroom_ + 2 * kGuardBytes;
        slot.memory = std::make_unique<uint8_t[]>(slot.bytes);
        std::memset(slot.memory.get(), fill_, slot.bytes);
        uint8_t* data = slot.memory.get() + kGuardBytes + headroom_;
        if (present > 0) std::memcpy(data, frame.data(), present);
        slot.packet.attach(data, length, present, headroom_, tailroom_);
        slot.packet.set_index(static_cast<uint32_t>(slots_.size() - 1));
        slot.packet.parse();
        return slot.packet;
    }

    size_t size() const { return slots_.size(); }
    Packet& operator[](size_t i) { return slots_[i].packet; }
    /// The bytes of packet `i` as it is now.
    Frame bytes(size_t i) const {
        const Packet& packet = slots_[i].packet;
        return Frame(packet.data(), packet.data() + packet.present());
    }
    /// Whether nothing was written outside of the packets and their rooms.
    bool guards_intact() const {
        return std::all_of(slots_.begin(), slots_.end(), [this](const Slot& slot) {
            const uint8_t* memory = slot.memory.get();
            const auto whole = [this](const uint8_t* p) {
                return std::all_of(p, p + kGuardBytes, [this](uint8_t b) { return b == fill_; });
            };
            return whole(memory) && whole(memory + slot.bytes - kGuardBytes);
        });
    }
    /// Whether nothing was written to the rooms of packet `i`, as far as they are still rooms.
    bool room_intact(size_t i) const {
        const Slot& slot = slots_[i];
        const auto whole = [this](const uint8_t* from, const uint8_t* to) {
            return std::all_of(from, to, [this](uint8_t b) { return b == fill_; });
        };
        const uint8_t* data = slot.packet.data();
        return whole(slot.memory.get(), data) && whole(data + slot.packet.present(), slot.memory.get() + slot.bytes);
    }

private:
#if defined(__SANITIZE_ADDRESS__)
    static constexpr size_t kGuardBytes = 0;  // the sanitizer's own guards see reads, too
#else
    static constexpr size_t kGuardBytes = 64;
#endif
    struct Slot {
        std::unique_ptr<uint8_t[]> memory;
        size_t bytes = 0;
        Packet packet;
    };
    uint32_t headroom_, tailroom_;
    uint8_t fill_;
    std::deque<Slot> slots_;
};

}  // namespace millrace::nftest
