// Fragments become the packets that they were cut from, whatever their order; all that can't is dropped by name, and
// memory is bounded.
#include "millrace/exec/fragments/reassembler.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "exec/fragments/fragment_maker.hpp"
#include "millrace/packet/checksum.hpp"

namespace millrace::test {
namespace {

using exec::FragmentDrop;
using exec::Reassembler;
using exec::WholePackets;

constexpr uint64_t kSecond = 1'000'000'000;

/// What a packet of these fragments has for an identification in IPv4.
Frame with_id(Frame packet, uint32_t id) {
    if (packet[12] == 0x86) return packet;
    store_be16(&packet[18], static_cast<uint16_t>(id));
    store_be16(&packet[24], 0);
    store_be16(&packet[24], checksum(&packet[14], 20));
    return packet;
}

class Families : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Reassembler, Families, testing::Bool(),
                         [](const auto& info) { return info.param ? "Ipv6" : "Ipv4"; });

TEST_P(Families, BecomeWholeInEveryOrder) {
    const Frame packet = udp_packet(GetParam(), 600, 1);
    const std::vector<Frame> fragments = fragments_of(packet, {64, 128, 256, 400}, 7);
    std::vector<size_t> order = {0, 1, 2, 3, 4};
    ReassemblyRun run;
    do {
        Frame whole;
        for (size_t i = 0; i < order.size(); ++i) {
            whole = run.add(fragments[order[i]]);
            EXPECT_EQ(whole.empty(), i + 1 < order.size());
        }
        ASSERT_EQ(hex_dump(whole), hex_dump(with_id(packet, 7)));
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(run.whole, 120u);
    EXPECT_EQ(run.dropped(), 0u);
    EXPECT_EQ(run.counters->joined.get(), 480u);
}

TEST_P(Families, BecomeWholeAmongAThousandOthersThatAreMixedAndDoubled) {
    Rng rng(42);
    std::vector<Frame> all;
    std::map<std::string, Frame> expected;
    uint64_t doubled = 0;
    for (uint32_t k = 0; k < 1000; ++k) {
        // One byte less than a fragment's, one more, and any.
        const size_t payload = 100 + rng() % 3000, each = 8 * (8 + rng() % 180);
        const Frame packet = udp_packet(GetParam(), payload, k % 250);
        expected[hex_dump(with_id(packet, k + 1))] = packet;
        const auto fragments = fragments_of(packet, each, k + 1);
        if (fragments.size() == 1) {
            expected.erase(hex_dump(with_id(packet, k + 1)));
            continue;  // not cut, so no fragment
        }
        all.insert(all.end(), fragments.begin(), fragments.end());
    }
    ASSERT_GT(expected.size(), 700u);
    std::shuffle(all.begin(), all.end(), rng);
    // A copy comes right behind, so that its packet is not whole yet (or is, and then the copy begins another one).
    std::vector<Frame> sent;
    for (const Frame& fragment : all) {
        sent.push_back(fragment);
        if (rng() % 4 == 0) sent.push_back(fragment), ++doubled;
    }
    ReassemblyRun run({.max_packets = 2048, .max_per_source = 64});
    const std::vector<Frame> whole = run.add_all(sent);
    EXPECT_EQ(whole.size(), expected.size());
    for (const Frame& packet : whole) EXPECT_EQ(expected.count(hex_dump(packet)), 1u);
    EXPECT_EQ(run.dropped(), run.dropped(FragmentDrop::duplicate));
    EXPECT_EQ(run.dropped(FragmentDrop::duplicate) + run.reassembler->held(), doubled);
    EXPECT_GT(run.dropped(FragmentDrop::duplicate), 100u);
}

TEST_P(Families, AreTheLongestThatThereIsRoomForAndNotLonger) {
    ReassemblyRun run({.max_packets = 4, .max_per_source = 4});
    const size_t most = run.buffers->most_payload();
    EXPECT_GT(most, 65000u);
    const Frame longest = udp_packet(GetParam(), most - 8, 3);
    ASSERT_EQ(fragmentable_bytes(longest), most);
    const auto whole = run.add_all(fragments_of(longest, 1480, 1));
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_EQ(whole[0], with_id(longest, 1));
    const Frame longer = udp_packet(GetParam(), most - 8 + 1, 3);
    EXPECT_TRUE(run.add_all(fragments_of(longer, 1480, 2)).empty());
    EXPECT_EQ(run.dropped(FragmentDrop::too_long), fragments_of(longer, 1480, 2).size()) << "with all that came before";
}

TEST_P(Families, ThatOverlapGoWithAllOthersOfTheirPacket) {
    const Frame packet = udp_packet(GetParam(), 600, 1), other = udp_packet(GetParam(), 600, 2);
    struct Case {
        size_t from, to;
    };
    for (const auto& [from, to] : {Case{56, 120}, {64, 136}, {72, 80}, {0, 600}, {120, 136}, {0, 72}, {64, 120}}) {
        ReassemblyRun run;
        EXPECT_TRUE(run.add(fragment_of(packet, 0, 64, 9)).empty());
        EXPECT_TRUE(run.add(fragment_of(packet, 64, 128, 9)).empty());
        EXPECT_TRUE(run.add(fragment_of(packet, from, to, 9)).empty());
        EXPECT_EQ(run.dropped(FragmentDrop::overlap), 3u) << from << " to " << to;
        // What comes of it later goes, too.
        EXPECT_TRUE(run.add(fragment_of(packet, 128, 608, 9)).empty());
        EXPECT_TRUE(run.add(fragment_of(packet, 0, 64, 9)).empty());
        EXPECT_EQ(run.dropped(FragmentDrop::overlap), 5u) << from << " to " << to;
        EXPECT_EQ(run.reassembler->held(), 0u);
    }
    // The same place with other bytes is an attempt to evade, and no duplicate.
    ReassemblyRun run;
    run.add(fragment_of(packet, 0, 64, 9));
    Frame changed = fragment_of(packet, 64, 128, 9);
    run.add(changed);
    changed.back() ^= 1;
    run.add(changed);
    EXPECT_EQ(run.dropped(FragmentDrop::overlap), 3u);
    EXPECT_EQ(run.dropped(FragmentDrop::duplicate), 0u);
}

TEST_P(Families, ThatComeLateFindNothingLeft) {
    const Frame packet = udp_packet(GetParam(), 600, 1);
    const auto fragments = fragments_of(packet, 200, 9);
    ReassemblyRun run({.timeout = std::chrono::seconds(2)});
    run.add(fragments[0], 10 * kSecond);
    run.add(fragments[1], 12 * kSecond - 1);
    EXPECT_EQ(run.dropped(), 0u);
    // The first one's time is over: the last begins a packet of its own.
    EXPECT_TRUE(run.add(fragments[2], 12 * kSecond).empty());
    EXPECT_EQ(run.dropped(FragmentDrop::timeout), 2u);
    EXPECT_EQ(run.reassembler->held(), 1u);
    run.reassembler->pass_time(2 * kSecond - 1);
    EXPECT_EQ(run.reassembler->held(), 1u);
    run.reassembler->pass_time(1);
    EXPECT_EQ(run.dropped(FragmentDrop::timeout), 3u);
    EXPECT_EQ(run.reassembler->held(), 0u);
    // In time.
    run.add(fragments[0], 20 * kSecond);
    run.add(fragments[1], 22 * kSecond - 1);
    EXPECT_TRUE(run.add(fragments[3], 22 * kSecond - 1).empty());
    EXPECT_FALSE(run.add(fragments[2], 22 * kSecond - 1).empty());
}

TEST_P(Families, OfPortsWithClocksOfTheirOwnDoNotMixNorAgeEachOther) {
    const Frame packet = udp_packet(GetParam(), 600, 1);
    const auto fragments = fragments_of(packet, 320, 9);
    ASSERT_EQ(fragments.size(), 2u);
    ReassemblyRun run;
    // A capture of 2009 beside one of 2026.
    run.add(fragments[0], 1'230'000'000 * kSecond, 0);
    run.add(fragments[0], 1'760'000'000 * kSecond, 1);
    EXPECT_EQ(run.reassembler->held(), 2u);
    EXPECT_FALSE(run.add(fragments[1], 1'230'000'001 * kSecond, 0).empty());
    EXPECT_FALSE(run.add(fragments[1], 1'760'000'001 * kSecond, 1).empty());
    EXPECT_EQ(run.dropped(), 0u);
    // One that begins anew goes on from there.
    run.add(fragments[0], 1'230'000'000 * kSecond, 0);
    run.add(fragments[0], 1'230'000'001 * kSecond, 3);
    EXPECT_FALSE(run.add(fragments[1], 1'230'000'001 * kSecond, 0).empty());
    run.add(fragments[0], 1'230'000'002 * kSecond, 0);
    run.add(fragments_of(packet, 320, 10)[0], 1'230'000'005 * kSecond, 0);
    EXPECT_EQ(run.dropped(FragmentDrop::timeout), 1u);
    run.add(fragments_of(packet, 320, 11)[0], 1'000'000'000 * kSecond, 0);
    EXPECT_FALSE(run.add(fragments_of(packet, 320, 11)[1], 1'000'000'001 * kSecond, 0).empty());
    EXPECT_EQ(run.dropped(FragmentDrop::timeout), 1u);
}

TEST(Reassembler, TellsPacketsApartByAllThatFragmentsMustShare) {
    const Frame packet = udp_packet(false, 600, 1);
    const auto fragments = fragments_of(packet, 320, 9);
    ASSERT_EQ(fragments.size(), 2u);
    const auto changed = [&](size_t at, uint8_t by) {
        Frame frame = fragments[1];
        frame[at] ^= by;
        return frame;
    };
    const auto tagged = [](Frame frame, uint8_t id) {
        const uint8_t tag[] = {0x81, 0, 0, id};
        frame.insert(frame.begin() + 12, tag, tag + 4);
        return frame;
    };
    ReassemblyRun run;
    run.add(fragments[0]);
    for (const Frame& other : {changed(19, 1), changed(26, 1), changed(30, 1), changed(23, 1), tagged(fragments[1], 0),
                               tagged(fragments[1], 5)})
        EXPECT_TRUE(run.add(other).empty());
    EXPECT_TRUE(run.add(fragments[1], 1, 1).empty());
    EXPECT_TRUE(run.add(fragments_of(udp_packet(true, 600, 1), 320, 9)[1]).empty());
    EXPECT_EQ(run.reassembler->held(), 9u);
    EXPECT_FALSE(run.add(fragments[1]).empty());
    EXPECT_EQ(run.add(tagged(fragments[0], 5)), tagged(with_id(packet, 9), 5));
}

TEST(Reassembler, RefusesFragmentsThatCanNotBeWhereTheyAre) {
    const Frame packet = udp_packet(false, 600, 1);
    const auto refused = [&](std::vector<Frame> frames) {
        ReassemblyRun run;
        EXPECT_TRUE(run.add_all(frames).empty());
        EXPECT_EQ(run.dropped(FragmentDrop::bad_place), frames.size());
    };
    refused({fragment_of(packet, 0, 61, 1)});   // ends within 8 bytes
    refused({fragment_of(packet, 64, 64, 1)});  // is empty
    refused({fragment_of(packet, 128, 192, 1), fragment_of(Frame(packet.begin(), packet.end() - 500), 64, 108, 1)});
    refused({fragment_of(Frame(packet.begin(), packet.end() - 500), 64, 108, 1), fragment_of(packet, 128, 192, 1)});
    refused({fragment_of(packet, 512, 608, 1), fragment_of(Frame(packet.begin(), packet.end() - 500), 64, 108, 1)});
}

TEST(Reassembler, RefusesTinyFragmentsThatHideHeaders) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.tcp.emplace();
    spec.payload.resize(400);
    const Frame tcp = build(spec);
    ReassemblyRun run;
    run.add(fragment_of(tcp, 0, 16, 1));  // without the flags' end
    EXPECT_EQ(run.dropped(FragmentDrop::tiny), 1u);
    run.add(fragment_of(tcp, 8, 64, 2));  // would overwrite the flags (RFC 3128)
    EXPECT_EQ(run.dropped(FragmentDrop::tiny), 2u);
    run.add(fragment_of(tcp, 16, 420, 1));
    EXPECT_EQ(run.dropped(FragmentDrop::tiny), 3u);
    spec.tcp->options = Frame(20, 1);
    run.add(fragment_of(build(spec), 0, 32, 3));  // ends within the options
    EXPECT_EQ(run.dropped(FragmentDrop::tiny), 4u);
    EXPECT_EQ(run.add_all(fragments_of(build(spec), 40, 4)).size(), 1u);
    EXPECT_EQ(run.add_all(fragments_of(udp_packet(false, 64, 1), 8, 5)).size(), 1u) << "all of UDP's header is there";
    // IPv6: all headers must be in the first one (RFC 7112).
    Frame chained = udp_packet(true, 400, 1);
    const uint8_t options[] = {17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    chained.insert(chained.begin() + 54, options, options + sizeof options);
    chained[20] = 60;
    store_be16(&chained[18], static_cast<uint16_t>(chained.size() - 54));
    run.add(fragment_of(chained, 0, 16, 6));
    EXPECT_EQ(run.dropped(FragmentDrop::tiny), 5u);
    EXPECT_EQ(run.add_all(fragments_of(chained, 24, 7)), std::vector<Frame>{chained});
}

TEST(Reassembler, PutsIpv6TogetherBehindHeadersForEachHop) {
    // The fragment header stands behind a header for each hop; what named it names the next one again.
    const Frame packet = udp_packet(true, 300, 1);
    const uint8_t hop[] = {44, 0, 5, 2, 0, 0, 1, 0};
    std::vector<Frame> fragments = fragments_of(packet, 104, 77);
    for (Frame& fragment : fragments) {
        fragment.insert(fragment.begin() + 54, hop, hop + 8);
        fragment[20] = 0;
        store_be16(&fragment[18], static_cast<uint16_t>(fragment.size() - 54));
    }
    Frame expected = packet;
    expected.insert(expected.begin() + 54, hop, hop + 8);
    expected[54] = 17;
    expected[20] = 0;
    store_be16(&expected[18], static_cast<uint16_t>(expected.size() - 54));
    std::reverse(fragments.begin(), fragments.end());
    ReassemblyRun run;
    EXPECT_EQ(run.add_all(fragments), std::vector<Frame>{expected});
    EXPECT_EQ(run.last_mark.id, 77u);
    EXPECT_EQ(run.last_mark.version, 6u);
    EXPECT_EQ(run.last_mark.next, 17u);
    EXPECT_EQ(run.last_mark.largest, 40u + 8 + 8 + 104);
}

TEST(Reassembler, MarksCongestionThatAnyFragmentMet) {
    const Frame packet = udp_packet(false, 300, 1);
    const auto marked = [&](std::vector<uint8_t> ecn, uint32_t id) {
        std::vector<Frame> fragments = fragments_of(packet, 104, id);
        for (size_t i = 0; i < ecn.size(); ++i) fragments[i][15] = ecn[i];
        return fragments;
    };
    ReassemblyRun run;
    EXPECT_EQ(run.add_all(marked({2, 3, 2}, 1)).at(0)[15], 3);
    EXPECT_EQ(run.add_all(marked({1, 1, 3}, 2)).at(0)[15], 3);
    EXPECT_EQ(run.add_all(marked({2, 2, 2}, 3)).at(0)[15], 2);
    EXPECT_EQ(run.add_all(marked({0, 2, 0}, 4)).at(0)[15], 0);
    EXPECT_EQ(run.dropped(), 0u);
    EXPECT_TRUE(run.add_all(marked({0, 3, 0}, 5)).empty());
    EXPECT_EQ(run.dropped(FragmentDrop::bad_ecn), 3u);
}

TEST(Reassembler, KeepsDontFragmentWhereTheLongestFragmentSaysSo) {
    const Frame packet = udp_packet(false, 300, 1);
    const auto with_df = [&](size_t which, uint32_t id) {
        std::vector<Frame> fragments = fragments_of(packet, 104, id);
        fragments[which][20] |= 0x40;
        return fragments;
    };
    ReassemblyRun run;
    EXPECT_EQ(run.add_all(with_df(0, 1)).at(0)[20], 0x40);
    EXPECT_EQ(run.add_all(with_df(2, 2)).at(0)[20], 0) << "the last one is shorter";
    EXPECT_EQ(checksum(&run.add_all(with_df(0, 3)).at(0)[14], 20), 0);
}

TEST(Reassembler, HoldsNoPacketOfMorePiecesThanItSays) {
    ReassemblyRun run;
    const Frame packet = udp_packet(false, 8 * exec::Partial::kMaxPieces, 1);
    auto fragments = fragments_of(packet, 8, 1);
    ASSERT_EQ(fragments.size(), exec::Partial::kMaxPieces + 1);
    EXPECT_TRUE(run.add_all(fragments).empty());
    EXPECT_EQ(run.dropped(FragmentDrop::too_many), exec::Partial::kMaxPieces + 1);
    fragments = fragments_of(udp_packet(false, 8 * (exec::Partial::kMaxPieces - 1), 1), 8, 2);
    std::shuffle(fragments.begin(), fragments.end(), Rng(1));
    EXPECT_EQ(run.add_all(fragments).size(), 1u);
}

TEST(Reassembler, HoldsBoundedMemoryAgainstTenThousandSources) {
    ReassemblyRun run({.max_packets = 256, .max_per_source = 16});
    const Frame honest = udp_packet(false, 600, 77777);
    const auto whole = fragments_of(honest, 200, 5);
    size_t came_through = 0;
    for (uint32_t source = 0; source < 10'000; ++source) {
        run.add(fragments_of(udp_packet(false, 600, 100'000 + source), 320, source)[0]);
        // Fragments that belong together come close together, and are put together in the midst of the flood.
        if (source % 100 < whole.size()) came_through += !run.add(whole[source % 100]).empty();
        ASSERT_LE(run.reassembler->held(), 256u + 2 * whole.size());
    }
    EXPECT_EQ(came_through, 100u);
    EXPECT_EQ(run.dropped(), run.dropped(FragmentDrop::table_full));
    EXPECT_GE(run.dropped(), 10'000u - 256);
    run.reassembler->pass_time(2 * kSecond);
    EXPECT_EQ(run.reassembler->held(), 0u);
    EXPECT_EQ(run.buffers->pool().available(), 256u);
}

TEST(Reassembler, LeavesOneSourceItsShare) {
    ReassemblyRun run({.max_packets = 256, .max_per_source = 16});
    const auto other = fragments_of(udp_packet(false, 600, 5), 320, 1);
    run.add(other[0]);
    for (uint32_t id = 0; id < 1000; ++id) run.add(fragments_of(udp_packet(false, 600, 1), 320, id)[0]);
    EXPECT_EQ(run.reassembler->held(), 17u);
    EXPECT_EQ(run.dropped(FragmentDrop::source_full), 1000u - 16);
    EXPECT_EQ(run.dropped(), 1000u - 16);
    EXPECT_FALSE(run.add(other[1]).empty()) << "others' packets are untouched";
    EXPECT_FALSE(run.add(fragments_of(udp_packet(false, 600, 1), 320, 999)[1]).empty()) << "the newest are kept";
}

TEST(Reassembler, DropsWhereThereIsNoBuffer) {
    ReassemblyRun run({.max_packets = 8, .max_per_source = 8}, 2);
    for (uint32_t id = 0; id < 5; ++id) run.add(fragments_of(udp_packet(false, 600, 1), 320, id)[0]);
    EXPECT_EQ(run.dropped(FragmentDrop::no_buffer), 3u);
    EXPECT_FALSE(run.add(fragments_of(udp_packet(false, 600, 1), 320, 0)[1]).empty());
    run.add(fragments_of(udp_packet(false, 600, 1), 320, 9)[0]);
    EXPECT_EQ(run.dropped(FragmentDrop::no_buffer), 3u) << "a buffer has come back";
}

TEST(ReadFragment, TakesNothingElseForAFragment) {
    Rng rng(5);
    RandomOptions options;
    options.fragment = 0.3;
    options.malformed = 0.2;
    size_t fragments = 0;
    for (const Frame& frame : random_packets(rng, 20'000, options)) {
        const Layers layers = parse(frame.data(), static_cast<uint32_t>(frame.size()),
                                    static_cast<uint32_t>(frame.size()));
        const auto fragment = exec::read_fragment(frame, 0);
        // Fragments whose layer 4 is cut off are fragments still.
        if (layers.malformed == Malformed::no) {
            ASSERT_EQ(fragment.has_value(), layers.is_fragment()) << hex_dump(frame);
        }
        if (exec::is_plainly_whole(frame.data(), static_cast<uint32_t>(frame.size()))) {
            ASSERT_FALSE(fragment.has_value()) << hex_dump(frame);
        }
        if (!fragment) continue;
        ++fragments;
        ASSERT_LE(size_t{fragment->payload_at} + fragment->payload_bytes, frame.size());
    }
    EXPECT_GT(fragments, 3000u);
}

TEST(FragmentDrops, HaveANameEach) {
    std::set<std::string> names;
    for (const char* name : exec::kFragmentDropNames) names.insert(name);
    EXPECT_EQ(names.size(), exec::kFragmentDropCount);
    EXPECT_STREQ(exec::kFragmentDropNames[static_cast<size_t>(FragmentDrop::chain_changed)], "chain-changed");
}

}  // namespace
}  // namespace millrace::test
