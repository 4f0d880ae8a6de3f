// Whole ESP packets that others made: DPDK's vectors and a capture of two real gateways.
#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "millrace/base/file.hpp"
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
    for (const Engine& engine : engines(*nf::find_type("ipsec"))) {
        NfRunner runner("ipsec", options);
        const NfResult result = runner.run({framed(esp)}, engine);
        EXPECT_EQ(outcome_name(runner, result.decisions[0]), "unprotected") << engine.text();
        EXPECT_EQ(hex_dump(result.frames[0]), hex_dump(framed(clear))) << engine.text();
    }
}

TEST(IpsecKnownAnswers, OpenEveryPacketOfACaptureBetweenTwoRealGateways) {
    MILLRACE_NEEDS_DATA("pcap/curated/ipsec/ipsec-keys.json");
    const auto captures = nlohmann::json::parse(read_file(data_path("pcap/curated/ipsec/ipsec-keys.json")));
    std::string options = "sas:\n", file;
    for (const auto& capture : captures) {
        for (const auto& sa : capture["sa"]) {
            if (!sa["enc"].get<std::string>().starts_with("aes-128-cbc") ||
                !sa["auth"].get<std::string>().starts_with("hmac-sha1-96"))
                continue;
            file = capture["file"];
            options += "  - {name: n" + sa["spi"].get<std::string>() +
                       ", direction: in, spi: " + sa["spi"].get<std::string>() +
                       ", local: " + sa["dst"].get<std::string>() + ", remote: " + sa["src"].get<std::string>() +
                       ", cipher: aes-128-cbc, key: " + sa["enc_key"].get<std::string>() +
                       ", auth-key: " + sa["auth_key"].get<std::string>() + "}\n";
        }
    }
    ASSERT_FALSE(file.empty());
    std::string content = read_file(data_path("pcap/curated/ipsec/" + file));
    char why[PCAP_ERRBUF_SIZE];
    pcap_t* reader = pcap_fopen_offline(fmemopen(content.data(), content.size(), "rb"), why);
    ASSERT_NE(reader, nullptr) << why;
    std::vector<Frame> frames;
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    while (pcap_next_ex(reader, &header, &data) == 1)
        if (header->caplen > 34 && data[12] == 8 && data[13] == 0 && data[23] == 50)
            frames.emplace_back(data, data + header->caplen);
    pcap_close(reader);
    ASSERT_GT(frames.size(), 1u);
    const Frame ping = *parse_hex("08090a0b0c0d0e0f1011121314151617");  // named in the index of the captures
    for (const Engine& engine : engines(*nf::find_type("ipsec"))) {
        NfRunner runner("ipsec", options);
        const NfResult result = runner.run(frames, engine);
        size_t pings = 0;
        for (size_t i = 0; i < frames.size(); ++i) {
            EXPECT_EQ(outcome_name(runner, result.decisions[i]), "unprotected") << engine.text() << ", packet " << i;
            const Frame& inner = result.frames[i];
            pings += std::search(inner.begin(), inner.end(), ping.begin(), ping.end()) != inner.end();
        }
        EXPECT_EQ(pings, frames.size());
    }
}

}  // namespace
}  // namespace millrace::test
