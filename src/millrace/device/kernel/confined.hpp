// What brings packets before a fenced function and back, on the device: trusted kernels, one on each side of it.
//
// The host hands over, of each packet, what is known of it and the bytes of its declared fields, packed (a question).
// `Enter` lays a frame out in the function's window, with those bytes in their places and 0 everywhere else, and makes
// the handle. `Leave` packs what the function may change, and what it said (an answer). Neither follows an address or a
// length that lies in the window: places follow from the question, which the function can't reach.
#pragma once

#include "millrace/packet/argument.hpp"
#include "millrace/packet/field_ranges.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace {

/// What is known of each packet besides the bytes that were declared.
struct About {
    uint64_t time_ns;  ///< when it was received
    uint32_t length;   ///< of the frame
    Layers layers;     ///< where its headers lie, as the manager's parser has found
};

namespace device {

/// Where a batch lies, in words of a question's first bytes.
struct ConfinedHead {
    uint64_t handles;    ///< address in the window: of each packet a handle, and its frame behind it
    uint64_t decisions;  ///< address in the window
    uint32_t stride;     ///< from one handle to the next
    uint32_t question_stride, answer_stride;  ///< of a packet, in the question and in the answer; multiples of 8
    uint32_t sees, changes;                   ///< Fields::bits
    uint32_t reserved = 0;
};
static_assert(sizeof(ConfinedHead) == 40);

/// Of a packet, before its bytes.
struct ConfinedQuestion {
    About about;
    uint32_t extent;        ///< so many bytes of the frame's front are there
    uint32_t argument = 0;  ///< argument_of
};
struct ConfinedAnswer {
    Decision decision;  ///< outcomes as the function's type numbers them; any number
};
static_assert(sizeof(ConfinedQuestion) % 8 == 0 && sizeof(ConfinedAnswer) % 8 == 0);

/// Bytes of a handle, so that frames begin at a multiple of 16.
inline constexpr uint32_t kConfinedHandleBytes = (sizeof(Packet) + 15) / 16 * 16;

/// The handle of a packet whose frame lies at `frame`, as a tenant's function has it.
MILLRACE_DEVICE Packet handle_at(uint8_t* frame, uint32_t extent, const About& about, uint32_t item,
                                 uint32_t argument = 0) {
    Packet packet;
    packet.attach(frame, about.length, extent, 0, 0);
    packet.set_index(item);
    packet.set_in_port(0);
    packet.set_out_port(kNoPort);
    set_argument(packet, argument);
    packet.set_layers(about.layers);
    packet.set_time_ns(about.time_ns);
    return packet;
}

namespace detail {

MILLRACE_DEVICE const ConfinedQuestion& question_of(const uint32_t* in, const ConfinedHead& head, uint32_t item) {
    const auto* const first = reinterpret_cast<const uint8_t*>(in) + sizeof(ConfinedHead);
    return *reinterpret_cast<const ConfinedQuestion*>(first + uint64_t{item} * head.question_stride);
}
MILLRACE_DEVICE Packet* handle_of(const ConfinedHead& head, uint32_t item) {
    return reinterpret_cast<Packet*>(head.handles + uint64_t{item} * head.stride);
}
MILLRACE_DEVICE uint8_t* frame_of(const ConfinedHead& head, uint32_t item) {
    return reinterpret_cast<uint8_t*>(head.handles + uint64_t{item} * head.stride + kConfinedHandleBytes);
}

}  // namespace detail

/// A task (device.hpp): copies `count` words. Where one of both is memory of the host it does what a copy engine does,
/// but waits for nothing else: an engine takes the copies of all streams one after the other, and one whose stream is
/// still at a kernel holds up all behind it.
struct CopyWords {
    struct Tables {
        uint32_t unused;
    };
    template <class L>
    MILLRACE_DEVICE static void run(const void*, const uint32_t* in, uint32_t* out, uint32_t, uint32_t item, L) {
        out[item] = in[item];
    }
};

/// A task: `in` is a question, of `count` packets.
struct Enter {
    struct Tables {
        uint32_t unused;
    };
    template <class L>
    MILLRACE_DEVICE static void run(const void*, const uint32_t* in, uint32_t*, uint32_t, uint32_t item, L) {
        const auto& head = *reinterpret_cast<const ConfinedHead*>(in);
        const ConfinedQuestion& own = detail::question_of(in, head, item);
        const About about = own.about;
        uint8_t* const frame = detail::frame_of(head, item);
        for (uint32_t i = 0; i < own.extent; ++i) frame[i] = 0;
        const auto* from = reinterpret_cast<const uint8_t*>(&own + 1);
        for_each_declared(about.length, about.layers, Fields{head.sees}, [&](uint32_t at, uint32_t bytes) {
            for (uint32_t i = 0; i < bytes; ++i) frame[at + i] = from[i];
            from += bytes;
        });
        *detail::handle_of(head, item) = handle_at(frame, own.extent, about, item, own.argument);
    }
};

/// A task: `in` is the question, `out` gets the answer.
struct Leave {
    struct Tables {
        uint32_t unused;
    };
    template <class L>
    MILLRACE_DEVICE static void run(const void*, const uint32_t* in, uint32_t* out, uint32_t, uint32_t item, L) {
        const auto& head = *reinterpret_cast<const ConfinedHead*>(in);
        const About about = detail::question_of(in, head, item).about;
        auto* const answer = reinterpret_cast<ConfinedAnswer*>(reinterpret_cast<uint8_t*>(out) +
                                                               uint64_t{item} * head.answer_stride);
        answer->decision = reinterpret_cast<const Decision*>(head.decisions)[item];
        // A tenant's function can't choose the port.
        if (detail::handle_of(head, item)->out_port() != kNoPort) answer->decision.outcome = kUndeclaredOutcome;
        const uint8_t* const frame = detail::frame_of(head, item);
        auto* to = reinterpret_cast<uint8_t*>(answer + 1);
        for_each_declared(about.length, about.layers, Fields{head.changes}, [&](uint32_t at, uint32_t bytes) {
            for (uint32_t i = 0; i < bytes; ++i) to[i] = frame[at + i];
            to += bytes;
        });
    }
};

}  // namespace device
}  // namespace millrace
