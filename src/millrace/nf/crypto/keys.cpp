#include "millrace/nf/crypto/keys.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::crypto {
namespace {

/// Multiplication in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197, section 4.2).
uint8_t multiply(uint8_t a, uint8_t b) {
    unsigned product = 0, factor = a;
    for (unsigned rest = b; rest != 0; rest >>= 1) {
        if (rest & 1) product ^= factor;
        factor = (factor << 1) ^ ((factor & 0x80) != 0 ? 0x11b : 0);
    }
    return static_cast<uint8_t>(product);
}

/// The S-box: the inverse in GF(2^8), then an affine map (FIPS 197, section 5.1.1).
std::array<uint8_t, 256> make_box() {
    std::array<uint8_t, 256> box{};
    for (unsigned x = 0; x < 256; ++x) {
        // x^254 is the inverse of x, and 0 for 0.
        uint8_t inverse = 1;
        for (unsigned i = 0; i < 254; ++i) inverse = multiply(inverse, static_cast<uint8_t>(x));
        unsigned s = 0x63;
        for (unsigned shift = 0; shift < 5; ++shift) s ^= (inverse << shift) | (inverse >> (8 - shift));
        box[x] = static_cast<uint8_t>(s);
    }
    return box;
}
const std::array<uint8_t, 256>& box() {
    static const std::array<uint8_t, 256> made = make_box();
    return made;
}

uint32_t word(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
    return static_cast<uint32_t>(a) << 24 | static_cast<uint32_t>(b) << 16 | static_cast<uint32_t>(c) << 8 | d;
}
uint32_t substitute(uint32_t v) {
    return word(box()[v >> 24], box()[(v >> 16) & 255], box()[(v >> 8) & 255], box()[v & 255]);
}
/// (14s, 9s, 13s, 11s): what a byte of the first row gives to its column in InvMixColumns.
uint32_t inverse_mix(uint8_t s) { return word(multiply(s, 14), multiply(s, 9), multiply(s, 13), multiply(s, 11)); }

}  // namespace

std::shared_ptr<const std::vector<uint32_t>> aes_encrypt_table() {
    static const auto table = [] {
        auto words = std::make_shared<std::vector<uint32_t>>();
        for (const uint8_t s : box()) words->push_back(word(multiply(s, 2), s, s, multiply(s, 3)));
        return std::shared_ptr<const std::vector<uint32_t>>(std::move(words));
    }();
    return table;
}

std::shared_ptr<const std::vector<uint32_t>> aes_decrypt_table() {
    static const auto table = [] {
        auto words = std::make_shared<std::vector<uint32_t>>(512);
        for (unsigned x = 0; x < 256; ++x) (*words)[256 + box()[x]] = x;
        for (unsigned x = 0; x < 256; ++x) (*words)[x] = inverse_mix(static_cast<uint8_t>((*words)[256 + x]));
        return std::shared_ptr<const std::vector<uint32_t>>(std::move(words));
    }();
    return table;
}

AesTables host_aes_tables() {
    return {{aes_encrypt_table()->data(), aes_encrypt_table()->size()},
            {aes_decrypt_table()->data(), aes_decrypt_table()->size()}};
}

std::vector<uint32_t> aes_key_schedule(std::span<const uint8_t> key) {
    const size_t key_words = key.size() / 4;
    std::vector<uint32_t> schedule(4 * (key_words + 7));
    uint8_t round_constant = 1;
    for (size_t i = 0; i < schedule.size(); ++i) {
        if (i < key_words) {
            schedule[i] = load_be32(key.data() + 4 * i);
            continue;
        }
        uint32_t v = schedule[i - 1];
        if (i % key_words == 0) {
            v = substitute(rotate_right(v, 24)) ^ static_cast<uint32_t>(round_constant) << 24;
            round_constant = multiply(round_constant, 2);
        } else if (key_words > 6 && i % key_words == 4) {
            v = substitute(v);
        }
        schedule[i] = schedule[i - key_words] ^ v;
    }
    return schedule;
}

std::vector<uint32_t> aes_inverse_schedule(std::span<const uint32_t> schedule) {
    std::vector<uint32_t> inverse(schedule.size());
    for (size_t i = 0; i < schedule.size(); ++i) {
        uint32_t v = schedule[schedule.size() - 4 - i / 4 * 4 + i % 4];
        if (i >= 4 && i + 4 < schedule.size())
            v = inverse_mix(static_cast<uint8_t>(v >> 24)) ^
                rotate_right(inverse_mix(static_cast<uint8_t>(v >> 16)), 8) ^
                rotate_right(inverse_mix(static_cast<uint8_t>(v >> 8)), 16) ^
                rotate_right(inverse_mix(static_cast<uint8_t>(v)), 24);
        inverse[i] = v;
    }
    return inverse;
}

template <class State>
HmacKey<State> hmac_key(std::span<const uint8_t> key) {
    std::array<uint8_t, kHashBlockBytes> padded{};
    if (key.size() > padded.size()) {
        State digest;
        hash_finish(digest, key.data(), static_cast<uint32_t>(key.size()), 0);
        for (unsigned i = 0; i < State::kWords; ++i) store_be32(padded.data() + 4 * i, digest.h[i]);
    } else {
        for (size_t i = 0; i < key.size(); ++i) padded[i] = key[i];
    }
    HmacKey<State> states;
    uint32_t inner[16], outer[16];
    for (unsigned i = 0; i < 16; ++i) {
        const uint32_t v = load_be32(padded.data() + 4 * i);
        inner[i] = v ^ 0x36363636u;
        outer[i] = v ^ 0x5c5c5c5cu;
    }
    states.inner.take(inner);
    states.outer.take(outer);
    explicit_bzero(padded.data(), padded.size());
    return states;
}
template HmacKey<Sha1> hmac_key(std::span<const uint8_t>);
template HmacKey<Sha256> hmac_key(std::span<const uint8_t>);

GhashKey ghash_key(std::span<const uint32_t> schedule) {
    const auto rounds = static_cast<uint32_t>(schedule.size() / 4 - 1);
    const AesBlock first = aes_encrypt(host_aes_tables(), schedule.data(), rounds, {});
    GhashKey key;
    AesBlock power = first;
    for (auto& words : key.powers) {
        std::copy(std::begin(power.words), std::end(power.words), words);
        power = ghash_multiply(power, first);
    }
    return key;
}

}  // namespace millrace::crypto
