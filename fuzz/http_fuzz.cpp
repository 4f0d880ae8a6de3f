// Any bytes as HTTP messages of the streams of one bucket, in pieces of any size, with decoders: nothing outside of
// memory is touched, what is looked at is what came, no decoder is left over, and no more is decompressed than may be.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "fuzz/entry.hpp"
#include "millrace/nf/nids/http/messages.hpp"

namespace http_fuzz {

using namespace millrace;
using namespace millrace::nf::nids::http;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

constexpr uint32_t kInflate = 3000;

/// Memory of one bucket that ends where it must, for a sanitizer to see what is beyond.
struct Bucket {
    Bucket(uint32_t rooms, uint32_t head, uint32_t tail, uint32_t decoders)
        : words(MessageMemory::words_of_bucket(rooms, head, tail)), pool(DecoderPool::words_of(decoders)),
          counts(static_cast<size_t>(MessageCount::count)) {
        memory.words = {words.data(), words.size()};
        memory.counts = {counts.data(), counts.size()};
        memory.decoders.words = {pool.data(), pool.size()};
        memory.decoders.count = decoders;
        memory.rooms = rooms;
        memory.head = head;
        memory.tail = tail;
        memory.inflate = kInflate;
    }
    std::vector<uint64_t> words, pool, counts;
    MessageMemory memory;
};

struct Visitor {
    const MessageMemory& memory;
    bool judges;
    uint32_t bytes = 0;  ///< of bodies that were looked at, of one piece
    uint8_t sum = 0;
    bool judged(const MessagePiece&) const { return judges; }
    void note(MessageRoom& room) const { room.note(7, 0); }
    void look(const MessageLook& look, MessageRoom& room) {
        require(look.head <= memory.head && look.tail <= memory.tail && look.fresh <= MessageMemory::kFresh,
                "more is shown than there is room for");
        for (uint32_t i = 0; i < look.head + look.tail + look.fresh; ++i)
            sum = static_cast<uint8_t>(sum + look.data[i]);
        bytes += look.fresh;
        room.note(look.fresh, look.head_is_new ? 0 : memory.tail);
        room.pass(look.fresh);
    }
};

/// The first byte says how large all is. Then pieces: stream and what is said of it, how many bytes follow that are
/// its, or where the sequence goes on.
MILLRACE_FUZZER(http)(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    constexpr uint32_t kRooms[] = {1, 2, 4, 8}, kHeads[] = {128, 136, 512, 1024}, kTails[] = {64, 72, 128, 512};
    Bucket bucket(kRooms[data[0] % 4], kHeads[data[0] / 4 % 4], kTails[data[0] / 16 % 4], data[0] / 64);
    const MessageBucket messages(bucket.memory, 0);
    std::map<uint32_t, uint32_t> next;
    uint64_t now = 1;
    ++data, --size;
    while (size >= 2) {
        const uint32_t number = data[0] % 8, flags = data[0] / 8;
        const uint32_t wanted = data[1];
        data += 2, size -= 2;
        if (flags == 31) {
            messages.begin(number / 2);
            continue;
        }
        if (flags == 30) {
            next[number] += wanted * 16;
            now += wanted * 1'000'000'000ull;
            continue;
        }
        const auto bytes = static_cast<uint32_t>(std::min<size_t>(size, 1 + wanted * (flags & 8 ? 8 : 1)));
        if (bytes == 0) break;
        const auto own = std::make_unique<uint8_t[]>(bytes);  // ends where it does
        std::copy_n(data, bytes, own.get());
        data += bytes, size -= bytes;
        auto gone = [&](uint32_t) { return (flags & 4) != 0; };
        Visitor visitor{bucket.memory, (flags & 2) != 0};
        MessageFollower<decltype(gone), Visitor> follower(messages, number, (number & 1) != 0, now, gone, visitor);
        if (follower.follows())
            follower.take({own.get(), bytes, next[number], (flags & 16) != 0, (flags & 1) != 0, (flags & 1) != 0});
        next[number] += bytes;
        require(visitor.bytes <= bytes + 64 + kInflate, "more of bodies is looked at than may be");
    }
    for (uint32_t way = 0; way < MessageMemory::kWays; ++way) messages.begin(way);
    for (uint32_t i = 0; i < bucket.memory.rooms; ++i) require(messages.room(i).used == 0, "a room is left over");
    for (uint32_t i = 0; i < bucket.memory.decoders.count; ++i)
        require(bucket.memory.decoders.of(i).owner == 0, "a decoder is left over");
    return 0;
}

}  // namespace http_fuzz
