// AES of the device halves against NIST's and RFC 3686's known answers, and against OpenSSL.
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
using test::KnownAnswer;

struct Key {
    explicit Key(const Bytes& bytes)
        : schedule(aes_key_schedule(bytes)), inverse(aes_inverse_schedule(schedule)),
          rounds(static_cast<uint32_t>(schedule.size() / 4 - 1)) {}
    std::vector<uint32_t> schedule, inverse;
    uint32_t rounds;
};

template <class Lanes>
Bytes cbc(const Key& key, bool encrypt, const Bytes& iv, Bytes data, Lanes lanes) {
    const uint32_t blocks = static_cast<uint32_t>(data.size() / kAesBlockBytes);
    if (encrypt)
        aes_cbc_encrypt(host_aes_tables(), key.schedule.data(), key.rounds, iv.data(), data.data(), blocks, lanes);
    else aes_cbc_decrypt(host_aes_tables(), key.inverse.data(), key.rounds, iv.data(), data.data(), blocks, lanes);
    return data;
}
template <class Lanes>
Bytes ctr(const Key& key, const Bytes& counter, Bytes data, Lanes lanes) {
    aes_ctr(host_aes_tables(), key.schedule.data(), key.rounds, load_block(counter.data()), data.data(),
            static_cast<uint32_t>(data.size()), lanes);
    return data;
}

Bytes openssl(const EVP_CIPHER* cipher, const Bytes& key, const Bytes& iv, const Bytes& data) {
    EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
    Bytes out(data.size() + 16);
    int length = 0;
    EVP_EncryptInit_ex(context, cipher, nullptr, key.data(), iv.data());
    EVP_CIPHER_CTX_set_padding(context, 0);
    EVP_EncryptUpdate(context, out.data(), &length, data.data(), static_cast<int>(data.size()));
    EVP_CIPHER_CTX_free(context);
    out.resize(data.size());
    return out;
}

Bytes random_bytes(std::mt19937& random, size_t count) {
    Bytes bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    return bytes;
}

TEST(Aes, GivesTheAnswersOfNistForSingleBlocks) {
    MILLRACE_NEEDS_DATA("crypto-kat/nist-rfc/AES/ECB");
    size_t cases = 0;
    for (const char* file : {"ECBGFSbox128", "ECBKeySbox128", "ECBVarKey128", "ECBVarTxt128", "ECBMMT128",
                             "ECBGFSbox256", "ECBKeySbox256", "ECBVarKey256", "ECBVarTxt256", "ECBMMT256"}) {
        for (const KnownAnswer& answer :
             test::read_known_answers(test::data_path("crypto-kat/nist-rfc/AES/ECB/" + std::string(file) + ".rsp"))) {
            const Key key(answer.bytes("KEY"));
            const Bytes plain = answer.bytes("PLAINTEXT"), cipher = answer.bytes("CIPHERTEXT");
            for (size_t at = 0; at < plain.size(); at += kAesBlockBytes) {
                Bytes block(kAesBlockBytes);
                store_block(block.data(), aes_encrypt(host_aes_tables(), key.schedule.data(), key.rounds,
                                                      load_block(plain.data() + at)));
                EXPECT_TRUE(std::equal(block.begin(), block.end(), cipher.begin() + static_cast<long>(at))) << file;
                store_block(block.data(), aes_decrypt(host_aes_tables(), key.inverse.data(), key.rounds,
                                                      load_block(cipher.data() + at)));
                EXPECT_TRUE(std::equal(block.begin(), block.end(), plain.begin() + static_cast<long>(at))) << file;
            }
            ++cases;
        }
    }
    EXPECT_GT(cases, 1000u);
}

TEST(Aes, GivesTheAnswersOfNistInCbcModeWithAnyNumberOfLanes) {
    MILLRACE_NEEDS_DATA("crypto-kat/nist-rfc/AES/CBC");
    for (const char* file :
         {"CBCGFSbox128", "CBCKeySbox128", "CBCVarKey128", "CBCVarTxt128", "CBCMMT128", "CBCMMT256"}) {
        for (const KnownAnswer& answer :
             test::read_known_answers(test::data_path("crypto-kat/nist-rfc/AES/CBC/" + std::string(file) + ".rsp"))) {
            const Key key(answer.bytes("KEY"));
            const Bytes iv = answer.bytes("IV"), plain = answer.bytes("PLAINTEXT"), cipher = answer.bytes("CIPHERTEXT");
            EXPECT_EQ(cbc(key, true, iv, plain, Lanes<1>{}), cipher) << file;
            EXPECT_EQ(cbc(key, true, iv, plain, Lanes<32>{}), cipher) << file;
            EXPECT_EQ(cbc(key, false, iv, cipher, Lanes<1>{}), plain) << file;
            EXPECT_EQ(cbc(key, false, iv, cipher, Lanes<8>{}), plain) << file;
            EXPECT_EQ(cbc(key, false, iv, cipher, Lanes<32>{}), plain) << file;
        }
    }
}

TEST(Aes, GivesTheAnswersOfRfc3686InCounterMode) {
    MILLRACE_NEEDS_DATA("crypto-kat/nist-rfc/AES/CTR");
    for (const char* file : {"aes-128-ctr", "aes-256-ctr"}) {
        for (const KnownAnswer& answer :
             test::read_known_answers(test::data_path("crypto-kat/nist-rfc/AES/CTR/" + std::string(file) + ".txt"))) {
            const Key key(answer.bytes("KEY"));
            const Bytes plain = answer.bytes("PLAINTEXT"), cipher = answer.bytes("CIPHERTEXT");
            EXPECT_EQ(ctr(key, answer.bytes("IV"), plain, Lanes<1>{}), cipher) << file;
            EXPECT_EQ(ctr(key, answer.bytes("IV"), cipher, Lanes<32>{}), plain) << file;
        }
    }
}

TEST(Aes, AgreesWithTheValidCasesOfWycheproofBeforeTheirPadding) {
    MILLRACE_NEEDS_DATA("crypto-kat/wycheproof/aes_cbc_pkcs5_test.json");
    const auto file = nlohmann::json::parse(
        read_file(test::data_path("crypto-kat/wycheproof/aes_cbc_pkcs5_test.json")));
    size_t cases = 0;
    for (const auto& group : file["testGroups"]) {
        for (const auto& test : group["tests"]) {
            if (test["result"] != "valid") continue;
            const Key key(from_hex(test["key"]));
            const Bytes iv = from_hex(test["iv"]), cipher = from_hex(test["ct"]);
            Bytes plain = from_hex(test["msg"]);
            const size_t padding = kAesBlockBytes - plain.size() % kAesBlockBytes;
            plain.insert(plain.end(), padding, static_cast<uint8_t>(padding));
            EXPECT_EQ(cbc(key, true, iv, plain, Lanes<8>{}), cipher) << test["tcId"];
            EXPECT_EQ(cbc(key, false, iv, cipher, Lanes<8>{}), plain) << test["tcId"];
            ++cases;
        }
    }
    EXPECT_GT(cases, 50u);
}

TEST(Aes, AgreesWithOpensslAtEveryLengthAroundBlocksAndLanes) {
    std::mt19937 random(1);
    for (const size_t length :
         {0, 1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 1500, 9000}) {
        const Bytes key = random_bytes(random, 16), iv = random_bytes(random, 16), data = random_bytes(random, length);
        const Bytes counted = openssl(EVP_aes_128_ctr(), key, iv, data);
        EXPECT_EQ(ctr(Key(key), iv, data, Lanes<1>{}), counted) << length;
        EXPECT_EQ(ctr(Key(key), iv, data, Lanes<8>{}), counted) << length;
        EXPECT_EQ(ctr(Key(key), iv, data, Lanes<32>{}), counted) << length;
        const Bytes whole(data.begin(), data.begin() + static_cast<long>(length / 16 * 16));
        const Bytes chained = openssl(EVP_aes_128_cbc(), key, iv, whole);
        EXPECT_EQ(cbc(Key(key), true, iv, whole, Lanes<8>{}), chained) << length;
        EXPECT_EQ(cbc(Key(key), false, iv, chained, Lanes<1>{}), whole) << length;
        EXPECT_EQ(cbc(Key(key), false, iv, chained, Lanes<8>{}), whole) << length;
        EXPECT_EQ(cbc(Key(key), false, iv, chained, Lanes<32>{}), whole) << length;
    }
}

/// Blocks that differ in their last byte share work, so the counter starts at all places before one changes that comes
/// before it.
TEST(Aes, CountsAcrossEveryByteOfTheCounterWord) {
    std::mt19937 random(2);
    for (const size_t key_bytes : {16, 24, 32}) {
        const Key key(random_bytes(random, key_bytes));
        for (const uint32_t first :
             {0u, 1u, 0xffu, 0x1fdu, 0xffffu, 0xfffff0u, 0xffffff00u, 0xfffffffeu, 0xffffffffu}) {
            AesBlock counter = load_block(random_bytes(random, 16).data());
            counter.words[3] = first;
            Bytes start(16);
            store_block(start.data(), counter);
            Bytes expected(16 * 600);  // more than two runs
            for (uint32_t i = 0; i < 600; ++i, ++counter.words[3])
                store_block(expected.data() + 16 * i,
                            aes_encrypt(host_aes_tables(), key.schedule.data(), key.rounds, counter));
            EXPECT_EQ(ctr(key, start, Bytes(expected.size()), Lanes<1>{}), expected) << first;
            EXPECT_EQ(ctr(key, start, Bytes(expected.size()), Lanes<8>{}), expected) << first;
        }
    }
}

}  // namespace
}  // namespace millrace::crypto
