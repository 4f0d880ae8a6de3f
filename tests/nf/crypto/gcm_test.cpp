// AES-GCM of the device halves against NIST, Wycheproof and OpenSSL, and its products against the definition.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <nlohmann/json.hpp>
#include <random>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/crypto/keys.hpp"
#include "nf/crypto/vectors.hpp"
#include "support/data.hpp"

namespace millrace::crypto {
namespace {

using test::Bytes;
using test::from_hex;

struct Sealed {
    Bytes text, tag;
    bool operator==(const Sealed&) const = default;
};

/// A key as the device halves want it.
struct GcmKey {
    explicit GcmKey(const Bytes& bytes) {
        const auto words = aes_key_schedule(bytes);
        std::copy(words.begin(), words.end(), schedule);
        rounds = static_cast<uint32_t>(words.size() / 4 - 1);
        ghash = ghash_key(std::span(schedule, words.size()));
    }
    alignas(16) uint32_t schedule[kAesMaxWords] = {};
    uint32_t rounds = 0;
    GhashKey ghash;
};

AesBlock first_counter(const Bytes& iv) {
    Bytes block = iv;
    block.insert(block.end(), {0, 0, 0, 1});
    return load_block(block.data());
}

/// With room before the text that no byte of may change.
template <class Lanes>
Sealed seal(const GcmKey& key, const Bytes& iv, const Bytes& aad, const Bytes& plain, Lanes lanes,
            bool encrypt = true) {
    Bytes room(kAesBlockBytes, 0xa5);
    room.insert(room.end(), plain.begin(), plain.end());
    uint8_t* text = room.data() + kAesBlockBytes;
    const auto count = static_cast<uint32_t>(plain.size());
    const auto aad_bytes = static_cast<uint32_t>(aad.size());
    const auto authenticate = [&] {
        return ghash(key.ghash, detail::load_padded(aad.data(), aad_bytes), aad_bytes, text, count, lanes);
    };
    AesBlock tag{};
    if (!encrypt) tag = authenticate();
    const AesBlock mask = gcm_crypt(host_aes_tables(), key.schedule, key.rounds, first_counter(iv), text, count, lanes);
    if (encrypt) tag = authenticate();
    tag = tag ^ mask;
    EXPECT_EQ(Bytes(room.begin(), room.begin() + kAesBlockBytes), Bytes(kAesBlockBytes, 0xa5));
    Sealed sealed{Bytes(text, text + count), Bytes(kAesBlockBytes)};
    store_block(sealed.tag.data(), tag);
    return sealed;
}

TEST(Gcm, GivesTheAnswersOfNistWithAnyNumberOfLanes) {
    MILLRACE_NEEDS_DATA("crypto-kat/nist-rfc/AES/GCM/gcmEncryptExtIV128.rsp.xz");
    size_t cases = 0;
    for (const auto& answer :
         test::read_known_answers(test::data_path("crypto-kat/nist-rfc/AES/GCM/gcmEncryptExtIV128.rsp.xz"))) {
        if (!answer.fields.contains("Key")) continue;
        const auto field = [&](const char* name) {
            return answer.fields.contains(name) ? answer.bytes(name) : Bytes();
        };
        const Bytes iv = field("IV"), aad = field("AAD");
        if (iv.size() != 12 || aad.size() > kAesBlockBytes) continue;
        const GcmKey key(field("Key"));
        Sealed wanted{field("CT"), field("Tag")};
        const auto shortened = [&](Sealed sealed) {
            sealed.tag.resize(wanted.tag.size());
            return sealed;
        };
        ASSERT_EQ(shortened(seal(key, iv, aad, field("PT"), Lanes<1>{})), wanted);
        ASSERT_EQ(shortened(seal(key, iv, aad, field("PT"), Lanes<8>{})), wanted);
        ASSERT_EQ(shortened(seal(key, iv, aad, field("PT"), Lanes<32>{})), wanted);
        ++cases;
    }
    EXPECT_GT(cases, 500u);
}

TEST(Gcm, TellsTheValidFromTheForgedTagsOfWycheproof) {
    MILLRACE_NEEDS_DATA("crypto-kat/wycheproof/aes_gcm_test.json.xz");
    const auto file = nlohmann::json::parse(read_file(test::data_path("crypto-kat/wycheproof/aes_gcm_test.json.xz")));
    size_t valid = 0, forged = 0;
    for (const auto& group : file["testGroups"]) {
        if (group["ivSize"] != 96 || group["keySize"] == 192) continue;
        for (const auto& test : group["tests"]) {
            const Bytes aad = from_hex(test["aad"]);
            if (aad.size() > kAesBlockBytes) continue;
            const GcmKey key(from_hex(test["key"]));
            const Sealed opened = seal(key, from_hex(test["iv"]), aad, from_hex(test["ct"]), Lanes<8>{}, false);
            const bool expected = test["result"] == "valid";
            EXPECT_EQ(opened.tag == from_hex(test["tag"]), expected) << test["tcId"];
            if (expected) {
                EXPECT_EQ(opened.text, from_hex(test["msg"])) << test["tcId"];
            }
            (expected ? valid : forged) += 1;
        }
    }
    EXPECT_GT(valid, 50u);
    EXPECT_GT(forged, 50u);
}

Sealed openssl(const Bytes& key, const Bytes& iv, const Bytes& aad, const Bytes& plain) {
    EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
    Sealed sealed{Bytes(plain.size() + 16), Bytes(16)};
    int length = 0;
    EVP_EncryptInit_ex(context, key.size() == 16 ? EVP_aes_128_gcm() : EVP_aes_256_gcm(), nullptr, key.data(),
                       iv.data());
    EVP_EncryptUpdate(context, nullptr, &length, aad.data(), static_cast<int>(aad.size()));
    EVP_EncryptUpdate(context, sealed.text.data(), &length, plain.data(), static_cast<int>(plain.size()));
    EVP_EncryptFinal_ex(context, sealed.text.data() + length, &length);
    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, sealed.tag.data());
    EVP_CIPHER_CTX_free(context);
    sealed.text.resize(plain.size());
    return sealed;
}

TEST(Gcm, AgreesWithOpensslAtEveryLengthAroundBlocksLanesAndRunsOfCounters) {
    std::mt19937 random(5);
    const auto bytes = [&](size_t count) {
        Bytes made(count);
        for (uint8_t& byte : made) byte = static_cast<uint8_t>(random());
        return made;
    };
    std::vector<size_t> lengths = {127,  128,  129,  495,  496,  497,  511,  512,  513,  1023,
                                   1024, 1025, 1500, 4047, 4048, 4049, 4063, 4064, 4065, 9000};
    for (size_t length = 0; length < 70; ++length) lengths.push_back(length);
    for (const size_t length : lengths) {
        for (const size_t key_bytes : {16, 32}) {
            const Bytes key = bytes(key_bytes), iv = bytes(12), aad = bytes(length % 17), plain = bytes(length);
            const Sealed wanted = openssl(key, iv, aad, plain);
            EXPECT_EQ(seal(GcmKey(key), iv, aad, plain, Lanes<1>{}), wanted) << length;
            EXPECT_EQ(seal(GcmKey(key), iv, aad, plain, Lanes<8>{}), wanted) << length;
            EXPECT_EQ(seal(GcmKey(key), iv, aad, plain, Lanes<32>{}), wanted) << length;
            EXPECT_EQ(seal(GcmKey(key), iv, aad, wanted.text, Lanes<8>{}, false), (Sealed{plain, wanted.tag}))
                << length;
        }
    }
}

/// SP 800-38D, algorithm 1, bit by bit.
AesBlock multiply_by_definition(const AesBlock& x, AesBlock v) {
    AesBlock z{};
    for (unsigned i = 0; i < 128; ++i) {
        if ((x.words[i / 32] >> (31 - i % 32) & 1) != 0) z = z ^ v;
        const bool last = (v.words[3] & 1) != 0;
        for (unsigned word = 4; word-- > 0;)
            v.words[word] = v.words[word] >> 1 | (word > 0 ? v.words[word - 1] << 31 : 0);
        if (last) v.words[0] ^= 0xe1000000u;
    }
    return z;
}

TEST(Gcm, MultipliesAsTheFieldIsDefined) {
    std::mt19937 random(6);
    const auto same = [](const AesBlock& x, const AesBlock& y) {
        const AesBlock made = ghash_multiply(x, y), wanted = multiply_by_definition(x, y);
        return std::equal(std::begin(made.words), std::end(made.words), std::begin(wanted.words));
    };
    const AesBlock ones{{~0u, ~0u, ~0u, ~0u}};
    EXPECT_TRUE(same(ones, ones));
    for (unsigned a = 0; a < 128; ++a) {
        AesBlock x{};
        x.words[a / 32] = 1u << (31 - a % 32);
        EXPECT_TRUE(same(x, ones)) << a;
        for (unsigned b = 0; b < 128; ++b) {
            AesBlock y{};
            y.words[b / 32] = 1u << (31 - b % 32);
            EXPECT_TRUE(same(x, y)) << a << " " << b;
        }
    }
    for (unsigned n = 0; n < 20000; ++n) {
        AesBlock x{}, y{};
        for (unsigned word = 0; word < 4; ++word) x.words[word] = random(), y.words[word] = random();
        ASSERT_TRUE(same(x, y)) << n;
    }
}

}  // namespace
}  // namespace millrace::crypto
