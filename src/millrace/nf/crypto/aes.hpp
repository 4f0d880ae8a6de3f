// AES (FIPS 197) with tables, and its counter and CBC modes (NIST SP 800-38A), in place on packet bytes.
//
// A state is four words, one a column, its first row in the high byte. The tables are handed in, as
// device code has no static data; `keys.hpp` fills them. Key sizes differ only in the number of
// rounds, so that AES-256 needs nothing but a longer schedule.
#pragma once

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::crypto {

inline constexpr uint32_t kAesBlockBytes = 16;
inline constexpr uint32_t kAes128Rounds = 10;
inline constexpr uint32_t kAes256Rounds = 14;
inline constexpr uint32_t kAesMaxWords = 4 * (kAes256Rounds + 1);  ///< round-key words of the longest schedule

/// What device code needs besides a key. On a GPU `stage_aes` must have run in the block.
struct AesTables {
    /// 256 words: the S-box and MixColumns of a byte in the first row: (2s, s, s, 3s). The other rows' are rotations.
    View<uint32_t> encrypt;
    /// 256 words: the inverse likewise, (14s, 9s, 13s, 11s); then 256 words with the inverse S-box.
    View<uint32_t> decrypt;
};

/// Words of a GPU block's memory that `stage_aes` fills: the encryption table 32 times, word beside word, so that
/// each thread of a warp reads its own memory bank.
inline constexpr uint32_t kAesCopies = 32;
inline constexpr uint32_t kAesBlockMemory = 256 * kAesCopies;

#if MILLRACE_GPU
MILLRACE_DEVICE void stage_aes(const AesTables& tables, uint32_t* block) {
    constexpr uint32_t kStores = kAesCopies / 4;
    for (uint32_t row = threadIdx.x; row < 256; row += blockDim.x) {
        const uint32_t word = tables.encrypt[row];
        auto* const copies = reinterpret_cast<uint4*>(block + row * kAesCopies);
        // Neighbours begin at different places of their rows, which all begin in the same bank.
#pragma unroll
        for (uint32_t k = 0; k < kStores; ++k) copies[(row + k) % kStores] = make_uint4(word, word, word, word);
    }
}
#endif

/// The encryption table as a thread reaches it.
class AesEncryptTable {
public:
#if MILLRACE_GPU
    MILLRACE_DEVICE explicit AesEncryptTable(const AesTables&)
        : own_(static_cast<uint32_t>(__cvta_generic_to_shared(block_memory() + threadIdx.x % kAesCopies))) {
        asm volatile("" : "+r"(own_));  // one register, and not what it is made of again for each word
    }
    MILLRACE_DEVICE uint32_t operator[](uint32_t byte) const {
        uint32_t word;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(own_ + byte * (4 * kAesCopies)));
        return word;
    }

private:
    uint32_t own_;
#else
    explicit AesEncryptTable(const AesTables& tables) : own_(tables.encrypt.data()) {}
    MILLRACE_DEVICE uint32_t operator[](uint32_t byte) const { return own_[byte]; }

private:
    const uint32_t* own_;
#endif
};

struct AesBlock {
    uint32_t words[4];
};

MILLRACE_DEVICE uint32_t rotate_right(uint32_t v, unsigned bits) { return (v >> bits) | (v << ((32 - bits) & 31)); }

/// Byte `n` of a word, 0 the lowest.
MILLRACE_DEVICE uint32_t byte_of(uint32_t word, unsigned n) {
#if MILLRACE_GPU
    return __byte_perm(word, 0, 0x4440 | n);
#else
    return word >> (8 * n) & 255;
#endif
}

MILLRACE_DEVICE AesBlock load_block(const uint8_t* p) {
    AesBlock block;
    load_be32s(p, block.words);
    return block;
}
MILLRACE_DEVICE void store_block(uint8_t* p, const AesBlock& block) { store_be32s(p, block.words); }
/// Round key `round` of a schedule, which lies at a multiple of 16 bytes.
MILLRACE_DEVICE AesBlock round_key(const uint32_t* keys, uint32_t round) {
#if MILLRACE_GPU
    const uint4 words = reinterpret_cast<const uint4*>(keys)[round];
    return {{words.x, words.y, words.z, words.w}};
#else
    const auto* const words = static_cast<const uint32_t*>(__builtin_assume_aligned(keys, 16)) + 4 * round;  // UBSan
                                                                                                             // looks
    return {{words[0], words[1], words[2], words[3]}};
#endif
}
MILLRACE_DEVICE AesBlock operator^(const AesBlock& a, const AesBlock& b) {
    return {{a.words[0] ^ b.words[0], a.words[1] ^ b.words[1], a.words[2] ^ b.words[2], a.words[3] ^ b.words[3]}};
}

namespace detail {

/// What the first lane has, in all of them.
template <class Lanes>
MILLRACE_DEVICE AesBlock of_first_lane(AesBlock block, [[maybe_unused]] Lanes lanes) {
#if MILLRACE_GPU
    if constexpr (Lanes::count > 1)
        for (uint32_t& word : block.words) word = __shfl_sync(lanes.mask(), word, 0, Lanes::count);
#endif
    return block;
}

/// One column of a full round; `a` to `d` are the words whose rows 0 to 3 come into it.
template <class Table>
MILLRACE_DEVICE uint32_t aes_column(const Table& table, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return table[byte_of(a, 3)] ^ rotate_right(table[byte_of(b, 2)], 8) ^ rotate_right(table[byte_of(c, 1)], 16) ^
           rotate_right(table[byte_of(d, 0)], 24);
}
/// A full round of encryption.
template <class Table>
MILLRACE_DEVICE AesBlock aes_round(const Table& table, const AesBlock& s, const AesBlock& key) {
    const uint32_t *w = s.words, *k = key.words;
    return {{aes_column(table, w[0], w[1], w[2], w[3]) ^ k[0], aes_column(table, w[1], w[2], w[3], w[0]) ^ k[1],
             aes_column(table, w[2], w[3], w[0], w[1]) ^ k[2], aes_column(table, w[3], w[0], w[1], w[2]) ^ k[3]}};
}
/// One column of the last round of encryption: the S-box is the second and the third byte of the table's words.
template <class Table>
MILLRACE_DEVICE uint32_t aes_last_column(const Table& table, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const uint32_t row0 = table[byte_of(a, 3)], row1 = table[byte_of(b, 2)], row2 = table[byte_of(c, 1)],
                   row3 = table[byte_of(d, 0)];
#if MILLRACE_GPU
    return __byte_perm(__byte_perm(row3, row2, 0x0051), __byte_perm(row1, row0, 0x0051), 0x5410);
#else
    return byte_of(row0, 1) << 24 | byte_of(row1, 1) << 16 | byte_of(row2, 1) << 8 | byte_of(row3, 1);
#endif
}
/// The last round of encryption, which mixes no columns.
template <class Table>
MILLRACE_DEVICE AesBlock aes_last_round(const Table& table, const AesBlock& s, const AesBlock& key) {
    const uint32_t *w = s.words, *k = key.words;
    return {
        {aes_last_column(table, w[0], w[1], w[2], w[3]) ^ k[0], aes_last_column(table, w[1], w[2], w[3], w[0]) ^ k[1],
         aes_last_column(table, w[2], w[3], w[0], w[1]) ^ k[2], aes_last_column(table, w[3], w[0], w[1], w[2]) ^ k[3]}};
}
MILLRACE_DEVICE uint32_t aes_last_inverse_column(const uint32_t* box, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return box[a >> 24] << 24 | box[(b >> 16) & 255] << 16 | box[(c >> 8) & 255] << 8 | box[d & 255];
}

/// Counter blocks that differ in nothing but their last byte, encrypted. What the first two rounds make of the other
/// bytes is the same for all of them: five look-ups are left of 32 (after Bernstein and Schwabe, "New AES software
/// speed records", INDOCRYPT 2008).
class AesCounters {
public:
    /// `counter` is one of the blocks.
    MILLRACE_DEVICE AesCounters(const AesTables& tables, const uint32_t* keys, uint32_t rounds, const AesBlock& counter)
        : table_(tables), keys_(keys), rounds_(rounds) {
        const AesBlock s = counter ^ round_key(keys, 0);
        const uint32_t* w = s.words;
        low_ = byte_of(w[3] ^ counter.words[3], 0);
        // Round 1: the last byte comes into the first column alone.
        const AesBlock key = round_key(keys, 1);
        first_ = table_[byte_of(w[0], 3)] ^ rotate_right(table_[byte_of(w[1], 2)], 8) ^
                 rotate_right(table_[byte_of(w[2], 1)], 16) ^ key.words[0];
        const uint32_t t1 = aes_column(table_, w[1], w[2], w[3], w[0]) ^ key.words[1];
        const uint32_t t2 = aes_column(table_, w[2], w[3], w[0], w[1]) ^ key.words[2];
        const uint32_t t3 = aes_column(table_, w[3], w[0], w[1], w[2]) ^ key.words[3];
        // Round 2: a byte of that column comes into each.
        second_ = round_key(keys, 2);
        second_.words[0] ^= others(t1, 2, t2, 1, t3, 0);
        second_.words[1] ^= others(t1, 3, t2, 2, t3, 1);
        second_.words[2] ^= others(t1, 0, t2, 3, t3, 2);
        second_.words[3] ^= others(t1, 1, t2, 0, t3, 3);
    }
    /// The block whose last byte is `last`.
    MILLRACE_DEVICE AesBlock encrypted(uint32_t last) const {
        const uint32_t t0 = first_ ^ rotate_right(table_[low_ ^ last], 24);
        AesBlock s{{second_.words[0] ^ table_[byte_of(t0, 3)],
                    second_.words[1] ^ rotate_right(table_[byte_of(t0, 0)], 24),
                    second_.words[2] ^ rotate_right(table_[byte_of(t0, 1)], 16),
                    second_.words[3] ^ rotate_right(table_[byte_of(t0, 2)], 8)}};
#if MILLRACE_GPU
#pragma unroll
#endif
        for (uint32_t round = 3; round < rounds_; ++round) s = aes_round(table_, s, round_key(keys_, round));
        return aes_last_round(table_, s, round_key(keys_, rounds_));
    }

private:
    /// What three words bring into a column of theirs, each by one of its bytes.
    MILLRACE_DEVICE uint32_t others(uint32_t a, unsigned byte_a, uint32_t b, unsigned byte_b, uint32_t c,
                                    unsigned byte_c) const {
        return rotate_right(table_[byte_of(a, byte_a)], 24 - 8 * byte_a) ^
               rotate_right(table_[byte_of(b, byte_b)], 24 - 8 * byte_b) ^
               rotate_right(table_[byte_of(c, byte_c)], 24 - 8 * byte_c);
    }

    AesEncryptTable table_;
    const uint32_t* keys_;
    uint32_t rounds_;
    uint32_t low_;     ///< the last byte of the first round key
    uint32_t first_;   ///< the first column behind round 1, without the last byte's part
    AesBlock second_;  ///< what round 2 makes of the other columns, and its key
};

}  // namespace detail

/// Encrypts one block; `keys` holds 4 * (rounds + 1) words (FIPS 197, section 5.1) at a multiple of 16 bytes.
MILLRACE_DEVICE AesBlock aes_encrypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds,
                                     const AesBlock& in) {
    const AesEncryptTable table(tables);
    AesBlock s = in ^ round_key(keys, 0);
    // Not all rounds unrolled: a GPU waits for instructions, too.
#if MILLRACE_GPU
#pragma unroll 3
#endif
    for (uint32_t round = 1; round < rounds; ++round) s = detail::aes_round(table, s, round_key(keys, round));
    return detail::aes_last_round(table, s, round_key(keys, rounds));
}

/// Decrypts one block; `keys` is the schedule of the equivalent inverse cipher (FIPS 197, section 5.3.5).
MILLRACE_DEVICE AesBlock aes_decrypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds,
                                     const AesBlock& in) {
    const uint32_t* table = tables.decrypt.data();
    uint32_t s0 = in.words[0] ^ keys[0], s1 = in.words[1] ^ keys[1];
    uint32_t s2 = in.words[2] ^ keys[2], s3 = in.words[3] ^ keys[3];
#if MILLRACE_GPU
#pragma unroll 3
#endif
    for (uint32_t round = 1; round < rounds; ++round) {
        keys += 4;
        const uint32_t t0 = detail::aes_column(table, s0, s3, s2, s1) ^ keys[0];
        const uint32_t t1 = detail::aes_column(table, s1, s0, s3, s2) ^ keys[1];
        const uint32_t t2 = detail::aes_column(table, s2, s1, s0, s3) ^ keys[2];
        const uint32_t t3 = detail::aes_column(table, s3, s2, s1, s0) ^ keys[3];
        s0 = t0, s1 = t1, s2 = t2, s3 = t3;
    }
    keys += 4;
    const uint32_t* box = table + 256;
    return {{detail::aes_last_inverse_column(box, s0, s3, s2, s1) ^ keys[0],
             detail::aes_last_inverse_column(box, s1, s0, s3, s2) ^ keys[1],
             detail::aes_last_inverse_column(box, s2, s1, s0, s3) ^ keys[2],
             detail::aes_last_inverse_column(box, s3, s2, s1, s0) ^ keys[3]}};
}

namespace detail {
/// Counter mode. With `kMask` the first counter's block is no text's: it is returned (in all lanes), and the text
/// begins with the counter behind it.
template <bool kMask, class Lanes>
MILLRACE_DEVICE AesBlock aes_counter_mode(const AesTables& tables, const uint32_t* keys, uint32_t rounds,
                                          AesBlock counter, uint8_t* data, uint32_t count, Lanes lanes) {
    PerLane<AesBlock, Lanes> mask;
    uint32_t skipped = 0;  // blocks of a run that are no text's
    if constexpr (kMask) {
        skipped = 1;
        data -= kAesBlockBytes;
        count += kAesBlockBytes;
    }
    // In runs of blocks that differ in the last byte alone: most packets are one.
    while (count > 0) {
        const uint32_t last = byte_of(counter.words[3], 0);
        const uint32_t bytes = smaller(count, kAesBlockBytes * (256 - last));
        const AesCounters counters(tables, keys, rounds, counter);
        lanes.for_each((bytes + kAesBlockBytes - 1) / kAesBlockBytes, [&](uint32_t i) {
            uint8_t* at = data + kAesBlockBytes * i;
            const uint32_t left = bytes - kAesBlockBytes * i;
            const bool whole = left >= kAesBlockBytes && (!kMask || i >= skipped);
            uint32_t text[4] = {};
            if (whole) load_raw32s(at, text);  // on its way meanwhile
            const AesBlock stream = counters.encrypted(last + i);
            if (whole) {
                for (unsigned word = 0; word < 4; ++word) text[word] ^= swap32(stream.words[word]);
                store_raw32s(at, text);
                return;
            }
            if constexpr (kMask) {
                if (i < skipped) {
                    mask.of(0) = stream;
                    return;
                }
            }
            // Unrolled on a GPU, so that the words stay in registers. What ESP encrypts ends with a whole one.
#if MILLRACE_GPU
#pragma unroll
#endif
            for (unsigned word = 0; word < 4; ++word) {
                if (left >= 4 * word + 4) {
                    store_be32(at + 4 * word, load_be32(at + 4 * word) ^ stream.words[word]);
                    continue;
                }
                for (uint32_t j = 4 * word; j < left; ++j)
                    at[j] = static_cast<uint8_t>(at[j] ^ (stream.words[word] >> (24 - 8 * (j % 4))));
                break;
            }
        });
        data += bytes;
        count -= bytes;
        counter.words[3] += 256 - last;
        skipped = 0;
    }
    AesBlock first{};
    if constexpr (kMask) first = of_first_lane(mask.of(0), lanes);
    return first;
}
}  // namespace detail

/// Encrypts or decrypts `count` bytes in place in counter mode. `counter` is the first counter block;
/// its last word counts the blocks, modulo 2^32 (RFC 3686, section 4). The lanes share the blocks.
template <class Lanes>
MILLRACE_DEVICE void aes_ctr(const AesTables& tables, const uint32_t* keys, uint32_t rounds, AesBlock counter,
                             uint8_t* data, uint32_t count, Lanes lanes) {
    detail::aes_counter_mode<false>(tables, keys, rounds, counter, data, count, lanes);
}

/// Encrypts `blocks` blocks in place in CBC mode. Each block needs the one before, so one lane does it all.
template <class Lanes>
MILLRACE_DEVICE_CALL void aes_cbc_encrypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds,
                                          const uint8_t* iv, uint8_t* data, uint32_t blocks, Lanes lanes) {
    lanes.once([&] {
        AesBlock chain = load_block(iv);
        for (uint32_t i = 0; i < blocks; ++i) {
            chain = aes_encrypt(tables, keys, rounds, load_block(data + kAesBlockBytes * i) ^ chain);
            store_block(data + kAesBlockBytes * i, chain);
        }
    });
}

/// Decrypts `blocks` blocks in place in CBC mode, all lanes at once. `keys` is the inverse schedule and
/// `iv` does not overlap `data`.
template <class Lanes>
MILLRACE_DEVICE_CALL void aes_cbc_decrypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds,
                                          const uint8_t* iv, uint8_t* data, uint32_t blocks, Lanes lanes) {
    PerLane<AesBlock, Lanes> plain;
    // From the end to the start, because a block needs the ciphertext before it.
    for (uint32_t end = blocks; end > 0;) {
        const uint32_t count = smaller<uint32_t>(end, Lanes::count);
        const uint32_t begin = end - count;
        lanes.for_each(count, [&](uint32_t lane) {
            const uint32_t i = begin + lane;
            const uint8_t* at = data + kAesBlockBytes * i;
            const AesBlock before = load_block(i == 0 ? iv : at - kAesBlockBytes);
            plain.of(lane) = aes_decrypt(tables, keys, rounds, load_block(at)) ^ before;
        });
        lanes.for_each(count,
                       [&](uint32_t lane) { store_block(data + kAesBlockBytes * (begin + lane), plain.of(lane)); });
        end = begin;
    }
}

}  // namespace millrace::crypto
