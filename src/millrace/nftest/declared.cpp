#include "millrace/nftest/declared.hpp"

#include <algorithm>
#include <cstring>

#include "millrace/nftest/nf_runner.hpp"
#include "millrace/nftest/packets/field_map.hpp"
#include "millrace/nftest/packets/packet_arena.hpp"

namespace millrace::nftest {
namespace {

/// Bytes in place of a field's own; several, as a function may look for one bit of it.
constexpr uint8_t kPoisons[] = {0x00, 0xff, 0x55, 0xaa, 0x01};

constexpr uint8_t kFill = 0xa5, kOtherFill = 0x5a;

}  // namespace

/// Keeps the state of an NF as it is, and puts it back. A packet changes few pages of what may be megabytes: the others
/// are only looked at.
class DeclarationCheck::KeptState {
public:
    explicit KeptState(const nf::Image& image) : image_(image) {
        for (const nf::Image::Array& array : image.arrays()) {
            const auto* bytes = static_cast<const std::byte*>(array.data);
            kept_.emplace_back(bytes, bytes + (array.is_state() ? array.bytes : 0));
        }
    }
    void put_back() const {
        constexpr size_t kPage = 4096;
        for (size_t i = 0; i < kept_.size(); ++i) {
            auto* const now = static_cast<std::byte*>(const_cast<void*>(image_.arrays()[i].data));
            for (size_t at = 0; at < kept_[i].size(); at += kPage) {
                const size_t bytes = std::min(kPage, kept_[i].size() - at);
                if (std::memcmp(now + at, &kept_[i][at], bytes) != 0) std::memcpy(now + at, &kept_[i][at], bytes);
            }
        }
    }

private:
    const nf::Image& image_;
    std::vector<std::vector<std::byte>> kept_;
};

struct DeclarationCheck::Result {
    Decision decision;
    uint16_t out_port = kNoPort;
    uint32_t headroom = 0;
    Frame frame;
    std::vector<uint32_t> events;
    bool room_intact = true;

    bool decides_as(const Result& other) const {
        return decision == other.decision && out_port == other.out_port && events == other.events;
    }
};

DeclarationCheck::Result DeclarationCheck::run(const Frame& frame, const Layers& layers, uint16_t in_port,
                                               unsigned lanes, uint8_t fill) {
    const nf::Growth growth = nf_->growth({type_.head_growth, type_.tail_growth});
    // One that moves no end has rooms, too: what it writes there is seen.
    const bool grows = nf_->writes(type_.writes).overlaps(field::length);
    PacketArena arena(grows ? growth.head : 64, grows ? growth.tail : 64, fill);
    std::vector<Event> events(std::max<size_t>(nf_->most_events(), 1));
    std::vector<LeftEvents> left(1);
    EventBuffer buffer;
    buffer.events = events.data();
    buffer.capacity = static_cast<uint32_t>(events.size());
    buffer.left = left.data();
    buffer.left_capacity = 1;
    Packet& packet = arena.add(frame);
    packet.set_layers(layers);
    packet.set_in_port(in_port);
    packet.set_out_port(kNoPort);
    packet.set_events(&buffer, 0);
    const uint32_t headroom = packet.headroom();
    std::vector<Decision> decisions(1);
    run_device_half(type_, nf_->image().tables(), lanes, arena, decisions);
    Result result;
    result.decision = decisions[0];
    result.out_port = packet.out_port();
    result.headroom = packet.headroom() - headroom;
    result.frame = arena.bytes(0);
    for (uint32_t i = 0; i < std::min(buffer.count, buffer.capacity); ++i) result.events.push_back(events[i].code);
    result.room_intact = arena.guards_intact() && (grows || arena.room_intact(0));
    return result;
}

void DeclarationCheck::tell(Kind kind, uint32_t field, size_t number) {
    if (!told_.insert({kind, field}).second) return;
    const std::string who = type_.name + ", packet " + std::to_string(number + 1) + ": ";
    Undeclared found{number, {}, {}};
    switch (kind) {
        case Kind::read:
            found.message = who + "it reads " + kFieldNames[field] + " and does not declare it";
            found.hint = "add the field to 'reads', or do not look at it";
            break;
        case Kind::write:
            found.message = who + "it writes " + kFieldNames[field] + " and does not declare it";
            found.hint = "add the field to 'writes', or leave it as it is";
            break;
        case Kind::read_beyond:
            found.message = who + "what it does depends on bytes beyond the packet";
            found.hint = "check lengths before reading: packet.length(), payload_bytes()";
            break;
        case Kind::write_beyond:
            found.message = who + "it writes beyond the packet";
            found.hint =
                "check lengths before writing; growing needs field::length in 'writes' and head_growth or "
                "tail_growth in the declaration";
            break;
        case Kind::outcome:
            found.message = who + "outcome " + std::to_string(field) + " is not declared";
            found.hint = "the declaration has " + std::to_string(type_.outcomes.size()) +
                         " outcomes, in the order of the enum";
            break;
    }
    found_.push_back(std::move(found));
}

void DeclarationCheck::check_reads(const Frame& frame, const Layers& layers, uint16_t in_port, unsigned lanes,
                                   size_t number, const KeptState& state, const Result& base) {
    const Fields reads = nf_->reads(type_.reads), writes = nf_->writes(type_.writes);
    const std::vector<Fields> map = fields_of_bytes(frame, layers);
    for (uint32_t bit = 0; bit < kFieldCount; ++bit) {
        const Fields one{1u << bit};
        if (reads.overlaps(one)) continue;
        for (const uint8_t poison : kPoisons) {
            Frame poisoned = frame;
            std::vector<bool> touched(frame.size());
            for (size_t i = 0; i < frame.size(); ++i) {
                touched[i] = map[i].overlaps(one) && !map[i].overlaps(reads);
                if (touched[i]) poisoned[i] = poison;
            }
            if (poisoned == frame) continue;
            const Result result = run(poisoned, layers, in_port, lanes, kFill);
            state.put_back();
            if (!result.decides_as(base) || result.frame.size() != base.frame.size() ||
                result.headroom != base.headroom) {
                tell(Kind::read, bit, number);
                break;
            }
            for (size_t i = 0; i < frame.size(); ++i) {
                const uint8_t before = base.frame[i], after = result.frame[i];
                if (!touched[i] ? after != before : after != poisoned[i] && !writes.overlaps(one)) {
                    // A byte of this field that changed was written; any other byte knows of the field.
                    tell(touched[i] ? Kind::write : Kind::read, bit, number);
                } else if (touched[i] && after != before && (after != poisoned[i] || before != frame[i])) {
                    tell(Kind::read, bit, number);  // what was written depends on what stood there
                }
            }
        }
    }
}

void DeclarationCheck::check_packet(const Frame& frame, const Layers& layers, uint16_t in_port, unsigned lanes,
                                    size_t number, const KeptState& state) {
    const Fields writes = nf_->writes(type_.writes);
    const Result base = run(frame, layers, in_port, lanes, kFill);
    state.put_back();
    if (base.decision.outcome >= type_.outcomes.size()) tell(Kind::outcome, base.decision.outcome, number);
    if (!base.room_intact) tell(Kind::write_beyond, 0, number);
    const bool may_move = writes.overlaps(field::length);
    if (!may_move && (base.frame.size() != frame.size() || base.headroom != 0)) {
        constexpr uint32_t kLengthBit = 27;
        static_assert(field::length.bits == 1u << kLengthBit);
        tell(Kind::write, kLengthBit, number);
        return;
    }
    const Result other = run(frame, layers, in_port, lanes, kOtherFill);
    state.put_back();
    if (!other.decides_as(base) || other.frame != base.frame) tell(Kind::read_beyond, 0, number);
    // Who changes the length has the whole frame, and has written all of it.
    if (may_move) return;
    const std::vector<Fields> map = fields_of_bytes(frame, layers);
    for (size_t i = 0; i < frame.size(); ++i) {
        if (base.frame[i] == frame[i] || map[i].overlaps(writes)) continue;
        for (uint32_t bit = 0; bit < kFieldCount; ++bit)
            if (map[i].bits >> bit & 1u) {
                tell(Kind::write, bit, number);
                break;
            }
    }
    check_reads(frame, layers, in_port, lanes, number, state, base);
}

std::vector<Undeclared> DeclarationCheck::check(const std::vector<Frame>& frames, uint16_t in_port, size_t first) {
    found_.clear();
    std::set<unsigned> lane_counts = {1};
    if (type_.process_with(type_.lanes) != nullptr) lane_counts.insert(type_.lanes);
    const KeptState state(nf_->image());
    for (size_t i = 0; i < frames.size(); ++i) {
        Layers layers;
        parse(frames[i].data(), static_cast<uint32_t>(frames[i].size()), static_cast<uint32_t>(frames[i].size()),
              layers);
        if (layers.malformed != Malformed::no) continue;
        for (const unsigned lanes : lane_counts) check_packet(frames[i], layers, in_port, lanes, first + i, state);
    }
    return std::move(found_);
}

}  // namespace millrace::nftest
