// Transport mode, and ESP in UDP.
#include <gtest/gtest.h>

#include "nf/ipsec/esp_oracle.hpp"

namespace millrace::test {
namespace {

std::vector<Tunnel> transport_modes() {
    std::vector<Tunnel> modes;
    for (const bool ipv6 : {false, true})
        for (const bool esn : {false, true})
            for (const char* cipher : {"aes-128-ctr", "aes-256-cbc", "aes-128-gcm", "aes-256-gcm", "null"})
                modes.push_back(
                    {.cipher = cipher, .ipv6 = ipv6, .auth = "hmac-sha256-128", .esn = esn, .transport = true});
    return modes;
}

/// IPv4 with options, or IPv6 with extension headers, between the ends of an SA; where ESP belongs, and what protocol
/// follows there.
struct Shape {
    std::string name;
    Frame frame;
    size_t esp_at;
    uint8_t protocol;
};

/// `chain`: kinds of the extension headers, of 8 bytes each (AH of 16); the last one's next header is UDP.
Frame with_extensions(const std::vector<uint8_t>& chain, size_t payload) {
    const Frame plain = transport_frame(payload, true);
    Frame headers;
    for (size_t i = 0; i < chain.size(); ++i) {
        Frame header(8);
        header[0] = i + 1 < chain.size() ? chain[i + 1] : 17;
        if (chain[i] == 0 || chain[i] == 60) header[2] = 1, header[3] = 4;  // PadN
        headers.insert(headers.end(), header.begin(), header.end());
    }
    Frame frame = plain;
    frame.insert(frame.begin() + 54, headers.begin(), headers.end());
    frame[20] = chain.empty() ? 17 : chain[0];
    store_be16(frame.data() + 18, static_cast<uint16_t>(frame.size() - 54));
    return frame;
}

Frame with_options(size_t words, size_t payload) {
    Frame frame = transport_frame(payload, false);
    frame.insert(frame.begin() + 34, 4 * words, 1);
    frame[14] = static_cast<uint8_t>(0x45 + words);
    store_be16(frame.data() + 16, static_cast<uint16_t>(frame.size() - 14));
    store_be16(frame.data() + 24, 0);
    store_be16(frame.data() + 24, checksum_finish(checksum_add(0, frame.data() + 14, 20 + 4 * words)));
    return frame;
}

std::vector<Shape> shapes(bool ipv6, size_t payload) {
    if (!ipv6)
        return {{"no options", transport_frame(payload), 34, 17},
                {"an option", with_options(1, payload), 38, 17},
                {"ten options", with_options(10, payload), 74, 17}};
    return {{"no extensions", transport_frame(payload, true), 54, 17},
            {"hop-by-hop", with_extensions({0}, payload), 62, 17},
            {"destination", with_extensions({60}, payload), 54, 60},
            {"hop-by-hop, destination, routing", with_extensions({0, 60, 43}, payload), 78, 17},
            {"routing, destination", with_extensions({43, 60}, payload), 62, 60},
            {"all that may come", with_extensions({0, 60, 43, 44, 60}, payload), 86, 60}};
}

TEST(IpsecTransport, PutsEspBehindTheHeadersThatAreReadOnTheWay) {
    for (const Tunnel& mode : transport_modes()) {
        const EspOracle oracle(mode);
        std::vector<Shape> all;
        for (const size_t payload : {0u, 1u, 17u, 64u, 1000u})
            std::ranges::copy(shapes(mode.ipv6, payload), std::back_inserter(all));
        std::vector<Frame> clear, wanted;
        for (const Shape& shape : all) clear.push_back(shape.frame);
        for (const Half& half : halves(*nf::find_type("ipsec"))) {
            SCOPED_TRACE(mode.text() + ", " + half.text());
            NfRunner near("ipsec", near_end(mode)), far("ipsec", far_end(mode));
            const NfResult sent = near.run(clear, half);
            const NfResult received = far.run(sent.frames, half);
            for (size_t n = 0; n < all.size(); ++n) {
                const Shape& shape = all[n];
                SCOPED_TRACE(shape.name);
                ASSERT_EQ(outcome_name(near, sent.decisions[n]), "protected");
                const Frame& frame = sent.frames[n];
                const auto at_esp = [&](const Frame& of) { return of.begin() + static_cast<long>(shape.esp_at); };
                const auto opened = oracle.open_esp(Frame(at_esp(frame), frame.end()));
                ASSERT_TRUE(opened.has_value());
                EXPECT_EQ(opened->next_header, shape.protocol);
                EXPECT_EQ(opened->inner, Frame(at_esp(shape.frame), shape.frame.end()));
                const auto length = static_cast<uint32_t>(frame.size());
                const Layers layers = parse(frame.data(), length, length);
                EXPECT_EQ(layers.malformed, Malformed::no);
                EXPECT_EQ(layers.protocol, 50);
                EXPECT_EQ(layers.l4_offset, shape.esp_at);
                EXPECT_EQ(layers.end, frame.size());
                if (!mode.ipv6) {
                    EXPECT_EQ(checksum_finish(checksum_add(0, frame.data() + 14, 4u * (frame[14] & 15))), 0);
                }
                EXPECT_EQ(outcome_name(far, received.decisions[n]), "unprotected");
                EXPECT_EQ(received.frames[n], shape.frame);
            }
            if (wanted.empty()) wanted = sent.frames;
            EXPECT_EQ(sent.frames, wanted);
        }
    }
}

TEST(IpsecTransport, LeavesFragmentsAndWhatIsTooLongOut) {
    const Tunnel mode{.cipher = "aes-128-gcm", .transport = true};
    Frame fragment = transport_frame(64);
    store_be16(fragment.data() + 20, 0x2000);
    store_be16(fragment.data() + 24, 0);
    store_be16(fragment.data() + 24, checksum_finish(checksum_add(0, fragment.data() + 14, 20)));
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        NfRunner near("ipsec", near_end(mode));
        const std::vector<Frame> frames = {fragment, transport_frame(1500 - 28 - 16 - 16 - 2),
                                           transport_frame(1500 - 28 - 16 - 16 - 1)};
        const NfResult sent = near.run(frames, half);
        EXPECT_EQ(outcome_names(near, sent), (std::vector<std::string>{"fragment", "protected", "mtu-exceeded"}))
            << half.text();
        EXPECT_EQ(sent.frames[0], fragment);
        EXPECT_EQ(sent.frames[1].size(), 1514u);
    }
}

TEST(IpsecTransport, RefusesWhatTheSaMayNotCarry) {
    const Tunnel mode{.cipher = "aes-128-ctr", .extra = "allow: [{protocol: udp, dst-port: 2000}]", .transport = true};
    const EspOracle oracle(mode);
    const auto wrapped = [&](uint16_t port, uint8_t next_header, size_t cut = 0) {
        Frame inner = transport_frame(12);
        inner.erase(inner.begin(), inner.begin() + 34);
        store_be16(inner.data() + 2, port);
        inner.resize(inner.size() - cut);
        static uint64_t sequence = 0;
        return oracle.seal(inner, {.sequence = ++sequence, .next_header = next_header});
    };
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        NfRunner far("ipsec", far_end(mode));
        const NfResult received = far.run(
            {wrapped(2000, 17), wrapped(2001, 17), wrapped(2000, 6), wrapped(2000, 59), wrapped(2000, 17, 4)}, half);
        EXPECT_EQ(outcome_names(far, received),
                  (std::vector<std::string>{"unprotected", "selector-mismatch", "malformed-inner", "dummy",
                                            "malformed-inner"}))
            << half.text();
    }
}

TEST(IpsecUdp, WearsTheHeaderOfRfc3948AndLeavesIkeAlone) {
    const Tunnel tunnel{.cipher = "aes-128-gcm", .extra = "remote-port: 40000", .udp = true};
    const Tunnel back{.cipher = "aes-128-gcm", .udp = true};
    const auto datagram = [](const Frame& payload, uint16_t port) {
        PacketSpec spec;
        spec.ipv4.emplace();
        spec.ipv4->src = ipv4("192.0.2.1");
        spec.ipv4->dst = ipv4("198.51.100.1");
        spec.udp.emplace();
        spec.udp->src = 50000;
        spec.udp->dst = port;
        spec.payload = payload;
        return build(spec);
    };
    const EspOracle oracle(back);
    const Frame esp = oracle.esp(inner_of(clear_frame(5)), {.sequence = 9, .next_header = 4});
    Frame unknown = esp, longer = datagram(esp, 4500);
    unknown[3] ^= 1;
    longer[39] = static_cast<uint8_t>(longer[39] - 1);
    for (const Half& half : halves(*nf::find_type("ipsec"))) {
        NfRunner near("ipsec", near_end(tunnel)), far("ipsec", far_end(back));
        const NfResult sent = near.run({clear_frame(33)}, half);
        const Frame& frame = sent.frames[0];
        EXPECT_EQ(frame[23], 17);
        EXPECT_EQ(load_be16(frame.data() + 34), 4500);
        EXPECT_EQ(load_be16(frame.data() + 36), 40000);
        EXPECT_EQ(load_be16(frame.data() + 38), frame.size() - 34);
        EXPECT_EQ(load_be16(frame.data() + 40), 0);
        const NfResult received = far.run(
            {datagram(esp, 4500), datagram(esp, 4501), datagram(Frame{0xff}, 4500),
             datagram(Frame{0, 0, 0, 0, 1}, 4500), datagram(unknown, 4500), datagram(Frame{1, 2, 3, 4, 5}, 4500),
             longer, datagram({}, 4500), EspOracle({.cipher = "aes-128-gcm"}).seal(inner_of(clear_frame(5)), 10)},
            half);
        EXPECT_EQ(outcome_names(far, received),
                  (std::vector<std::string>{"unprotected", "bypass", "nat-keepalive", "bypass", "no-sa",
                                            "malformed-esp", "malformed-esp", "bypass", "no-sa"}))
            << half.text();
        EXPECT_EQ(received.frames[0], clear_frame(5));
    }
}

}  // namespace
}  // namespace millrace::test
