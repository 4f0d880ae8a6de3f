// What a manager and a tenant's process share: two pieces of memory, and what their bytes mean.
//
// The questions are the manager's: the tenant can read them and cannot map them for writing (F_SEAL_FUTURE_WRITE). The
// answers are the tenant's: it may change any byte of them at any time, so the manager copies what it needs once, and
// checks the copy. Neither holds a place or a length that the other would follow: where things lie follows from Shape,
// which both have from the greeting.
//
// Each worker of the manager has a lane of its own: kSlots slots, one behind the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "millrace/device/kernel/confined.hpp"

namespace millrace::tenancy {

inline constexpr uint32_t kMagic = 0x544c524d;  // "MRLT"
inline constexpr uint32_t kVersion = 5;
inline constexpr uint32_t kSlots = 3;  ///< batches in rotation: before, in and behind the function (G-NET, section 6)
inline constexpr uint32_t kMaxPackets = 256, kMaxBytes = 16384, kMaxOutcomes = 30, kMaxName = 63, kMaxLanes = 256;

/// Of the batches.
struct Shape {
    uint32_t packets = kMaxPackets;  ///< of a batch, at most
    uint32_t in_bytes = 0;           ///< of a packet that the tenant sees: the fields that it declared, packed
    uint32_t back_bytes = 0;         ///< that it may change
    uint32_t outcomes = 1;
    uint32_t lanes = 1;

    bool sound() const {
        return packets >= 1 && packets <= kMaxPackets && in_bytes <= kMaxBytes && back_bytes <= kMaxBytes &&
               outcomes >= 1 && outcomes <= kMaxOutcomes && lanes >= 1 && lanes <= kMaxLanes;
    }
    friend bool operator==(const Shape&, const Shape&) = default;
};

/// What is asked about a batch.
enum class Stage : uint32_t {
    whole,   ///< all that the function does, here in its process
    before,  ///< what it does before its device half, which runs on the manager's GPU: an argument for each packet
    after,   ///< what it does after that
};
inline constexpr uint32_t kStages = 3;

/// At the begin of each slot of the questions.
struct alignas(64) Question {
    std::atomic<uint64_t> number;  ///< from 1; written last
    uint32_t count;                ///< packets
    Stage stage;
    uint16_t lengths[kMaxPackets];  ///< of their bytes in it
    About about[kMaxPackets];
    Decision decisions[kMaxPackets];  ///< Stage::after: the device half's, by the outcomes of the function's type
};
/// At the begin of each slot of the answers.
struct alignas(64) Answer {
    std::atomic<uint64_t> number;  ///< of the question that it answers; written last
    uint32_t words[kMaxPackets];   ///< outcomes, by the terms; Stage::before: arguments, which may be anything
};
/// At the begin of the answers.
struct alignas(64) Rest {
    std::atomic<uint32_t> sleeps;  ///< the tenant waits for its event; else it looks by itself
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

inline constexpr size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
inline size_t question_bytes(const Shape& shape) {
    return aligned(sizeof(Question) + size_t{shape.packets} * shape.in_bytes);
}
inline size_t answer_bytes(const Shape& shape) {
    return aligned(sizeof(Answer) + size_t{shape.packets} * shape.back_bytes);
}
inline size_t all_question_bytes(const Shape& shape) { return shape.lanes * kSlots * question_bytes(shape); }
inline size_t all_answer_bytes(const Shape& shape) { return sizeof(Rest) + shape.lanes * kSlots * answer_bytes(shape); }
/// Where a question of a lane lies, and its answer.
inline size_t question_at(const Shape& shape, uint32_t lane, uint64_t number) {
    return (lane * kSlots + number % kSlots) * question_bytes(shape);
}
inline size_t answer_at(const Shape& shape, uint32_t lane, uint64_t number) {
    return sizeof(Rest) + (lane * kSlots + number % kSlots) * answer_bytes(shape);
}

// --- the greeting, each one message on the socket ---

/// A tenant's first words.
struct Hello {
    uint32_t magic = kMagic, version = kVersion;
    char name[kMaxName + 1] = {};  ///< of the tenant; ends with a zero
};
/// What was agreed on: what the tenant sees, may change, and may say.
struct Terms {
    uint32_t sees = 0, changes = 0;        ///< Fields::bits
    char outcomes[kMaxOutcomes][32] = {};  ///< by number; each ends with a zero
    friend bool operator==(const Terms& a, const Terms& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
};
static_assert(std::has_unique_object_representations_v<Terms>);
/// With the descriptors: questions, answers, an event for the tenant.
struct Welcome {
    uint32_t magic = kMagic, version = kVersion;
    uint32_t refused = 0;  ///< 1: `why` says it, and no descriptors come
    Shape shape;
    Terms terms;
    /// What PTX the manager's GPU takes, such as "sm_90"; empty: it takes no device half. Ends with a zero.
    char architecture[16] = {};
    char why[128] = {};
};

// --- behind the greeting ---

/// The tenant's only word, once, with the descriptor of sealed memory: its device half (half.hpp).
struct Offer {
    uint32_t magic = 0x4f4c524d;  // "MRLO"
    uint32_t version = kVersion;
};
/// The manager's.
struct Notice {
    enum class Kind : uint32_t {
        parted,  ///< it lets go, and `text` is why
        placed,  ///< the device half runs on the GPU, and `text` says how
        kept,    ///< it does not, and `text` says why: the function stays in the tenant's process
        later,   ///< it will, and `text` says when: the function works in the tenant's process until then
    };
    uint32_t magic = 0x4e4c524d;  // "MRLN"
    uint32_t version = kVersion;
    Kind kind = Kind::parted;
    char text[2036] = {};  ///< ends with a zero
};
static_assert(sizeof(Notice) == 2048);

}  // namespace millrace::tenancy
