// SHA-1, SHA-256 and their HMACs against NIST, RFC 2202 and 4231, Wycheproof and OpenSSL.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

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

template <class State>
Bytes digest(const State& state) {
    Bytes bytes(4 * State::kWords);
    for (unsigned i = 0; i < State::kWords; ++i) store_be32(bytes.data() + 4 * i, state.h[i]);
    return bytes;
}

/// One of the hashes, and where its known answers lie.
template <class State>
struct Answers;
template <>
struct Answers<Sha1> {
    static constexpr const char* hash = "SHA1/SHA1ShortMsg.rsp";
    static constexpr const char* hmac = "rfc-2202-sha1.txt";
    static constexpr const char* wycheproof = "hmac_sha1_test.json";
    static const EVP_MD* openssl() { return EVP_sha1(); }
};
template <>
struct Answers<Sha256> {
    static constexpr const char* hash = "SHA2/SHA256ShortMsg.rsp";
    static constexpr const char* hmac = "rfc-4231-sha256.txt";
    static constexpr const char* wycheproof = "hmac_sha256_test.json";
    static const EVP_MD* openssl() { return EVP_sha256(); }
};

template <class State>
class Hash : public testing::Test {
protected:
    static Bytes hash(const Bytes& message) {
        State state;
        hash_finish(state, message.data(), static_cast<uint32_t>(message.size()), 0);
        return digest(state);
    }
    static Bytes authenticate(const Bytes& key, const Bytes& message) {
        return digest(hmac(hmac_key<State>(key), message.data(), static_cast<uint32_t>(message.size())));
    }
};
using Hashes = testing::Types<Sha1, Sha256>;
TYPED_TEST_SUITE(Hash, Hashes);

TYPED_TEST(Hash, GivesTheAnswersOfNist) {
    MILLRACE_NEEDS_DATA("crypto-kat/nist-rfc/hashes");
    size_t cases = 0;
    for (const auto& answer : test::read_known_answers(
             test::data_path("crypto-kat/nist-rfc/hashes/" + std::string(Answers<TypeParam>::hash)))) {
        if (!answer.fields.contains("Msg")) continue;
        Bytes message = answer.bytes("Msg");
        message.resize(std::stoul(answer.fields.at("Len")) / 8);
        EXPECT_EQ(this->hash(message), answer.bytes("MD"));
        ++cases;
    }
    EXPECT_GE(cases, 64u);
}

TYPED_TEST(Hash, GivesTheAnswersOfTheRfcsForItsHmac) {
    MILLRACE_NEEDS_DATA("crypto-kat/nist-rfc/HMAC");
    size_t cases = 0;
    for (const auto& answer : test::read_known_answers(
             test::data_path("crypto-kat/nist-rfc/HMAC/" + std::string(Answers<TypeParam>::hmac)))) {
        if (!answer.fields.contains("Msg")) continue;
        Bytes tag = this->authenticate(answer.bytes("Key"), answer.bytes("Msg"));
        const Bytes wanted = answer.bytes("MD");  // RFC 4231 shortens one
        ASSERT_GE(wanted.size(), 16u);
        tag.resize(wanted.size());
        EXPECT_EQ(tag, wanted);
        ++cases;
    }
    EXPECT_GE(cases, 6u);
}

TYPED_TEST(Hash, TellsTheValidFromTheForgedTagsOfWycheproof) {
    MILLRACE_NEEDS_DATA("crypto-kat/wycheproof");
    const auto file = nlohmann::json::parse(
        read_file(test::data_path("crypto-kat/wycheproof/" + std::string(Answers<TypeParam>::wycheproof))));
    size_t valid = 0, forged = 0;
    for (const auto& group : file["testGroups"]) {
        for (const auto& test : group["tests"]) {
            Bytes tag = this->authenticate(from_hex(test["key"]), from_hex(test["msg"]));
            tag.resize(group["tagSize"].template get<size_t>() / 8);
            const bool expected = test["result"] == "valid";
            EXPECT_EQ(tag == from_hex(test["tag"]), expected) << test["tcId"];
            (expected ? valid : forged) += 1;
        }
    }
    EXPECT_GT(valid, 10u);
    EXPECT_GT(forged, 10u);
}

TYPED_TEST(Hash, AgreesWithOpensslAtEveryLengthUpToThreeBlocks) {
    std::mt19937 random(2);
    for (size_t length = 0; length <= 3 * kHashBlockBytes + 2; ++length) {
        Bytes key(1 + random() % 100), message(length), expected(4 * TypeParam::kWords);
        for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
        for (uint8_t& byte : message) byte = static_cast<uint8_t>(random());
        HMAC(Answers<TypeParam>::openssl(), key.data(), static_cast<int>(key.size()), message.data(), message.size(),
             expected.data(), nullptr);
        EXPECT_EQ(this->authenticate(key, message), expected) << length;
    }
}

}  // namespace
}  // namespace millrace::crypto
