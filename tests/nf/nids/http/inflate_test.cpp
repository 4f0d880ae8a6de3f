// Decompression in pieces, compared with zlib.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "millrace/nf/nids/http/inflate.hpp"

#include "nf/nids/http/compress.hpp"

namespace millrace::nf::nids {
namespace {

using http::Inflate;

/// Decodes data that comes in pieces of `piece` bytes (0: of any), with room for `room` bytes at a time. With `valid`
/// it stops where the decoder finds that something is wrong.
std::string decode(const std::string& data, size_t piece, uint32_t room, std::mt19937& rng, bool valid = true,
                   bool* broken = nullptr) {
    const auto inflate = std::make_unique<Inflate>();
    inflate->begin();
    std::string out;
    std::vector<uint8_t> given(room);
    for (size_t at = 0; at < data.size();) {
        const size_t bytes = std::min(data.size() - at, piece != 0 ? piece : 1 + rng() % 700);
        // Memory that ends where the piece does, for a sanitizer to see.
        const std::vector<uint8_t> in(data.begin() + static_cast<long>(at),
                                      data.begin() + static_cast<long>(at + bytes));
        uint32_t taken = 0;
        while (true) {
            const Inflate::Step step = inflate->run(in.data() + taken, static_cast<uint32_t>(bytes) - taken,
                                                    given.data(), room);
            EXPECT_LE(step.given, room);
            taken += step.taken;
            EXPECT_LE(taken, bytes);
            out.append(reinterpret_cast<const char*>(given.data()), step.given);
            if (valid && inflate->is_broken()) {
                if (broken != nullptr) *broken = true;
                return out;
            }
            if (step.given < room) break;
        }
        EXPECT_EQ(taken, bytes);
        at += bytes;
    }
    if (broken != nullptr) *broken = inflate->is_broken();
    return out;
}

std::string text_of(size_t bytes, std::mt19937& rng, unsigned kind) {
    std::string text;
    while (text.size() < bytes) {
        if (kind == 0) text += static_cast<char>(rng());
        else if (kind == 1) text += "abc"[rng() % 3];
        else if (kind == 2 && text.size() > 40000 && rng() % 50 == 0)
            text += text.substr(text.size() - 32768 + rng() % 100, 3 + rng() % 300);  // as far back as may be
        else text += std::string("the answer of a server ").substr(rng() % 12, 1 + rng() % 11);
    }
    text.resize(bytes);
    return text;
}

TEST(NidsInflate, GivesWhatWasCompressed) {
    std::mt19937 rng(1);
    for (const size_t bytes : {0, 1, 31, 32, 33, 1023, 1024, 1025, 40000, 150000})
        for (unsigned kind = 0; kind < 3; ++kind) {
            const std::string text = text_of(bytes, rng, kind);
            for (const Wrap wrap : {Wrap::gzip, Wrap::zlib, Wrap::bare})
                for (const auto& [level, strategy] : {std::pair(0, Z_DEFAULT_STRATEGY),
                                                      {1, Z_DEFAULT_STRATEGY},
                                                      {9, Z_DEFAULT_STRATEGY},
                                                      {6, Z_FIXED},
                                                      {6, Z_HUFFMAN_ONLY},
                                                      {6, Z_RLE}}) {
                    const std::string data = compress(text, wrap, level, strategy);
                    ASSERT_EQ(decode(data, 0, 2048, rng), text) << bytes << " " << kind << " " << level;
                    if (bytes > 2000) continue;
                    ASSERT_EQ(decode(data, 1, 1, rng), text) << bytes << " " << kind << " " << level;
                    ASSERT_EQ(decode(data, 3, 64, rng), text) << bytes << " " << kind << " " << level;
                }
        }
}

/// RFC 1952, section 2.3: each of the fields that may stand before what is compressed, and all of them.
TEST(NidsInflate, PassesOverTheFieldsOfAGzipsHead) {
    std::mt19937 rng(2);
    const std::string text = "what is in it", data = compress(text, Wrap::bare);
    for (unsigned flags = 0; flags < 256; ++flags) {
        std::string gzip = {'\x1f', '\x8b', '\x08', static_cast<char>(flags), 1, 2, 3, 4, 0, 3};
        if (flags & 4) gzip += std::string("\x03\0abc", 5);
        if (flags & 8) gzip += std::string("a name\0", 7);
        if (flags & 16) gzip += std::string("\0", 1);
        if (flags & 2) gzip += "cc";
        gzip += data + "checksum and what follows";
        EXPECT_EQ(decode(gzip, 1, 5, rng), text) << flags;
        EXPECT_EQ(decode("\r\n" + gzip, 0, 100, rng), text) << flags;
    }
}

/// What is none of the three is passed on, all of it, however it is cut.
TEST(NidsInflate, PassesOnWhatIsNotCompressed) {
    std::mt19937 rng(3);
    for (const std::string text :
         {"X5O!P%@AP[4\\PZX54(P^)7CC)7}$ and so on, for some more bytes than are kept", "\x1f\x8b\x09 no method",
          "\x78\x20 wants a dictionary", "\x07 a block of a kind that there is not"})
        for (const size_t piece : {1, 2, 5, 100}) EXPECT_EQ(decode(text, piece, 7, rng, false), text);
}

/// Bytes that were changed: as far as zlib gets, and no further; and never beyond any memory.
TEST(NidsInflate, StopsWhereZlibDoes) {
    std::mt19937 rng(4);
    size_t broken_ones = 0;
    for (int i = 0; i < 6000; ++i) {
        const std::string text = text_of(1 + rng() % 3000, rng, i % 3);
        std::string data = compress(text, Wrap::bare, 1 + i % 9, i % 4 == 0 ? Z_FIXED : Z_DEFAULT_STRATEGY);
        for (size_t k = 0; k < 1 + i % 3u; ++k) data[rng() % data.size()] = static_cast<char>(rng());
        // A head of another kind is taken for what it is.
        const auto low = static_cast<uint8_t>(data[0]), high = static_cast<uint8_t>(data.size() > 1 ? data[1] : 0);
        if ((low == 0x1f && high == 0x8b) || (low & 15) == 8 || low == '\r') continue;
        bool good = true, broken = false;
        const std::string want = decompress_bare(data, 1u << 20, good);
        const std::string got = decode(data, 0, 333, rng, true, &broken);
        ASSERT_EQ(broken, !good) << i;
        broken_ones += broken;
        // What was found to be wrong behind some output comes with that.
        ASSERT_EQ(got.substr(0, want.size()), want) << i;
        ASSERT_TRUE(broken || got == want) << i;
    }
    EXPECT_GT(broken_ones, 1000u);
}

}  // namespace
}  // namespace millrace::nf::nids
