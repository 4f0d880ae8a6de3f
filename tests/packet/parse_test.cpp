#include "millrace/packet/parse.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <tuple>

#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

Layers parse_all(const Frame& frame) {
    return parse(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()));
}
Layers parse_yaml(const std::string& yaml) { return parse_all(build_packet(yaml)); }

/// Memory that ends at a page nobody may touch: a read behind `present` faults.
class FencedFrame {
public:
    FencedFrame() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
        memory_ = static_cast<uint8_t*>(
            mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(memory_ + 2 * page_, page_, PROT_NONE);
    }
    ~FencedFrame() { munmap(memory_, 3 * page_); }
    Layers parse_prefix(const Frame& frame, uint32_t present) {
        uint8_t* data = memory_ + 2 * page_ - present;
        std::copy_n(frame.data(), present, data);
        return parse(data, static_cast<uint32_t>(frame.size()), present);
    }

private:
    size_t page_;
    uint8_t* memory_;
};

/// Everything that is known of the layers.
auto as_tuple(const Layers& l) {
    return std::tuple(l.end, l.ether_type, l.vlan_id, l.l4_offset, l.payload_offset, l.l3_offset, l.protocol, l.flags,
                      l.vlan_count, l.malformed);
}

/// The short way must say what the long one says, of plain frames and of those that are nearly plain.
TEST(ParsePlain, FindsWhatParseAnyFinds) {
    Rng rng(11);
    RandomOptions options;
    options.ipv6 = options.vlan = options.not_ip = 0;
    options.max_payload = 60;
    size_t plain = 0, malformed = 0;
    for (int i = 0; i < 200000; ++i) {
        Frame frame = random_packet(rng, options);
        if (frame.size() > 47) {
            // One of the bytes that the parser looks at, or the frame's end.
            static constexpr uint8_t kPlaces[] = {12, 13, 14, 16, 17, 20, 21, 23, 38, 39, 46};
            if (rng() % 3 == 0) frame[kPlaces[rng() % std::size(kPlaces)]] ^= static_cast<uint8_t>(1u << rng() % 8);
            if (rng() % 8 == 0) frame.resize(frame.size() - rng() % 8);
        }
        const auto length = static_cast<uint32_t>(frame.size());
        const uint32_t present = rng() % 4 == 0 ? static_cast<uint32_t>(rng() % (length + 1)) : length;
        const detail::ParseInput in{frame.data(), length, present};
        Layers short_way, long_way;
        detail::parse_frame(in, 0, long_way);
        malformed += long_way.malformed != Malformed::no;
        if (!detail::parse_plain(in, short_way)) continue;
        ++plain;
        ASSERT_EQ(as_tuple(short_way), as_tuple(long_way)) << hex_dump(frame) << ", " << present << " present";
    }
    EXPECT_GT(plain, 20000u);
    EXPECT_GT(malformed, 20000u);
}

TEST(Parse, RefusesAFrameShorterThanAnEthernetHeader) {
    for (uint32_t length = 0; length < 14; ++length) {
        EXPECT_EQ(parse_all(Frame(length)).malformed, Malformed::truncated_ethernet);
    }
}

TEST(Parse, TakesAFrameThatIsNotIpAsWellFormed) {
    const Layers layers = parse_yaml("{eth: {type: 0x0806}, payload: 'who has'}");
    EXPECT_EQ(layers.malformed, Malformed::no);
    EXPECT_FALSE(layers.is_ip());
    EXPECT_EQ(layers.ether_type, 0x0806);
    EXPECT_EQ(layers.payload_offset, 14);
    EXPECT_EQ(layers.end, 21u);
}

TEST(Parse, FindsTheHeadersOfTcpOverIpv4) {
    const Layers layers = parse_yaml("{ipv4: {}, tcp: {src: 1, dst: 2}, payload: hello}");
    EXPECT_EQ(layers.malformed, Malformed::no);
    EXPECT_TRUE(layers.is_ipv4() && layers.is_tcp() && layers.has_ports());
    EXPECT_FALSE(layers.is_ipv6() || layers.is_udp() || layers.is_icmp() || layers.is_fragment());
    EXPECT_EQ(layers.l3_offset, 14);
    EXPECT_EQ(layers.l4_offset, 34);
    EXPECT_EQ(layers.payload_offset, 54);
    EXPECT_EQ(layers.end, 59u);
    EXPECT_EQ(layers.protocol, 6);
}

TEST(Parse, LeavesEthernetPaddingOutOfTheDatagram) {
    const Layers layers = parse_yaml("{ipv4: {}, udp: {src: 1, dst: 2}, payload: x, pad: 60}");
    EXPECT_EQ(layers.malformed, Malformed::no);
    EXPECT_EQ(layers.end, 43u);
    EXPECT_EQ(layers.payload_offset, 42);
}

TEST(Parse, GoesThroughUpToFourVlanTags) {
    for (const char* tpid : {"0x8100", "0x88a8", "0x9100"}) {
        std::string tags;
        for (unsigned count = 1; count <= 4; ++count) {
            tags += (count > 1 ? ", " : "") + std::string("{id: ") + std::to_string(100 + count) +
                    ", pcp: 7, type: " + tpid + "}";
            const Layers layers = parse_yaml("{vlan: [" + tags + "], ipv4: {}, udp: {}}");
            EXPECT_EQ(layers.malformed, Malformed::no);
            EXPECT_EQ(layers.vlan_count, count);
            EXPECT_EQ(layers.vlan_id, 101) << "of the outermost tag";
            EXPECT_EQ(layers.l3_offset, 14 + 4 * count);
            EXPECT_EQ(layers.ether_type, 0x0800);
            EXPECT_TRUE(layers.is_udp());
        }
    }
    EXPECT_EQ(parse_yaml("{vlan: [1, 2, 3, 4, 5], ipv4: {}, udp: {}}").malformed, Malformed::too_many_vlans);
}

TEST(Parse, RefusesACutVlanTag) {
    Frame frame = build_packet("{vlan: [7, 8], ipv4: {}, udp: {}}");
    for (size_t length = 14; length < 22; ++length)
        EXPECT_EQ(parse_all(Frame(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length))).malformed,
                  Malformed::truncated_vlan);
}

struct MalformedCase {
    const char* packet;
    Malformed why;
};

TEST(Parse, NamesWhatIsWrongWithAHeader) {
    const MalformedCase cases[] = {
        {"{eth: {type: 0x0800}, payload: {hex: '4500'}}", Malformed::truncated_ipv4},
        {"{ipv4: {version: 5}, udp: {}}", Malformed::bad_ipv4_version},
        {"{eth: {type: 0x0800}, ipv6: {}, udp: {}}", Malformed::bad_ipv4_version},
        {"{ipv4: {header-words: 4}, udp: {}}", Malformed::bad_ipv4_header_length},
        {"{ipv4: {header-words: 0}, udp: {}}", Malformed::bad_ipv4_header_length},
        {"{ipv4: {length: 19}, udp: {}}", Malformed::bad_ipv4_total_length},
        {"{ipv4: {length: 0}, udp: {}}", Malformed::bad_ipv4_total_length},
        {"{ipv4: {length: 29}, udp: {}}", Malformed::bad_ipv4_total_length},
        {"{ipv4: {header-words: 15}, udp: {}}", Malformed::bad_ipv4_total_length},
        {"{eth: {type: 0x86dd}, payload: {hex: '60'}}", Malformed::truncated_ipv6},
        {"{ipv6: {version: 4}, udp: {}}", Malformed::bad_ipv6_version},
        {"{ipv6: {length: 9}, udp: {}}", Malformed::bad_ipv6_payload_length},
        {"{ipv6: {length: 7, extensions: [{type: hop-by-hop}]}, udp: {}}", Malformed::bad_ipv6_extension},
        {"{ipv6: {extensions: [{type: routing, length: 2}]}, udp: {}}", Malformed::bad_ipv6_extension},
        {"{ipv6: {extensions: [{type: ah, length: 200}]}, udp: {}}", Malformed::bad_ipv6_extension},
        {"{ipv6: {next: 60}}", Malformed::bad_ipv6_extension},
        {"{ipv4: {protocol: 6}, payload: {repeat: x, count: 19}}", Malformed::truncated_tcp},
        {"{ipv6: {next: 6}, payload: {repeat: x, count: 19}}", Malformed::truncated_tcp},
        {"{ipv4: {protocol: 6}, payload: x, pad: 100}", Malformed::truncated_tcp},
        {"{ipv4: {}, tcp: {offset: 4}}", Malformed::bad_tcp_offset},
        {"{ipv4: {}, tcp: {offset: 6}}", Malformed::bad_tcp_offset},
        {"{ipv4: {}, tcp: {offset: 15}, pad: 200}", Malformed::bad_tcp_offset},
        {"{ipv4: {protocol: 17}, payload: {repeat: x, count: 7}}", Malformed::truncated_udp},
        {"{ipv4: {}, udp: {length: 7}}", Malformed::bad_udp_length},
        {"{ipv4: {}, udp: {length: 0}}", Malformed::bad_udp_length},
        {"{ipv4: {}, udp: {length: 9}, pad: 60}", Malformed::bad_udp_length},
        {"{ipv4: {protocol: 1}, payload: {repeat: x, count: 7}}", Malformed::truncated_icmp},
        {"{ipv6: {next: 58}, payload: {repeat: x, count: 7}}", Malformed::truncated_icmp},
    };
    std::set<Malformed> seen = {Malformed::no, Malformed::truncated_ethernet, Malformed::truncated_vlan,
                                Malformed::too_many_vlans, Malformed::beyond_present};
    for (const MalformedCase& one : cases) {
        EXPECT_STREQ(kMalformedNames[static_cast<unsigned>(parse_yaml(one.packet).malformed)],
                     kMalformedNames[static_cast<unsigned>(one.why)])
            << one.packet;
        seen.insert(one.why);
    }
    constexpr size_t kOfTunnels = 3;  // tunnels_test.cpp has those
    EXPECT_EQ(seen.size(), kMalformedCount - kOfTunnels) << "a value of Malformed has no test";
}

TEST(Parse, StepsOverIpv4Options) {
    for (unsigned words = 1; words <= 10; ++words) {
        const Layers layers = parse_yaml("{ipv4: {options: '" + std::string(8 * words, '0') +
                                         "'}, tcp: {options: '01010101'}}");
        EXPECT_EQ(layers.malformed, Malformed::no);
        EXPECT_EQ(layers.l4_offset, 34 + 4 * words);
        EXPECT_EQ(layers.payload_offset, 34 + 4 * words + 24);
        EXPECT_TRUE(layers.is_tcp());
    }
}

TEST(Parse, StepsOverEachIpv6Extension) {
    for (const char* type : {"hop-by-hop", "routing", "destination", "mobility", "ah"}) {
        for (const unsigned body : {0u, 6u, 7u, 100u}) {
            const Frame frame = build_packet("{ipv6: {extensions: [{type: " + std::string(type) + ", body: '" +
                                             std::string(2 * body, 'a') + "'}]}, udp: {src: 5, dst: 6}, payload: xyz}");
            const Layers layers = parse_all(frame);
            EXPECT_EQ(layers.malformed, Malformed::no) << type << body;
            EXPECT_EQ(layers.protocol, 17);
            EXPECT_EQ(layers.l4_offset + 11u, frame.size()) << type << body;
            EXPECT_EQ(layers.end, frame.size());
        }
    }
}

TEST(Parse, TakesUpToEightIpv6Extensions) {
    std::string extensions = "{type: hop-by-hop}";
    for (unsigned i = 1; i < 8; ++i) extensions += ", {type: destination}";
    EXPECT_EQ(parse_yaml("{ipv6: {extensions: [" + extensions + "]}, tcp: {}}").malformed, Malformed::no);
    extensions += ", {type: destination}";
    EXPECT_EQ(parse_yaml("{ipv6: {extensions: [" + extensions + "]}, tcp: {}}").malformed,
              Malformed::bad_ipv6_extension);
}

TEST(Parse, StopsAtNoNextHeader) {
    const Layers layers = parse_yaml("{ipv6: {next: 59}, payload: anything}");
    EXPECT_EQ(layers.malformed, Malformed::no);
    EXPECT_EQ(layers.protocol, 59);
    EXPECT_FALSE(layers.has_ports());
}

TEST(Parse, FindsNoLayerFourInALaterFragment) {
    for (const char* packet : {"{ipv4: {protocol: 6, offset: 1}, payload: abc}",
                               "{ipv4: {protocol: 6, offset: 100, flags: MF}, payload: abc}",
                               "{ipv6: {next: 6, extensions: [{type: fragment, offset: 1}]}, payload: abc}"}) {
        const Layers layers = parse_yaml(packet);
        EXPECT_EQ(layers.malformed, Malformed::no) << packet;
        EXPECT_TRUE(layers.is_fragment() && (layers.flags & Layers::kLaterFragment)) << packet;
        EXPECT_FALSE(layers.has_ports()) << packet;
        EXPECT_EQ(layers.l4_offset, 0) << packet;
        EXPECT_EQ(layers.protocol, 6) << packet;
        EXPECT_EQ(layers.end - layers.payload_offset, 3u) << packet;
    }
}

TEST(Parse, ReadsTheFirstFragmentAsFarAsItGoes) {
    // A first fragment carries the UDP length of the whole datagram.
    for (const char* packet :
         {"{ipv4: {flags: MF}, udp: {length: 4000}, payload: abc}",
          "{ipv6: {extensions: [{type: fragment, more: true}]}, udp: {length: 4000}, payload: abc}"}) {
        const Layers layers = parse_yaml(packet);
        EXPECT_EQ(layers.malformed, Malformed::no) << packet;
        EXPECT_TRUE(layers.is_fragment() && layers.is_udp()) << packet;
        EXPECT_FALSE(layers.flags & Layers::kLaterFragment) << packet;
    }
}

TEST(Parse, TakesAnAtomicFragmentAsWhole) {
    const Layers layers = parse_yaml("{ipv6: {extensions: [{type: fragment, id: 9}]}, udp: {src: 1, dst: 2}}");
    EXPECT_EQ(layers.malformed, Malformed::no);
    EXPECT_FALSE(layers.is_fragment());
    EXPECT_TRUE(layers.is_udp());
}

TEST(Parse, NeverReadsBehindWhatIsPresent) {
    Rng rng(2);
    FencedFrame fenced;
    RandomOptions options;
    options.malformed = 0.3;
    options.max_payload = 100;
    for (int i = 0; i < 3000; ++i) {
        const Frame frame = random_packet(rng, options);
        const Layers whole = parse_all(frame);
        for (uint32_t present = 0; present <= frame.size(); ++present) {
            const Layers part = fenced.parse_prefix(frame, present);
            if (part.malformed == Malformed::beyond_present) continue;
            // Whoever can decide with fewer bytes decides the same.
            ASSERT_EQ(part.malformed, whole.malformed) << present << "\n" << hex_dump(frame);
            ASSERT_EQ(part.payload_offset, whole.payload_offset);
            ASSERT_EQ(part.l4_offset, whole.l4_offset);
            ASSERT_EQ(part.end, whole.end);
            ASSERT_EQ(part.flags, whole.flags);
        }
    }
}

TEST(Parse, SaysBeyondPresentWhenAHeaderIsNotInThisMemory) {
    const Frame frame = build_packet("{vlan: 1, ipv4: {options: '01010101'}, tcp: {}}");
    FencedFrame fenced;
    for (uint32_t present = 0; present < 18 + 24 + 20; ++present)
        EXPECT_EQ(fenced.parse_prefix(frame, present).malformed, Malformed::beyond_present) << present;
    EXPECT_EQ(fenced.parse_prefix(frame, 18 + 24 + 20).malformed, Malformed::no);
}

TEST(Parse, KeepsEveryOffsetWithinTheFrameWhateverComes) {
    Rng rng(3);
    RandomOptions options;
    options.malformed = 0.7;
    for (int i = 0; i < 100000; ++i) {
        const Frame frame = random_packet(rng, options);
        const Layers layers = parse_all(frame);
        ASSERT_NE(layers.malformed, Malformed::beyond_present);
        if (layers.malformed != Malformed::no) continue;
        ASSERT_LE(layers.end, frame.size());
        ASSERT_LE(layers.payload_offset, layers.end) << hex_dump(frame);
        ASSERT_LE(layers.l4_offset, layers.payload_offset);
        if (layers.is_tcp()) {
            ASSERT_GE(layers.payload_offset, layers.l4_offset + 20);
        } else if (layers.is_udp() || layers.is_icmp()) {
            ASSERT_EQ(layers.payload_offset, layers.l4_offset + 8);
        }
    }
}

}  // namespace
}  // namespace millrace::test
