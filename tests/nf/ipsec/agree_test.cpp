// Every half gives the same bytes and decisions, on golden, random, hostile and real packets.
#include <gtest/gtest.h>

#include <pcap/pcap.h>

#include <array>
#include <map>

#include "millrace/base/files/file.hpp"
#include "nf/ipsec/esp_oracle.hpp"
#include "support/data.hpp"
#include "support/golden.hpp"

namespace millrace::test {
namespace {

/// Both directions in one node: three tunnels out, three in, policies with ports.
const char* const kGateway =
    "sas:\n"
    "  - {name: a, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-ctr,\n"
    "     key: 00112233445566778899aabbccddeeff, nonce: 01020304, auth-key: 000102030405060708090a0b0c0d0e0f10111213}\n"
    "  - {name: b, direction: out, spi: 0x1002, local: '2001:db8::1', remote: '2001:db8::2', cipher: aes-128-cbc, ttl: "
    "17,\n"
    "     key: 10112233445566778899aabbccddeeff, auth-key: 100102030405060708090a0b0c0d0e0f10111213}\n"
    "  - {name: c, direction: out, spi: 0x1003, local: 192.0.2.1, remote: 198.51.100.2, cipher: null, df: clear,\n"
    "     auth-key: 200102030405060708090a0b0c0d0e0f10111213}\n"
    "  - {name: east, direction: in, spi: 0x1001, local: 198.51.100.1, cipher: aes-128-ctr, nonce: 006cb6db, "
    "replay-window: 128,\n"
    "     key: 7e24067817fae0d743d6ce1f32539163, auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98,\n"
    "     allow: [{src: 10.1.0.0/16}, {src: '2001:db8:1::/48', protocol: udp}]}\n"
    "  - {name: west, direction: in, spi: 0x1001, local: '2001:db8::2', remote: '2001:db8::1', cipher: aes-128-cbc,\n"
    "     key: 7e24067817fae0d743d6ce1f32539163, auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}\n"
    "policies:\n"
    "  - {src: 10.1.0.0/16, protocol: udp, dst-port: 53, action: bypass}\n"
    "  - {src: 10.1.0.0/16, dst: 10.2.0.0/17, action: protect, sa: a}\n"
    "  - {src: 10.1.0.0/16, dst: 10.2.0.0/16, protocol: [tcp, udp], dst-port: [80, 1000-40000], action: protect, sa: "
    "b}\n"
    "  - {src: ['2001:db8:1::/48', 10.1.0.0/16], dst: ['2001:db8:2::/48', 10.0.0.0/8], action: protect, sa: c}\n"
    "  - {src: 10.0.0.0/8, action: discard}\n"
    "mtu: 1400\n"
    "mtu-applies: dont-fragment\n"
    "default: bypass\n";

/// Frames that meet the policies of kGateway, and ESP for its inbound SAs: right, repeated, damaged.
/// `east` and `west`: what is for the inbound SAs.
std::vector<Frame> traffic(Rng& rng, size_t count, const EspOracle& east, const EspOracle& west) {
    RandomOptions options;
    options.max_payload = 1500;
    options.adjust = [](PacketSpec& spec, Rng& random) {
        if (spec.ipv4) {
            spec.ipv4->src = 0x0a010000u | static_cast<uint32_t>(random() & 0xffff);
            spec.ipv4->dst = 0x0a000000u | static_cast<uint32_t>(random() % 4) << 16 |
                             static_cast<uint32_t>(random() & 0xffff);
            if (random() % 10 == 0) std::swap(spec.ipv4->src, spec.ipv4->dst);
        }
        if (spec.ipv6) {
            spec.ipv6->src[5] = static_cast<uint8_t>(random() % 3);
            spec.ipv6->dst[5] = static_cast<uint8_t>(random() % 3);
        }
        if (spec.udp && random() % 4 == 0) spec.udp->dst = 53;
    };
    std::vector<Frame> frames;
    uint32_t sequence = 0;
    while (frames.size() < count) {
        frames.push_back(random_packet(rng, options));
        const bool ipv6 = rng() % 3 == 0;
        Frame inner = inner_of(clear_frame(rng() % 300, ipv6, &rng));
        if (rng() % 8 == 0) inner[13] = 9;  // another source: not what the SA may carry
        EspOracle::Outer outer;
        outer.sequence = ++sequence + static_cast<uint32_t>(rng() % 40);
        outer.traffic_class = static_cast<uint8_t>(rng());
        if (rng() % 16 == 0) outer.padding = Frame(rng() % 40, 1);
        if (rng() % 16 == 0) outer.next_header = std::array<uint8_t, 4>{4, 41, 59, 17}[rng() % 4];
        if (rng() % 16 == 0) outer.tfc.assign(rng() % 50, 0);
        if (rng() % 16 == 0) outer.cut = rng() % 30;
        Frame esp = (rng() % 2 == 0 ? east : west).seal(inner, outer);
        if (rng() % 6 == 0) esp[14 + rng() % (esp.size() - 14)] ^= static_cast<uint8_t>(1 + rng() % 255);
        if (rng() % 10 == 0) esp.resize(esp.size() + rng() % 30);
        frames.push_back(esp);
        if (rng() % 6 == 0) frames.push_back(frames[rng() % frames.size()]);
    }
    frames.resize(count);
    return frames;
}

/// The Ethernet frames of a capture, plain or compressed.
std::vector<Frame> capture(const std::string& path) {
    std::string content = read_file(path);
    std::vector<Frame> frames;
    char why[PCAP_ERRBUF_SIZE];
    FILE* file = fmemopen(content.data(), content.size(), "rb");
    pcap_t* reader = pcap_fopen_offline(file, why);
    if (reader == nullptr) {
        ADD_FAILURE() << path << ": " << why;
        return frames;
    }
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    while (pcap_next_ex(reader, &header, &data) == 1)
        if (pcap_datalink(reader) == DLT_EN10MB) frames.emplace_back(data, data + header->caplen);
    pcap_close(reader);
    return frames;
}

TEST(Ipsec, DoesWhatItsGoldenPacketsSay) { run_golden("ipsec"); }

TEST(IpsecHalves, AgreeOnRandomAndHostileTraffic) {
    Rng rng(3);
    const EspOracle east({.cipher = "aes-128-ctr"}), west({.cipher = "aes-128-cbc", .ipv6 = true});
    const std::vector<Frame> frames = traffic(rng, 3000, east, west);
    NfRunner runner("ipsec", kGateway);
    std::map<std::string, size_t> seen;
    for (const std::string& name : outcome_names(runner, runner.run(frames, {1}))) ++seen[name];
    for (const char* name : {"protected", "unprotected", "bypass", "discarded-by-policy", "not-ip", "bad-icv",
                             "replayed", "bad-padding", "bad-next-header", "malformed-esp", "malformed-inner",
                             "selector-mismatch", "bad-ecn", "no-sa", "mtu-exceeded"})
        EXPECT_GT(seen[name], 0u) << name << " did not come up: the traffic tests less than it should";
    check_halves_agree("ipsec", kGateway, frames);
}

/// The same with all that kGateway has not; `east` and `west` are its inbound SAs.
std::string modern_gateway(const std::string& east, const std::string& west) {
    const std::string key = kKeyText;
    return "sas:\n"
           "  - {name: a, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-256-gcm, "
           "esn: "
           "true,\n     nonce: 01020304, key: 0" +
           key.substr(1) +
           "}\n"
           "  - {name: b, direction: out, spi: 0x1002, local: '2001:db8::1', remote: '2001:db8::2', cipher: "
           "aes-256-cbc,\n"
           "     auth: hmac-sha256-128, esn: true, key: 1" +
           key.substr(1) + ", auth-key: " + kAuthKeyText +
           "}\n"
           "  - {name: c, direction: out, spi: 0x1003, local: 192.0.2.1, remote: 198.51.100.2, cipher: aes-128-gcm,\n"
           "     icv: 12, encapsulation: udp, df: clear, nonce: 01020304, key: 2" +
           key.substr(1, 31) +
           "}\n"
           "  - {name: d, direction: out, spi: 0x1004, local: 10.1.0.5, remote: 10.2.0.6, cipher: aes-128-ctr,\n"
           "     mode: transport, nonce: 01020304, key: 3" +
           key.substr(1, 31) + ", auth-key: " + std::string(kAuthKeyText, 40) + "}\n" + east + west +
           "policies:\n"
           "  - {src: 10.1.0.5, dst: 10.2.0.6, action: protect, sa: d}\n"
           "  - {src: 10.1.0.0/16, dst: 10.2.0.0/17, action: protect, sa: a}\n"
           "  - {src: 10.1.0.0/16, dst: 10.2.0.0/16, action: protect, sa: b}\n"
           "  - {src: ['2001:db8:1::/48', 10.1.0.0/16], dst: ['2001:db8:2::/48', 10.0.0.0/8], action: protect, sa: c}\n"
           "mtu: 1400\n"
           "default: bypass\n";
}

/// The inbound SA of a far end, out of its options.
std::string inbound_sa(Tunnel tunnel, const char* name) {
    tunnel.extra = "replay-window: 256";
    const std::string text = far_end(tunnel);
    std::string sa = text.substr(text.find('{'), text.find(']') - text.find('{'));
    return "  - " + sa.replace(sa.find("east"), 4, name) + "\n";
}

TEST(IpsecHalves, AgreeOnRandomAndHostileTrafficOfEveryAlgorithmAndForm) {
    Rng rng(7);
    size_t pairs = 0;
    std::vector<Tunnel> tunnels = all_tunnels();
    for (const char* cipher : {"aes-256-gcm", "aes-128-cbc"})
        tunnels.push_back({.cipher = cipher, .auth = "hmac-sha256-128", .esn = true, .transport = true});
    for (size_t i = 0; i < tunnels.size(); i += 5, ++pairs) {
        Tunnel east = tunnels[i], west = tunnels[(i + 7) % tunnels.size()];
        west.ipv6 = !east.ipv6;
        west.transport = false;
        SCOPED_TRACE(east.text() + " and " + west.text());
        // Keys that they may not share.
        const auto streams = [](const Tunnel& tunnel) { return tunnel.is("ctr") || tunnel.is("gcm"); };
        const bool clash = east.cipher == west.cipher ||
                           (streams(east) && streams(west) && east.key_bytes() == west.key_bytes());
        const std::string options = modern_gateway(inbound_sa(east, "east"),
                                                   clash ? std::string() : inbound_sa(west, "west"));
        NfRunner runner("ipsec", options);
        EXPECT_EQ(runner.type().name, "ipsec:complete");
        const std::vector<Frame> frames = traffic(rng, 700, EspOracle(east), EspOracle(west));
        std::map<std::string, size_t> seen;
        for (const std::string& name : outcome_names(runner, runner.run(frames, {1}))) ++seen[name];
        for (const char* name : {"protected", "bad-icv", "replayed", "malformed-esp", "mtu-exceeded"})
            EXPECT_GT(seen[name], 0u) << name << " did not come up: the traffic tests less than it should";
        check_halves_agree("ipsec", options, frames);
    }
    EXPECT_GT(pairs, 10u);
}

TEST(IpsecHalves, HaveTheSmallestDeviceHalfThatServes) {
    for (const auto& [tunnel, name] : std::vector<std::pair<Tunnel, std::string>>{
             {{.cipher = "aes-128-ctr"}, "ipsec"},
             {{.cipher = "aes-128-cbc", .ipv6 = true}, "ipsec"},
             {{.cipher = "null"}, "ipsec"},
             {{.cipher = "aes-128-gcm"}, "ipsec:gcm"},
             {{.cipher = "aes-256-gcm", .esn = true, .gcm_icv = 8}, "ipsec:gcm"},
             {{.cipher = "aes-128-gcm", .udp = true}, "ipsec:complete"},
             {{.cipher = "aes-128-gcm", .transport = true}, "ipsec:complete"},
             {{.cipher = "aes-256-ctr"}, "ipsec:complete"},
             {{.cipher = "aes-128-ctr", .auth = "hmac-sha256-128"}, "ipsec:complete"},
             {{.cipher = "aes-128-ctr", .esn = true}, "ipsec:complete"}})
        EXPECT_EQ(NfRunner("ipsec", near_end(tunnel)).type().name, name) << tunnel.text();
}

TEST(IpsecHalves, AgreeOnRealCapturesSentThroughATunnel) {
    MILLRACE_NEEDS_DATA("pcap/curated/ipsec");
    std::vector<Frame> frames;
    for (const char* file :
         {"pcap/curated/ipsec/02-sunrise-sunset-esp.pcap", "pcap/curated/ipsec/esp-bug-12671.pcapng.gz",
          "pcap/curated/ipsec/ipsec_isakmp_esp.pcap.xz"})
        for (Frame& frame : capture(data_path(file))) frames.push_back(std::move(frame));
    ASSERT_GT(frames.size(), 20u);
    for (const char* cipher : {"aes-128-ctr", "aes-128-cbc"}) {
        const std::string everything = std::string(
                                           "sas: [{name: all, direction: out, spi: 0x2001, local: 192.0.2.1, remote: "
                                           "198.51.100.1, key: 7e24067817fae0d743d6ce1f32539163, auth-key: "
                                           "1f2e3d4c5b6a79880123456789abcdeffedcba98, cipher: ") +
                                       cipher + (cipher == std::string("aes-128-ctr") ? ", nonce: 006cb6db" : "") +
                                       "}]\npolicies: [{action: protect, sa: all}]\nmtu: 0\n";
        check_halves_agree("ipsec", everything, frames);
    }
}

TEST(IpsecHalves, SurviveAndAgreeOnMutatedEsp) {
    Rng rng(4);
    std::vector<Frame> frames;
    for (uint32_t n = 1; n <= 1500; ++n) {
        Frame esp = EspOracle({.cipher = "aes-128-cbc", .auth = "none"})
                        .seal(inner_of(clear_frame(n % 90, n % 2 == 0)), n);
        for (uint64_t hits = 1 + rng() % 4; hits > 0; --hits)
            esp[14 + rng() % (esp.size() - 14)] = static_cast<uint8_t>(rng());
        frames.push_back(esp);
    }
    // Without authentication every mutation reaches the code behind decryption.
    check_halves_agree("ipsec", far_end({.cipher = "aes-128-cbc", .auth = "none"}), frames);
}

}  // namespace
}  // namespace millrace::test
