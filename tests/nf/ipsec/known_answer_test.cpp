// Whole ESP packets that others made: DPDK's vectors and a capture of two real gateways.
#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "millrace/base/files/file.hpp"
#include "nf/ipsec/gateway.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

Frame framed(const Frame& packet) {
    PacketSpec spec;
    spec.ether_type = 0x0800;
    spec.payload = packet;
    return build(spec);
}

TEST(IpsecKnownAnswers, OpenTheVectorOfDpdkForAesCbcWithoutAuthentication) {
    MILLRACE_NEEDS_DATA("crypto-kat/ipsec/dpdk_ipsec_vectors.json");
    const auto vectors = nlohmann::json::parse(read_file(data_path("crypto-kat/ipsec/dpdk_ipsec_vectors.json")));
    const auto& vector = vectors["pkt_aes_128_cbc_null"];
    Frame esp = *parse_hex(vector["input_text"]["data"].get<std::string>());
    Frame clear = *parse_hex(vector["output_text"]["data"].get<std::string>());
    // The vector's clear text ends with the ESP padding and trailer; its IP header says how much is the packet.
    clear.resize(static_cast<size_t>(clear[2]) << 8 | clear[3]);
    const std::string options = "sas: [{name: rfc3602, direction: in, spi: " +
                                std::to_string(vector["ipsec_xform"]["spi"].get<uint32_t>()) +
                                ", local: " + std::to_string(esp[16]) + "." + std::to_string(esp[17]) + "." +
                                std::to_string(esp[18]) + "." + std::to_string(esp[19]) +
                                ", cipher: aes-128-cbc, auth: none, key: " + vector["key"]["data"].get<std::string>() +
                                "}]";
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        NfRunner runner("ipsec", options);
        const NfResult result = runner.run({framed(esp)}, half);
        EXPECT_EQ(outcome_name(runner, result.decisions[0]), "unprotected") << half.text();
        EXPECT_EQ(hex_dump(result.frames[0]), hex_dump(framed(clear))) << half.text();
    }
}

/// The ends of a packet that stands for itself.
struct Ends {
    bool ipv6;
    std::string src, dst;
};
std::string address_text(const Frame& packet, size_t at, bool ipv6) {
    std::string text;
    for (size_t i = 0; i < (ipv6 ? 16u : 4u); ++i) {
        char part[8];
        std::snprintf(part, sizeof part, ipv6 ? "%s%02x" : "%s%u",
                      i == 0 || (ipv6 && i % 2 == 1) ? ""
                      : ipv6                         ? ":"
                                                     : ".",
                      packet[at + i]);
        text += part;
    }
    return text;
}
Ends ends_of(const Frame& packet) {
    const bool ipv6 = packet[0] >> 4 == 6;
    return {ipv6, address_text(packet, ipv6 ? 8 : 12, ipv6), address_text(packet, ipv6 ? 24 : 16, ipv6)};
}

TEST(IpsecKnownAnswers, OpenTheVectorsOfDpdkForGcmAndHmacSha256) {
    MILLRACE_NEEDS_DATA("crypto-kat/ipsec/dpdk_ipsec_vectors.json");
    const auto vectors = nlohmann::json::parse(read_file(data_path("crypto-kat/ipsec/dpdk_ipsec_vectors.json")));
    size_t opened = 0;
    for (const auto& [name, cipher, auth] :
         std::vector<std::array<std::string, 3>>{{"pkt_aes_128_gcm", "aes-128-gcm", ""},
                                                 {"pkt_aes_256_gcm", "aes-256-gcm", ""},
                                                 {"pkt_aes_256_gcm_v6", "aes-256-gcm", ""},
                                                 {"pkt_aes_128_cbc_hmac_sha256", "aes-128-cbc", "hmac-sha256-128"},
                                                 {"pkt_aes_128_cbc_hmac_sha256_v6", "aes-128-cbc", "hmac-sha256-128"},
                                                 {"pkt_aes_128_ctr_hmac_sha256", "aes-128-ctr", "hmac-sha256-128"}}) {
        const auto& vector = vectors[name];
        const auto field = [&](const char* key) { return vector[key]["data"].get<std::string>(); };
        const Frame clear = *parse_hex(field("input_text")), esp = *parse_hex(field("output_text"));
        const Ends ends = ends_of(esp);
        const uint32_t spi = load_be32(esp.data() + (ends.ipv6 ? 40 : 20));
        if (spi < 256) continue;  // not for use; the options refuse it
        ++opened;
        std::string options = "sas: [{name: a, direction: in, spi: " + std::to_string(spi) + ", local: '" + ends.dst +
                              "', remote: '" + ends.src + "', cipher: " + cipher + ", key: " + field("key");
        if (!cipher.ends_with("cbc")) options += ", nonce: '" + field("salt") + "'";
        if (!auth.empty()) options += ", auth: " + auth + ", auth-key: " + field("auth_key");
        options += "}]";
        const auto framed_as = [](const Frame& packet) {
            PacketSpec spec;
            spec.ether_type = packet[0] >> 4 == 6 ? 0x86dd : 0x0800;
            spec.payload = packet;
            return build(spec);
        };
        for (const Half& half : halves(*nf::find_type("ipsec"))) {
            NfRunner runner("ipsec", options);
            const NfResult result = runner.run({framed_as(esp)}, half);
            EXPECT_EQ(outcome_name(runner, result.decisions[0]), "unprotected") << name << " " << half.text();
            EXPECT_EQ(hex_dump(result.frames[0]), hex_dump(framed_as(clear))) << name << " " << half.text();
        }
    }
    EXPECT_GE(opened, 2u);
}

/// The ESP packets of a capture, over IPv4.
std::vector<Frame> esp_frames(const std::string& path) {
    std::string content = read_file(path);
    char why[PCAP_ERRBUF_SIZE];
    pcap_t* reader = pcap_fopen_offline(fmemopen(content.data(), content.size(), "rb"), why);
    EXPECT_NE(reader, nullptr) << why;
    std::vector<Frame> frames;
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    while (reader != nullptr && pcap_next_ex(reader, &header, &data) == 1)
        if (header->caplen > 34 && data[12] == 8 && data[13] == 0 && data[23] == 50)
            frames.emplace_back(data, data + header->caplen);
    if (reader != nullptr) pcap_close(reader);
    return frames;
}

TEST(IpsecKnownAnswers, OpenEveryPacketOfCapturesBetweenTwoRealGateways) {
    MILLRACE_NEEDS_DATA("pcap/curated/ipsec/ipsec-keys.json");
    const auto captures = nlohmann::json::parse(read_file(data_path("pcap/curated/ipsec/ipsec-keys.json")));
    size_t opened = 0;
    for (const auto& capture : captures) {
        std::string options;
        for (const auto& sa : capture["sa"]) {
            const auto cipher = sa["enc"].get<std::string>().substr(0, 11);
            if ((cipher != "aes-128-cbc" && cipher != "aes-256-cbc") ||
                !sa["auth"].get<std::string>().starts_with("hmac-sha1-96"))
                continue;
            options += "  - {name: n" + sa["spi"].get<std::string>() +
                       ", direction: in, spi: " + sa["spi"].get<std::string>() +
                       ", local: " + sa["dst"].get<std::string>() + ", remote: " + sa["src"].get<std::string>() +
                       ", cipher: " + cipher + ", key: " + sa["enc_key"].get<std::string>() +
                       ", auth-key: " + sa["auth_key"].get<std::string>() + "}\n";
        }
        if (options.empty()) continue;
        const std::vector<Frame> frames = esp_frames(
            data_path("pcap/curated/ipsec/" + capture["file"].get<std::string>()));
        ASSERT_GT(frames.size(), 1u);
        const Frame ping = *parse_hex("08090a0b0c0d0e0f1011121314151617");  // named in the index of the captures
        for (const Half& half : halves(*nf::find_type("ipsec"))) {
            NfRunner runner("ipsec", "sas:\n" + options);
            const NfResult result = runner.run(frames, half);
            size_t pings = 0;
            for (size_t i = 0; i < frames.size(); ++i) {
                EXPECT_EQ(outcome_name(runner, result.decisions[i]), "unprotected")
                    << capture["file"] << ", " << half.text() << ", packet " << i;
                const Frame& inner = result.frames[i];
                pings += std::search(inner.begin(), inner.end(), ping.begin(), ping.end()) != inner.end();
            }
            EXPECT_EQ(pings, frames.size()) << capture["file"];
        }
        ++opened;
    }
    EXPECT_EQ(opened, 2u);
}

}  // namespace
}  // namespace millrace::test
