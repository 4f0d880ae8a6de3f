// Any segments of the streams of one bucket, in any order: nothing outside of its memory is touched, pieces are next to
// each other, and a tail is what came before.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/entry.hpp"
#include "millrace/nf/flows/stream.hpp"

namespace stream_fuzz {

using namespace millrace;
using namespace millrace::nf::flows;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

/// What one stream has told.
struct Told {
    std::vector<uint8_t> bytes;  ///< the last ones, at least as many as a tail
    uint32_t next = 0;
    bool any = false;
};

/// Memory of one bucket that ends where it must, for a sanitizer to see what is beyond.
struct Bucket {
    Bucket(uint32_t tail, uint32_t early)
        : words(StreamMemory::words_of_bucket(tail, early)), counts(static_cast<size_t>(StreamCount::count)) {
        memory.words = {words.data(), words.size()};
        memory.counts = {counts.data(), counts.size()};
        memory.tail = tail;
        memory.early = early;
    }
    std::vector<uint64_t> words, counts;
    StreamMemory memory;
};

/// The first byte says how large tail and rooms are. Then segments: stream, flags, where it begins (from the last one's
/// beginning, or anywhere), how many bytes it has, which follow from the numbers or are any.
MILLRACE_FUZZER(stream)(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    constexpr uint32_t kTails[] = {8, 64, 256, 2048}, kEarly[] = {0, 1, 4, 64};
    Bucket bucket(kTails[data[0] % 4], kEarly[data[0] / 4 % 4]);
    const Streams streams(bucket.memory, 0);
    std::vector<Told> told(StreamMemory::kStreams);
    std::vector<uint32_t> last(StreamMemory::kStreams);
    uint32_t gone = 0;
    ++data, --size;
    for (; size >= 6; data += 6, size -= 6) {
        const uint32_t number = data[0] % StreamMemory::kStreams, way = number / 2;
        if (data[0] >= 0xf0) {
            if (data[1] & 1) streams.begin(way);
            else streams.end(way);
            if (data[1] & 1) told[2 * way] = told[2 * way + 1] = {};
            gone = data[1] & 2 ? gone | 1u << way : gone & ~(1u << way);
            continue;
        }
        const uint32_t step = data[2] | data[3] << 8;
        last[number] = data[1] & 0x80 ? step << 16 : last[number] + static_cast<uint32_t>(static_cast<int16_t>(step));
        StreamSegment segment;
        segment.seq = last[number];
        segment.bytes = (data[4] | data[5] << 8) % 3000;
        segment.flags = data[1] & 0x7f;
        segment.marks = data[5] >> 4;
        auto bytes = std::make_unique<uint8_t[]>(segment.bytes);
        for (uint32_t i = 0; i < segment.bytes; ++i)
            bytes[i] = static_cast<uint8_t>((segment.seq + i) * 31 + (data[4] & 1 ? data[2] : 0));
        segment.data = bytes.get();
        Told& own = told[number];
        const uint32_t events = streams.take(
            number, segment, [&](uint32_t ended) { return gone >> ended & 1; },
            [&](const StreamPiece& piece) {
                require(piece.bytes > 0, "a piece has no bytes");
                require(piece.tail_bytes <= bucket.memory.tail, "a tail is longer than it may be");
                require(piece.tail_bytes <= own.bytes.size(), "a tail is of more than has come");
                require(std::equal(piece.tail, piece.tail + piece.tail_bytes, own.bytes.end() - piece.tail_bytes),
                        "a tail is not what came before");
                require(!own.any || piece.tail_bytes == 0 || piece.seq == own.next,
                        "pieces are not next to each other");
                own.any = true;
                own.next = piece.seq + piece.bytes;
                own.bytes.insert(own.bytes.end(), piece.data, piece.data + piece.bytes);
                if (own.bytes.size() > 8192) own.bytes.erase(own.bytes.begin(), own.bytes.end() - 4096);
            });
        require(events <= (stream_event::kChanged | stream_event::kGap), "an event that is none");
        require(streams.of(number).bytes <= bucket.memory.tail, "more is kept than may be");
    }
    return 0;
}

}  // namespace stream_fuzz
