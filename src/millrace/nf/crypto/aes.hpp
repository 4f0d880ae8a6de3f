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
inline constexpr uint32_t kAes128Words = 4 * (kAes128Rounds + 1);  ///< round-key words of a schedule

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
    for (uint32_t i = threadIdx.x; i < kAesBlockMemory; i += blockDim.x) block[i] = tables.encrypt[i / kAesCopies];
}
#endif

/// The encryption table as a thread reaches it.
class AesEncryptTable {
public:
#if MILLRACE_GPU
    MILLRACE_DEVICE explicit AesEncryptTable(const AesTables&) : own_(block_memory() + threadIdx.x % kAesCopies) {}
    MILLRACE_DEVICE uint32_t operator[](uint32_t byte) const { return own_[byte * kAesCopies]; }
#else
    explicit AesEncryptTable(const AesTables& tables) : own_(tables.encrypt.data()) {}
    MILLRACE_DEVICE uint32_t operator[](uint32_t byte) const { return own_[byte]; }
#endif

private:
    const uint32_t* own_;
};

struct AesBlock {
    uint32_t words[4];
};

MILLRACE_DEVICE uint32_t rotate_right(uint32_t v, unsigned bits) { return (v >> bits) | (v << (32 - bits)); }

MILLRACE_DEVICE AesBlock load_block(const uint8_t* p) {
    AesBlock block;
    load_be32s(p, block.words);
    return block;
}
MILLRACE_DEVICE void store_block(uint8_t* p, const AesBlock& block) {
    for (unsigned i = 0; i < 4; ++i) store_be32(p + 4 * i, block.words[i]);
}
MILLRACE_DEVICE AesBlock operator^(const AesBlock& a, const AesBlock& b) {
    return {{a.words[0] ^ b.words[0], a.words[1] ^ b.words[1], a.words[2] ^ b.words[2], a.words[3] ^ b.words[3]}};
}

namespace detail {

/// One column of a full round; `a` to `d` are the words whose rows 0 to 3 come into it.
template <class Table>
MILLRACE_DEVICE uint32_t aes_column(const Table& table, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return table[a >> 24] ^ rotate_right(table[(b >> 16) & 255], 8) ^ rotate_right(table[(c >> 8) & 255], 16) ^
           rotate_right(table[d & 255], 24);
}
/// One column of the last round of encryption: the S-box is the second byte of the table's words.
template <class Table>
MILLRACE_DEVICE uint32_t aes_last_column(const Table& table, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return ((table[a >> 24] >> 8) & 255) << 24 | ((table[(b >> 16) & 255] >> 8) & 255) << 16 |
           (table[(c >> 8) & 255] & 0xff00) | ((table[d & 255] >> 8) & 255);
}
MILLRACE_DEVICE uint32_t aes_last_inverse_column(const uint32_t* box, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return box[a >> 24] << 24 | box[(b >> 16) & 255] << 16 | box[(c >> 8) & 255] << 8 | box[d & 255];
}

}  // namespace detail

/// Encrypts one block; `keys` holds 4 * (rounds + 1) words (FIPS 197, section 5.1).
MILLRACE_DEVICE AesBlock aes_encrypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds, const AesBlock& in) {
    const AesEncryptTable table(tables);
    uint32_t s0 = in.words[0] ^ keys[0], s1 = in.words[1] ^ keys[1];
    uint32_t s2 = in.words[2] ^ keys[2], s3 = in.words[3] ^ keys[3];
    // Not all rounds unrolled: a GPU waits for instructions, too.
#if MILLRACE_GPU
#pragma unroll 3
#endif
    for (uint32_t round = 1; round < rounds; ++round) {
        keys += 4;
        const uint32_t t0 = detail::aes_column(table, s0, s1, s2, s3) ^ keys[0];
        const uint32_t t1 = detail::aes_column(table, s1, s2, s3, s0) ^ keys[1];
        const uint32_t t2 = detail::aes_column(table, s2, s3, s0, s1) ^ keys[2];
        const uint32_t t3 = detail::aes_column(table, s3, s0, s1, s2) ^ keys[3];
        s0 = t0, s1 = t1, s2 = t2, s3 = t3;
    }
    keys += 4;
    return {{detail::aes_last_column(table, s0, s1, s2, s3) ^ keys[0],
             detail::aes_last_column(table, s1, s2, s3, s0) ^ keys[1],
             detail::aes_last_column(table, s2, s3, s0, s1) ^ keys[2],
             detail::aes_last_column(table, s3, s0, s1, s2) ^ keys[3]}};
}

/// Decrypts one block; `keys` is the schedule of the equivalent inverse cipher (FIPS 197, section 5.3.5).
MILLRACE_DEVICE AesBlock aes_decrypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds, const AesBlock& in) {
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

/// Encrypts or decrypts `count` bytes in place in counter mode. `counter` is the first counter block;
/// its last word counts the blocks, modulo 2^32 (RFC 3686, section 4). The lanes share the blocks.
template <class Lanes>
MILLRACE_DEVICE void aes_ctr(const AesTables& tables, const uint32_t* keys, uint32_t rounds, const AesBlock& counter,
                             uint8_t* data, uint32_t count, Lanes lanes) {
    lanes.for_each((count + kAesBlockBytes - 1) / kAesBlockBytes, [&](uint32_t i) {
        AesBlock block = counter;
        block.words[3] += i;
        const AesBlock stream = aes_encrypt(tables, keys, rounds, block);
        uint8_t* at = data + kAesBlockBytes * i;
        const uint32_t left = count - kAesBlockBytes * i;
        if (left >= kAesBlockBytes) {
            store_block(at, load_block(at) ^ stream);
        } else {
            // Unrolled on a GPU, so that the words stay in registers. What ESP encrypts ends with a whole one.
#if MILLRACE_GPU
#pragma unroll
#endif
            for (unsigned word = 0; word < 4; ++word) {
                if (left >= 4 * word + 4) {
                    store_be32(at + 4 * word, load_be32(at + 4 * word) ^ stream.words[word]);
                    continue;
                }
                for (uint32_t j = 4 * word; j < left; ++j) at[j] = static_cast<uint8_t>(at[j] ^ (stream.words[word] >> (24 - 8 * (j % 4))));
                break;
            }
        }
    });
}

/// Encrypts `blocks` blocks in place in CBC mode. Each block needs the one before, so one lane does it all.
template <class Lanes>
MILLRACE_DEVICE_CALL void aes_cbc_encrypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds, const uint8_t* iv,
                                     uint8_t* data, uint32_t blocks, Lanes lanes) {
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
MILLRACE_DEVICE_CALL void aes_cbc_decrypt(const AesTables& tables, const uint32_t* keys, uint32_t rounds, const uint8_t* iv,
                                     uint8_t* data, uint32_t blocks, Lanes lanes) {
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
        lanes.for_each(count, [&](uint32_t lane) {
            store_block(data + kAesBlockBytes * (begin + lane), plain.of(lane));
        });
        end = begin;
    }
}

}  // namespace millrace::crypto
