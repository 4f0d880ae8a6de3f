// SHA-1 and HMAC-SHA1 against NIST, RFC 2202, Wycheproof and OpenSSL.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <nlohmann/json.hpp>
#include <random>

#include "millrace/base/file.hpp"
#include "millrace/nf/crypto/keys.hpp"
#include "nf/crypto/vectors.hpp"
#include "support/data.hpp"

namespace millrace::crypto {
namespace {

using test::Bytes;
using test::from_hex;

Bytes digest(const Sha1& state) {
    Bytes bytes(kSha1Bytes);
    for (unsigned i = 0; i < 5; ++i) store_be32(bytes.data() + 4 * i, state.h[i]);
    return bytes;
}
Bytes sha1(const Bytes& message) {
    Sha1 state;
    sha1_finish(state, message.data(), static_cast<uint32_t>(message.size()), 0);
    return digest(state);
}
Bytes hmac(const Bytes& key, const Bytes& message) {
    return digest(hmac_sha1(hmac_sha1_key(key), message.data(), static_cast<uint32_t>(message.size())));
}

TEST(Sha1, GivesTheAnswersOfNist) {
    MILLRACE_NEEDS_DATA("crypto-kat/nist-rfc/hashes/SHA1/SHA1ShortMsg.rsp");
    size_t cases = 0;
    for (const auto& answer :
         test::read_known_answers(test::data_path("crypto-kat/nist-rfc/hashes/SHA1/SHA1ShortMsg.rsp"))) {
        if (!answer.fields.contains("Msg")) continue;
        Bytes message = answer.bytes("Msg");
        message.resize(std::stoul(answer.fields.at("Len")) / 8);
        EXPECT_EQ(sha1(message), answer.bytes("MD"));
        ++cases;
    }
    EXPECT_GE(cases, 64u);
}

TEST(HmacSha1, GivesTheAnswersOfRfc2202) {
    MILLRACE_NEEDS_DATA("crypto-kat/nist-rfc/HMAC/rfc-2202-sha1.txt");
    size_t cases = 0;
    for (const auto& answer : test::read_known_answers(test::data_path("crypto-kat/nist-rfc/HMAC/rfc-2202-sha1.txt"))) {
        if (!answer.fields.contains("Msg")) continue;
        EXPECT_EQ(hmac(answer.bytes("Key"), answer.bytes("Msg")), answer.bytes("MD"));
        ++cases;
    }
    EXPECT_GE(cases, 7u);
}

TEST(HmacSha1, TellsTheValidFromTheForgedTagsOfWycheproof) {
    MILLRACE_NEEDS_DATA("crypto-kat/wycheproof/hmac_sha1_test.json");
    const auto file = nlohmann::json::parse(read_file(test::data_path("crypto-kat/wycheproof/hmac_sha1_test.json")));
    size_t valid = 0, forged = 0;
    for (const auto& group : file["testGroups"]) {
        for (const auto& test : group["tests"]) {
            Bytes tag = hmac(from_hex(test["key"]), from_hex(test["msg"]));
            tag.resize(group["tagSize"].get<size_t>() / 8);
            const bool expected = test["result"] == "valid";
            EXPECT_EQ(tag == from_hex(test["tag"]), expected) << test["tcId"];
            (expected ? valid : forged) += 1;
        }
    }
    EXPECT_GT(valid, 10u);
    EXPECT_GT(forged, 10u);
}

TEST(HmacSha1, AgreesWithOpensslAtEveryLengthUpToThreeBlocks) {
    std::mt19937 random(2);
    for (size_t length = 0; length <= 3 * kSha1BlockBytes + 2; ++length) {
        Bytes key(1 + random() % 100), message(length), expected(kSha1Bytes);
        for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
        for (uint8_t& byte : message) byte = static_cast<uint8_t>(random());
        HMAC(EVP_sha1(), key.data(), static_cast<int>(key.size()), message.data(), message.size(), expected.data(),
             nullptr);
        EXPECT_EQ(hmac(key, message), expected) << length;
    }
}

}  // namespace
}  // namespace millrace::crypto
