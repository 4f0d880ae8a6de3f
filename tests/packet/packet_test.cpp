#include "millrace/packet/packet.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "support/packet_arena.hpp"

namespace millrace::test {
namespace {

uint32_t hash_of(const std::string& yaml) {
    PacketArena arena;
    return flow_hash(arena.add(build_packet(yaml)));
}

TEST(Packet, GrowsAtItsHeadAsFarAsThereIsRoom) {
    PacketArena arena(16, 8);
    Packet& packet = arena.add(bytes_of("abcdefghijklmnopqrst"));
    EXPECT_FALSE(packet.grow_front(17));
    EXPECT_EQ(packet.length(), 20u);
    EXPECT_TRUE(packet.grow_front(16));
    EXPECT_EQ(packet.length(), 36u);
    EXPECT_EQ(packet.present(), 36u);
    EXPECT_EQ(packet.headroom(), 0u);
    EXPECT_EQ(packet.data()[16], 'a');
    EXPECT_FALSE(packet.grow_front(1));
    EXPECT_TRUE(packet.shrink_front(16));
    EXPECT_EQ(packet.headroom(), 16u);
    EXPECT_EQ(packet.data()[0], 'a');
}

TEST(Packet, GrowsAtItsTailAsFarAsThereIsRoom) {
    PacketArena arena(16, 8);
    Packet& packet = arena.add(bytes_of("abcdefghijklmnopqrst"));
    EXPECT_FALSE(packet.grow_back(9));
    EXPECT_TRUE(packet.grow_back(8));
    EXPECT_EQ(packet.length(), 28u);
    EXPECT_EQ(packet.tailroom(), 0u);
    EXPECT_TRUE(packet.shrink_back(28));
    EXPECT_EQ(packet.length(), 0u);
    EXPECT_FALSE(packet.shrink_back(1));
    EXPECT_FALSE(packet.shrink_front(1));
}

TEST(Packet, DoesNotTouchATailThatIsElsewhere) {
    PacketArena arena;
    Packet& packet = arena.add(bytes_of("abcdefghijklmnopqrst"), 10);
    EXPECT_FALSE(packet.grow_back(1));
    EXPECT_FALSE(packet.shrink_back(1));
    EXPECT_FALSE(packet.shrink_front(11));
    EXPECT_TRUE(packet.shrink_front(10));
    EXPECT_EQ(packet.length(), 10u);
    EXPECT_EQ(packet.present(), 0u);
}

TEST(Packet, ReadsItsHeaderFields) {
    PacketArena arena;
    const Packet& v4 = arena.add(
        build_packet("{vlan: 5, ipv4: {src: 192.0.2.1, dst: 192.0.2.2, ttl: 9}, "
                     "tcp: {src: 80, dst: 443, flags: SA}, payload: xyz, pad: 90}"));
    EXPECT_EQ(v4.ipv4_src(), ipv4("192.0.2.1"));
    EXPECT_EQ(v4.ipv4_dst(), ipv4("192.0.2.2"));
    EXPECT_EQ(v4.ip_ttl(), 9);
    EXPECT_EQ(v4.l4_src_port(), 80);
    EXPECT_EQ(v4.l4_dst_port(), 443);
    EXPECT_EQ(v4.tcp_flags(), 0x12);
    EXPECT_EQ(v4.payload_bytes(), 3u);
    EXPECT_EQ(v4.payload()[0], 'x');
    const Packet& v6 = arena.add(build_packet("{ipv6: {hop-limit: 3}, icmpv6: {}}"));
    EXPECT_EQ(v6.ip_ttl(), 3);
    EXPECT_EQ(v6.l4_src_port(), 0) << "ICMP has no ports";
}

TEST(Packet, EmitsEventsWithTheAddressesOfTheMoment) {
    PacketArena arena;
    Packet& packet = arena.add(build_packet("{vlan: 7, ipv4: {src: 192.0.2.1}, udp: {src: 5, dst: 6}}"));
    Event events[2];
    EventBuffer buffer;
    buffer.events = events;
    buffer.capacity = 2;
    packet.emit(1);
    EXPECT_EQ(buffer.count, 0u) << "nobody listens";
    packet.set_events(&buffer, 3);
    for (uint32_t code = 10; code < 12; ++code) packet.emit(code);
    EXPECT_EQ(buffer.count, 2u);
    EXPECT_EQ(events[1].order, 1u);
    EXPECT_EQ(events[1].code, 11u);
    EXPECT_EQ(events[1].node, 3);
    EXPECT_EQ(events[0].src[0], 192);
    EXPECT_EQ(events[0].dst_port, 6);
    EXPECT_EQ(events[0].vlan_id, 7);
    EXPECT_EQ(events[0].ip_version, 4);
}

TEST(Packet, EmitsANoteAsEventsOneBehindTheOtherOrNotAtAll) {
    struct Note {
        uint32_t words[13];
    };
    static_assert(sizeof(Note) > Event::kNoteBytes && offsetof(Event, packet) == Event::kNoteBytes);
    Note note;
    for (uint32_t i = 0; i < 13; ++i) note.words[i] = 100 + i;
    Packet packet;  // a frame is not needed
    EXPECT_FALSE(packet.emit_note(note)) << "nobody listens";
    Event events[5];
    LeftEvents left[1];
    EventBuffer buffer;
    buffer.events = events;
    buffer.capacity = 5;
    buffer.left = left;
    buffer.left_capacity = 1;
    packet.set_index(9);
    packet.set_events(&buffer, 3, 40);
    EXPECT_TRUE(packet.emit_note(note));
    EXPECT_TRUE(packet.emit_note(note));
    EXPECT_FALSE(packet.emit_note(note)) << "a piece would find no room";
    EXPECT_EQ(buffer.count, 4u);
    EXPECT_EQ(buffer.left_count, 0u);
    for (uint32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(events[i].code, i % 2);
        EXPECT_EQ(events[i].order, 40 + i);
        EXPECT_EQ(events[i].packet, 9u);
        EXPECT_EQ(events[i].node, 3u);
    }
    Note back{};
    std::memcpy(back.words, &events[2], Event::kNoteBytes);
    std::memcpy(back.words + 11, &events[3], 8);
    EXPECT_EQ(std::memcmp(&back, &note, sizeof note), 0);
    // Where another function's events have found no room, none is left.
    buffer.count = 7;
    EXPECT_FALSE(packet.emit_note(note));
    EXPECT_EQ(buffer.count, 7u);
}

TEST(Packet, LeavesItsEventsWhereTheyFindNoRoomOnceForEachNf) {
    PacketArena arena;
    Packet& full = arena.add(build_packet("{ipv4: {}, udp: {}, payload: abc}"));
    Packet& fits = arena.add(build_packet("{ipv4: {}, udp: {}}"));
    Packet& beyond = arena.add(build_packet("{ipv4: {}, udp: {}}"));
    full.set_index(4), fits.set_index(5), beyond.set_index(6);
    Event events[2];
    LeftEvents left[2];
    std::vector<uint8_t> kept(4096);
    EventBuffer buffer;
    buffer.events = events;
    buffer.capacity = 2;
    buffer.left = left;
    buffer.left_capacity = 2;
    buffer.kept = kept.data();
    buffer.kept_capacity = static_cast<uint32_t>(kept.size());
    buffer.kept_bytes = 32;
    buffer.keep_from = 1;
    full.set_events(&buffer, 1);
    for (uint32_t code = 0; code < 1000; ++code) full.emit(code);
    EXPECT_EQ(buffer.count, 3u) << "it stops at the first one without room";
    ASSERT_EQ(buffer.left_count, 1u);
    EXPECT_EQ(left[0].packet, 4u);
    EXPECT_EQ(left[0].node, 1u);
    EXPECT_EQ(left[0].offset, 32u);
    EXPECT_EQ(buffer.kept_bytes, 32 + (full.length() + 15) / 16 * 16);
    EXPECT_EQ(left[0].length, full.length());
    EXPECT_EQ(left[0].present, full.present());
    EXPECT_TRUE(std::equal(full.data(), full.data() + full.length(), kept.begin() + 32));
    full.set_events(&buffer, 2);
    full.leave_events();
    full.emit(7);
    ASSERT_EQ(buffer.left_count, 2u);
    EXPECT_EQ(left[1].node, 2u);
    beyond.set_events(&buffer, 1);
    beyond.leave_events();
    EXPECT_EQ(buffer.left_count, 3u) << "what nobody has room for is counted";
    buffer.left_count = 0;
    fits.set_events(&buffer, 0);
    fits.leave_events();
    EXPECT_EQ(left[0].packet, 5u);
    EXPECT_EQ(left[0].offset, LeftEvents::kNotKept) << "nobody has changed it";
}

TEST(FlowHash, IsTheSameForEveryPacketOfAFlow) {
    EXPECT_EQ(hash_of("{ipv4: {ttl: 3, id: 1}, tcp: {src: 1, dst: 2, seq: 9, flags: S}}"),
              hash_of("{vlan: 9, ipv4: {ttl: 64, id: 7, options: '01010101'}, tcp: {src: 1, dst: 2, options: "
                      "'01010101'}, payload: x}"));
    EXPECT_EQ(hash_of("{ipv6: {hop-limit: 3}, udp: {src: 1, dst: 2}}"),
              hash_of("{ipv6: {hop-limit: 4, extensions: [{type: destination}]}, udp: {src: 1, dst: 2}, payload: x}"));
}

TEST(FlowHash, DependsOnEachPartOfTheFiveTuple) {
    const std::set<uint32_t> hashes = {hash_of("{ipv4: {}, tcp: {src: 1, dst: 2}}"),
                                       hash_of("{ipv4: {}, tcp: {src: 2, dst: 1}}"),
                                       hash_of("{ipv4: {}, tcp: {src: 1, dst: 3}}"),
                                       hash_of("{ipv4: {}, udp: {src: 1, dst: 2}}"),
                                       hash_of("{ipv4: {src: 10.0.0.9}, tcp: {src: 1, dst: 2}}"),
                                       hash_of("{ipv4: {dst: 10.0.0.9}, tcp: {src: 1, dst: 2}}"),
                                       hash_of("{ipv6: {}, tcp: {src: 1, dst: 2}}"),
                                       hash_of("{ipv6: {src: '::1'}, tcp: {src: 1, dst: 2}}"),
                                       hash_of("{ipv6: {dst: '::1'}, tcp: {src: 1, dst: 2}}")};
    EXPECT_EQ(hashes.size(), 9u);
}

TEST(FlowHash, IsTheSameForAllFragmentsOfADatagram) {
    EXPECT_EQ(hash_of("{ipv4: {flags: MF}, udp: {src: 1, dst: 2, length: 900}, payload: x}"),
              hash_of("{ipv4: {offset: 10, protocol: 17}, payload: y}"));
    EXPECT_EQ(hash_of("{ipv6: {extensions: [{type: fragment, more: true}]}, udp: {src: 1, dst: 2, length: 900}}"),
              hash_of("{ipv6: {next: 17, extensions: [{type: fragment, offset: 9}]}, payload: y}"));
}

TEST(FlowHash, SpreadsFlowsEvenly) {
    std::map<uint32_t, unsigned> low, high;
    PacketSpec spec;
    spec.ipv4 = Ipv4Header{};
    for (uint16_t port = 0; port < 16000; ++port) {
        spec.udp = UdpHeader{port, 53, std::nullopt, std::nullopt};
        PacketArena arena;
        const uint32_t hash = flow_hash(arena.add(build(spec)));
        ++low[hash % 16];
        ++high[hash >> 28];
    }
    for (const auto* buckets : {&low, &high})
        for (uint32_t bucket = 0; bucket < 16; ++bucket) EXPECT_NEAR(buckets->at(bucket), 1000, 150);
}

TEST(Packet, KnowsWhatItIsOnTheWireWhenItIsYetToBeCut) {
    struct {
        const char* packet;
        uint16_t segment_bytes;
        uint32_t frames, bytes, longest;
    } const cases[] = {
        {"{ipv4: {}, tcp: {}, payload: {repeat: x, count: 3000}}", 0, 1, 3054, 3040},
        {"{ipv4: {}, tcp: {}, payload: {repeat: x, count: 3000}}", 1000, 3, 3054 + 2 * 54, 1040},
        {"{ipv4: {}, tcp: {}, payload: {repeat: x, count: 3001}}", 1000, 4, 3055 + 3 * 54, 1040},
        {"{ipv6: {}, udp: {}, payload: {repeat: x, count: 2500}}", 1200, 3, 2562 + 2 * 62, 1248},
        {"{vlan: {id: 5}, ipv4: {}, udp: {}, payload: {repeat: x, count: 700}}", 699, 2, 746 + 46, 727},
        {"{ipv4: {}, udp: {}, payload: {repeat: x, count: 700}}", 700, 1, 742, 728},
    };
    for (const auto& each : cases) {
        Frame frame = build_packet(each.packet);
        Packet packet;
        packet.attach(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()), 0, 0);
        packet.parse();
        packet.set_segment_bytes(each.segment_bytes);
        EXPECT_EQ(packet.wire_frames(), each.frames) << each.packet;
        EXPECT_EQ(packet.wire_bytes(), each.bytes) << each.packet;
        EXPECT_EQ(packet.longest_ip_bytes(), each.longest) << each.packet;
        packet.attach(frame.data(), 60, 60, 0, 0);
        EXPECT_EQ(packet.segment_bytes(), 0) << "another frame is none of this kind";
    }
}

}  // namespace
}  // namespace millrace::test
