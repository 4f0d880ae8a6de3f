// ICMP errors in both families, each type and code.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <optional>

#include "nf/nat64/sides.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

constexpr const char* kPorts = "{pool: 198.51.100.1, ports: 1024-9215}";
const uint32_t kAsked = ipv4("192.0.2.9"), kRouter = ipv4("203.0.113.99");
const Address6 kRouterInside = ipv6("2001:db8:ffff::1");

/// An ICMP error in one family, and what RFC 7915 makes of it in the other; nothing: it is dropped.
struct ErrorCase {
    uint8_t type, code;
    uint32_t rest;
    struct Other {
        uint8_t type, code;
        uint32_t rest;
    };
    std::optional<Other> other;
};

/// RFC 7915, section 4.2, with the pointers of figure 3. What is quoted has 1,428 bytes.
std::vector<ErrorCase> errors_of_ipv4() {
    std::vector<ErrorCase> all;
    const auto unreachable = [&](std::initializer_list<int> codes, ErrorCase::Other other) {
        for (const int code : codes) all.push_back({3, static_cast<uint8_t>(code), 0, other});
    };
    unreachable({0, 1, 5, 6, 7, 8, 11, 12}, {1, 0, 0});
    unreachable({2}, {4, 1, 6});
    unreachable({3}, {1, 4, 0});
    unreachable({9, 10, 13, 15}, {1, 1, 0});
    for (const int code : {14, 16, 255}) all.push_back({3, static_cast<uint8_t>(code), 0, {}});
    // Too big: 20 bytes more, no less than IPv6's least, a step down where none is told (RFC 1191, section 7).
    const std::pair<uint32_t, uint32_t> mtus[] = {{1400, 1420}, {1500, 1520},   {576, 1280}, {1260, 1280},
                                                  {1261, 1281}, {65535, 65555}, {0, 1280}};
    for (const auto& [mtu, other] : mtus) all.push_back({3, 4, mtu, ErrorCase::Other{2, 0, other}});
    for (const int code : {0, 1})
        all.push_back({11, static_cast<uint8_t>(code), 0, ErrorCase::Other{3, static_cast<uint8_t>(code), 0}});
    all.push_back({11, 2, 0, {}});
    for (uint32_t pointer = 0; pointer < 40; ++pointer) {
        constexpr int kOther[20] = {0, 1, 4, 4, -1, -1, -1, -1, 7, 6, -1, -1, 8, 8, 8, 8, 24, 24, 24, 24};
        const int other = pointer < 20 ? kOther[pointer] : -1;
        for (const uint8_t code : {0, 1, 2})
            all.push_back({12, code, pointer << 24,
                           other < 0 || code == 1 ? std::optional<ErrorCase::Other>()
                                                  : ErrorCase::Other{4, 0, static_cast<uint32_t>(other)}});
    }
    all.push_back({4, 0, 0, {}});
    return all;
}

/// RFC 7915, section 5.2, with the pointers of figure 6.
std::vector<ErrorCase> errors_of_ipv6() {
    std::vector<ErrorCase> all;
    const int codes[] = {1, 10, 1, 1, 3};
    for (uint8_t code = 0; code < 5; ++code)
        all.push_back({1, code, 0, ErrorCase::Other{3, static_cast<uint8_t>(codes[code]), 0}});
    for (const int code : {5, 6, 255}) all.push_back({1, static_cast<uint8_t>(code), 0, {}});
    for (const auto& [mtu, other] : {std::pair{1280u, 1260u}, {1420u, 1400u}, {9000u, 8980u}, {0u, 68u}, {87u, 68u}})
        all.push_back({2, 0, mtu, ErrorCase::Other{3, 4, other}});
    all.push_back({2, 0, 0xffffffffu, ErrorCase::Other{3, 4, 65515}});
    for (const uint8_t code : {0, 1}) all.push_back({3, code, 0, ErrorCase::Other{11, code, 0}});
    all.push_back({3, 2, 0, {}});
    for (uint32_t pointer = 0; pointer < 50; ++pointer) {
        std::optional<uint32_t> other;
        if (pointer < 2) other = pointer;
        if (pointer == 4 || pointer == 5) other = 2;
        if (pointer == 6) other = 9;
        if (pointer == 7) other = 8;
        if (pointer >= 8 && pointer < 24) other = 12;
        if (pointer >= 24 && pointer < 40) other = 16;
        all.push_back(
            {4, 0, pointer,
             other ? std::optional(ErrorCase::Other{12, 0, *other << 24}) : std::optional<ErrorCase::Other>()});
    }
    all.push_back({4, 0, 0x10000000, {}});
    all.push_back({4, 1, 6, ErrorCase::Other{3, 2, 0}});
    all.push_back({4, 2, 6, {}});
    return all;
}

TEST(Nat64, TranslatesEachErrorFromOutside) {
    for (const uint8_t protocol : {6, 17, 1}) {
        NfRunner runner("nat64", kPorts);
        const Known one = known_endpoint(runner, protocol);
        for (const ErrorCase& error : errors_of_ipv4())
            for (const size_t most : {size_t{28}, size_t{29}, size_t{100}, size_t{548}, size_t{1228}}) {
                const std::string what = fmt::format("{} of {}/{} {:x}, {} B", protocol, error.type, error.code,
                                                     error.rest, most);
                const NfResult told = runner.run(
                    {error4(kRouter, error.type, error.code, error.rest, one.outside, most)}, {1});
                ASSERT_EQ(told.decisions[0].outcome, error.other ? kIn : kNoSuchThing) << what;
                if (!error.other) continue;
                // Where a TCP or ICMP header was cut within its checksum, it is cut there in the other family, too.
                const auto [type, code, rest] = *error.other;
                const size_t left = std::min<size_t>(most - 20, 1280 - 48 - 40);
                ASSERT_EQ(hex_dump(told.frames[0]),
                          hex_dump(error6(known(kRouter), type, code, rest, one.inside, 40 + left)))
                    << what;
            }
    }
}

TEST(Nat64, TranslatesEachErrorFromInside) {
    for (const uint8_t protocol : {6, 17, 1}) {
        NfRunner runner("nat64", kPorts);
        Known one = known_endpoint(runner, protocol);
        // Somebody outside has answered, and that comes to no good.
        one.content.answer = true;
        const Frame answer = in_ipv4(one.content, one.server, one.external);
        const Frame arrived = runner.run({answer}, {1}).frames[0];
        ASSERT_EQ(hex_dump(arrived), hex_dump(in_ipv6(one.content, one.server, one.client)));
        for (const ErrorCase& error : errors_of_ipv6())
            for (const size_t most : {size_t{48}, size_t{49}, size_t{100}, size_t{1232}}) {
                const std::string what = fmt::format("{} of {}/{} {:x}, {} B", protocol, error.type, error.code,
                                                     error.rest, most);
                const NfResult told = runner.run(
                    {error6(kRouterInside, error.type, error.code, error.rest, arrived, most)}, {1});
                ASSERT_EQ(told.decisions[0].outcome, error.other ? kOut : kNoSuchThing) << what;
                if (!error.other) continue;
                const auto [type, code, rest] = *error.other;
                // What it quotes has no identification any more, and DF; the error itself has both like any packet.
                Frame quoted = in_ipv4(one.content, one.server, one.external, {});
                Frame wanted = error4(one.external.ipv4, type, code, rest, quoted, most - 20);
                PacketSpec spec;
                spec.ipv4.emplace();
                spec.ipv4->src = one.external.ipv4;
                spec.ipv4->dst = kAsked;
                spec.ipv4->id = load_be16(told.frames[0].data() + 18);
                spec.icmp = IcmpHeader{.type = type, .code = code, .rest = rest};
                spec.payload.assign(wanted.begin() + 42, wanted.end());
                ASSERT_EQ(hex_dump(told.frames[0]), hex_dump(build(spec))) << what;
            }
    }
}

TEST(Nat64, BelievesNoErrorWhoseChecksumIsWrong) {
    NfRunner runner("nat64", kPorts);
    const Known one = known_endpoint(runner, 17);
    Frame from_outside = error4(kRouter, 3, 3, 0, one.outside);
    from_outside[36] ^= 1;
    EXPECT_EQ(runner.run({from_outside}, {1}).decisions[0].outcome, kNoSuchThing);
    const Frame arrived = runner.run({in_ipv4(one.content, one.server, one.external)}, {1}).frames[0];
    Frame from_inside = error6(kRouterInside, 1, 4, 0, arrived);
    EXPECT_EQ(runner.run({from_inside}, {1}).decisions[0].outcome, kOut);
    from_inside[56] ^= 1;
    EXPECT_EQ(runner.run({from_inside}, {1}).decisions[0].outcome, kNoSuchThing);
}

/// Information behind what is quoted (RFC 4884), such as MPLS labels: its length is in other units in the other family.
TEST(Nat64, LeavesOutWhatFollowsTheQuotedPacket) {
    NfRunner runner("nat64", kPorts);
    const Known one = known_endpoint(runner, 17);
    // 32 words of the packet, then an extension structure with nothing in it.
    const Frame plain = error4(kRouter, 11, 0, 0, one.outside, 128);
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = kRouter;
    spec.ipv4->dst = one.external.ipv4;
    spec.icmp = IcmpHeader{.type = 11, .rest = uint32_t{32} << 16};
    spec.payload.assign(plain.begin() + 42, plain.end());
    for (const uint8_t byte : {0x20, 0x00, 0xdf, 0xff}) spec.payload.push_back(byte);
    const NfResult told = runner.run({build(spec)}, {1});
    ASSERT_EQ(told.decisions[0].outcome, kIn);
    EXPECT_EQ(hex_dump(told.frames[0]), hex_dump(error6(known(kRouter), 3, 0, 0, one.inside, 148)));
}

}  // namespace
}  // namespace millrace::test
