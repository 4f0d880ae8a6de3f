// The traffic source.
#include <rte_cycles.h>

#include <map>
#include <set>

#include "io/support.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "millrace/io/source/source_port.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::io {
namespace {

using test::mistake;
using test::ports;
using test::pump;

std::vector<SunkFrame> frames_of(const std::string& source, const std::string& more = "",
                                 const SourceDelivery& delivery = {}) {
    const auto made = ports("in: { source: " + source + more + " }\nout: { sink: { keep: 1000000 } }\n", delivery);
    pump(*made[0], *made[1]);
    EXPECT_EQ(made[0]->pools()[0]->available(), made[0]->pools()[0]->packets());
    return dynamic_cast<SinkPort&>(*made[1]).sample();
}

Packet parsed(const SunkFrame& frame) {
    Packet packet;
    const auto length = static_cast<uint32_t>(frame.bytes.size());
    packet.attach(const_cast<uint8_t*>(frame.bytes.data()), length, length, 0, 0);
    packet.parse();
    return packet;
}

/// The checksum over pseudo header and datagram (RFC 768, RFC 8200 section 8.1): 0 says that it is right.
uint16_t l4_sum(const Packet& packet, const uint8_t* addresses, uint32_t address_bytes) {
    const auto l4_bytes = static_cast<uint32_t>(packet.layers().end - packet.layers().l4_offset);
    const uint32_t sum = checksum_add(packet.layers().protocol + l4_bytes, addresses, address_bytes);
    return checksum_finish(checksum_add(sum, packet.l4(), l4_bytes));
}

void expect_valid_checksums(const SunkFrame& frame) {
    const Packet packet = parsed(frame);
    ASSERT_TRUE(packet.layers().has_ports());
    if (packet.layers().is_ipv4()) {
        EXPECT_EQ(checksum(packet.l3(), 20), 0);
        EXPECT_EQ(l4_sum(packet, packet.l3() + 12, 8), 0);
    } else {
        EXPECT_EQ(l4_sum(packet, packet.l3() + 8, 32), 0);
    }
}

TEST(SourcePort, EndsAfterItsCountAndKnowsHowFarItIs) {
    const auto made = ports("in: { source: { count: 100 } }\n");
    rte_mbuf* mbufs[64];
    EXPECT_EQ(made[0]->receive(0, mbufs, 50), 50);
    rte_pktmbuf_free_bulk(mbufs, 50);
    EXPECT_DOUBLE_EQ(made[0]->progress(), 0.5);
    EXPECT_FALSE(made[0]->exhausted());
    EXPECT_EQ(made[0]->receive(0, mbufs, 64), 50);
    rte_pktmbuf_free_bulk(mbufs, 50);
    EXPECT_TRUE(made[0]->exhausted());
    EXPECT_EQ(made[0]->receive(0, mbufs, 64), 0);
}

TEST(SourcePort, GivesTheSameFramesForTheSameSeedAndOthersForAnother) {
    const auto one = frames_of("{ count: 3000, size: imix, flows: 100, seed: 7 }");
    const auto same = frames_of("{ count: 3000, size: imix, flows: 100, seed: 7 }");
    const auto other = frames_of("{ count: 3000, size: imix, flows: 100, seed: 8 }");
    ASSERT_EQ(one.size(), 3000u);
    size_t differing = 0;
    for (size_t i = 0; i < one.size(); ++i) {
        ASSERT_EQ(one[i].bytes, same[i].bytes);
        EXPECT_EQ(one[i].number, i + 1);
        EXPECT_NE(one[i].timestamp_ns, 0u);
        differing += one[i].bytes != other[i].bytes ? 1 : 0;
    }
    EXPECT_GT(differing, 2900u);
}

TEST(SourcePort, MakesValidFramesOfEveryProtocolAndSize) {
    const std::pair<std::string, Restore> kWays[] = {
        {"protocol: udp", Restore::all},
        {"protocol: tcp", Restore::all},
        {"protocol: udp, addresses: { src: 2001:db8::/64, dst: 2001:db8:1::/48 }", Restore::all},
        {"protocol: tcp, addresses: { src: 2001:db8::/64, dst: '2001:db8:1::/48' }", Restore::all},
        {"payload: text", Restore::all},
        {"payload: zero", Restore::all},
        {"protocol: udp", Restore::headers},
        {"protocol: udp", Restore::nothing}};
    for (const auto& [options, restore] : kWays)
        for (const std::string size : {"80", "111", "112", "113", "1514", "9000", "[64, { bytes: 1514, weight: 3 }]"}) {
            if (size.starts_with('[') && options.find("2001") != std::string::npos)
                continue;  // 64 is too small for TCP over IPv6
            const auto frames = frames_of("{ count: 100, size: " + size + ", " + options + " }", ", buffers: 256",
                                          {restore});
            ASSERT_EQ(frames.size(), 100u);
            for (const SunkFrame& frame : frames) {
                if (!size.starts_with('[')) {
                    ASSERT_EQ(frame.bytes.size(), std::stoul(size));
                }
                expect_valid_checksums(frame);
                if (testing::Test::HasFailure()) FAIL() << options << ", size " << size << ", " << int(restore);
            }
        }
}

TEST(SourcePort, HasAsManyFlowsAsAskedWithinItsAddressesAndPorts) {
    const auto frames = frames_of(
        "{ count: 5000, flows: 1000, addresses: { src: 10.1.2.0/26, dst: 172.16.0.0/24 }, ports: { src: 2000-2999, "
        "dst: 80 } }");
    std::set<std::vector<uint8_t>> tuples;
    std::map<std::vector<uint8_t>, int> share;
    for (const SunkFrame& frame : frames) {
        const Packet packet = parsed(frame);
        EXPECT_EQ(packet.ipv4_src() >> 6, 0x0a010200u >> 6);
        EXPECT_EQ(packet.ipv4_dst() >> 8, 0xac1000u);
        EXPECT_GE(packet.l4_src_port(), 2000);
        EXPECT_LE(packet.l4_src_port(), 2999);
        EXPECT_EQ(packet.l4_dst_port(), 80);
        const std::vector<uint8_t> tuple(packet.l3() + 12, packet.l4() + 4);
        tuples.insert(tuple);
        ++share[tuple];
    }
    EXPECT_EQ(tuples.size(), 1000u);
    for (const auto& [tuple, n] : share) EXPECT_EQ(n, 5);
}

TEST(SourcePort, KeepsAFlowOnOneQueueAndNumbersPacketsOverAllQueues) {
    const auto made = ports("in: { source: { count: 1001, flows: 10 }, queues: 4 }\n");
    std::map<uint32_t, std::set<int>> queues_of_flow;
    std::set<uint64_t> numbers;
    for (uint16_t queue = 0; queue < 4; ++queue) {
        rte_mbuf* mbuf = nullptr;
        while (made[0]->receive(queue, &mbuf, 1) == 1) {
            queues_of_flow[load_be32(rte_pktmbuf_mtod_offset(mbuf, uint8_t*, 26))].insert(queue);
            numbers.insert(packet_number(mbuf));
            rte_pktmbuf_free(mbuf);
        }
    }
    EXPECT_TRUE(made[0]->exhausted());
    EXPECT_EQ(queues_of_flow.size(), 10u);
    for (const auto& [flow, queues] : queues_of_flow) EXPECT_EQ(queues.size(), 1u);
    EXPECT_EQ(numbers.size(), 1001u);
    EXPECT_EQ(*numbers.rbegin(), 1001u);
}

TEST(SourcePort, LeavesQueuesWithoutFlowsIdle) {
    const auto made = ports("in: { source: { count: 10, flows: 1 }, queues: 3 }\n");
    rte_mbuf* mbufs[16];
    EXPECT_EQ(made[0]->receive(1, mbufs, 16), 0);
    EXPECT_EQ(made[0]->receive(0, mbufs, 16), 10);
    rte_pktmbuf_free_bulk(mbufs, 10);
    EXPECT_TRUE(made[0]->exhausted());
}

TEST(SourcePort, RestoresFramesThatWereChanged) {
    for (const Restore restore : {Restore::all, Restore::headers}) {
        const auto made = ports("in: { source: { count: 200, size: 400 }, buffers: 64 }\n", SourceDelivery{restore});
        rte_mbuf* mbuf = nullptr;
        std::vector<uint8_t> first;
        for (int i = 0; i < 200; ++i) {
            ASSERT_EQ(made[0]->receive(0, &mbuf, 1), 1);
            ASSERT_EQ(mbuf->pkt_len, 400u);
            ASSERT_EQ(mbuf->data_off, 128);
            SunkFrame frame{1, 1, {rte_pktmbuf_mtod(mbuf, uint8_t*), rte_pktmbuf_mtod(mbuf, uint8_t*) + 400}};
            expect_valid_checksums(frame);
            // What an NF may do: change headers, grow and shrink.
            const size_t changed = restore == Restore::all ? 400 : 100;
            memset(rte_pktmbuf_mtod(mbuf, void*), 0xee, changed);
            rte_pktmbuf_prepend(mbuf, 50);
            mbuf->ol_flags = 3;
            rte_pktmbuf_free(mbuf);
        }
    }
}

TEST(SourcePort, WaitsForBuffersAndLosesNothing) {
    const auto made = ports("in: { source: { count: 300 }, buffers: 64 }\n");
    std::vector<rte_mbuf*> held(300);
    uint16_t got = 0;
    while (const uint16_t n = made[0]->receive(0, &held[got], 32)) got = static_cast<uint16_t>(got + n);
    EXPECT_EQ(got, 64);
    EXPECT_GE(made[0]->counters().details.at("pool-empty"), 1u);
    EXPECT_FALSE(made[0]->exhausted());
    rte_pktmbuf_free_bulk(held.data(), got);
    const auto sink = ports("out: { sink: {} }\n");
    EXPECT_EQ(pump(*made[0], *sink[0]), 236u);
    EXPECT_EQ(made[0]->counters().received_packets, 300u);
}

TEST(SourcePort, KeepsToItsRateAndItsTime) {
    const auto made = ports("in: { source: { rate: 100k, count: 50ms } }\nout: { sink: {} }\n");
    const uint64_t begin = rte_rdtsc();
    const uint64_t sent = pump(*made[0], *made[1]);
    const double seconds = static_cast<double>(rte_rdtsc() - begin) / static_cast<double>(rte_get_tsc_hz());
    EXPECT_GE(seconds, 0.05);
    EXPECT_LE(static_cast<double>(sent), 100e3 * seconds + 2);
    EXPECT_GE(sent, 1500u) << "a busy machine may be late by some bursts of 10 ms";
}

TEST(SourcePort, TakesPayloadFromACapture) {
    const test::TestFolder folder;
    const auto donor = frames_of("{ count: 20, size: 300, payload: text }");
    {
        CaptureWriter writer(folder / "donor.pcap");
        for (const SunkFrame& frame : donor) writer.write(1, frame.bytes);
    }
    std::string stream;
    for (const SunkFrame& frame : donor) stream.append(frame.bytes.begin() + 42, frame.bytes.end());
    stream += stream;
    for (const SunkFrame& frame :
         frames_of("{ count: 50, size: 200, payload: { pcap: " + (folder / "donor.pcap") + " } }"))
        EXPECT_NE(stream.find(std::string(frame.bytes.begin() + 42, frame.bytes.end())), std::string::npos);
}

TEST(SourcePort, RefusesOptionsThatMakeNoSense) {
    EXPECT_NE(mistake("in: { source: { size: 41 } }").find("out of range"), std::string::npos);
    EXPECT_NE(mistake("in: { source: { size: 60, addresses: { src: '::/0', dst: '::/0' }, protocol: tcp } }")
                  .find("at least 74"),
              std::string::npos);
    EXPECT_NE(mistake("in: { source: { size: [] } }").find("no frame size"), std::string::npos);
    EXPECT_NE(mistake("in: { source: { flows: 2, addresses: { src: 10.0.0.1, dst: 10.0.0.2 }, ports: { src: 5 } } }")
                  .find("fewer source"),
              std::string::npos);
    EXPECT_NE(mistake("in: { source: { ports: { src: 9-3 } } }").find("port range"), std::string::npos);
    EXPECT_NE(mistake("in: { source: { ports: { src: 1-99999 } } }").find("port range"), std::string::npos);
    EXPECT_NE(mistake("in: { source: { payload: { file: /no/such } } }").find("No such file"), std::string::npos);
    // What only compares ways to receive is no option (SourceDelivery).
    for (const std::string option : {"restore: nothing", "layout: contiguous", "descriptors: 64"}) {
        const std::string key = option.substr(0, option.find(':'));
        EXPECT_NE(
            mistake("in: { source: { " + option + " } }").find("ports.yaml:1:17: error: unknown field '" + key + "'"),
            std::string::npos)
            << mistake("in: { source: { " + option + " } }");
    }
    EXPECT_NE(mistake("in: { source: { rate: 0 } }").find("packets a second"), std::string::npos);
    EXPECT_NE(mistake("in: { source: { addresses: { src: 10.0.0.0/8, dst: '::1' } } }").find("different IP versions"),
              std::string::npos);
}

TEST(SourcePort, LeavesFramesInTheirBuffersAndWritesNone) {
    for (const std::string size : {"64", "[100, 113, { bytes: 1514, weight: 3 }]"}) {
        const auto made = ports(
            "in: { source: { count: 5000, size: " + size + ", flows: 100 }, queues: 2, buffers: 512 }\n",
            SourceDelivery{Restore::nothing});
        const auto& source = dynamic_cast<SourcePort&>(*made[0]);
        std::map<std::vector<uint8_t>, std::set<int>> queues_of;
        size_t told = 0;
        for (uint16_t queue = 0; queue < 2; ++queue) {
            rte_mbuf* mbufs[33];
            while (const uint16_t n = made[0]->receive(queue, mbufs, 33)) {
                for (uint16_t i = 0; i < n; ++i) {
                    const uint8_t* data = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
                    EXPECT_EQ(mbufs[i]->pkt_len, mbufs[i]->data_len);
                    EXPECT_EQ(mbufs[i]->data_off, 128);
                    EXPECT_NE(packet_timestamp_ns(mbufs[i]), 0u);
                    const SunkFrame frame{packet_number(mbufs[i]), 1, {data, data + mbufs[i]->data_len}};
                    expect_valid_checksums(frame);
                    queues_of[{data + 26, data + 38}].insert(queue);
                    if (const auto known = source.frame_of(frame.number); !known.empty()) {
                        EXPECT_EQ(known, frame.bytes);
                        ++told;
                    }
                }
                rte_pktmbuf_free_bulk(mbufs, n);
            }
        }
        EXPECT_EQ(made[0]->counters().received_packets, 5000u);
        EXPECT_EQ(queues_of.size(), 100u);
        for (const auto& [flow, queues] : queues_of) EXPECT_EQ(queues.size(), 1u);
        EXPECT_GE(told, 256u) << "the sample is known by its frames";
        EXPECT_EQ(made[0]->trouble(), "");
    }
}

TEST(SourcePort, NoticesThatSomebodyWroteIntoItsBuffers) {
    for (const uint32_t at : {0u, 50u, 111u, 112u, 300u}) {
        const auto made = ports("in: { source: { size: 301 }, buffers: 64 }\n", SourceDelivery{Restore::nothing});
        rte_mbuf* mbufs[32];
        for (int burst = 0; burst < 10'000 && !made[0]->exhausted(); ++burst) {
            const uint16_t n = made[0]->receive(0, mbufs, 32);
            for (uint16_t i = 0; i < n; ++i) ++rte_pktmbuf_mtod(mbufs[i], uint8_t*)[at];
            rte_pktmbuf_free_bulk(mbufs, n);
        }
        EXPECT_TRUE(made[0]->exhausted()) << "it goes on with broken frames";
        EXPECT_NE(made[0]->trouble().find("needs all restored"), std::string::npos) << made[0]->trouble();
    }
    // What lies around the frame is the packet's to use.
    const auto made = ports("in: { source: { size: 301, count: 100000 }, buffers: 64 }\nout: { sink: {} }\n",
                            SourceDelivery{Restore::nothing});
    rte_mbuf* mbufs[32];
    while (const uint16_t n = made[0]->receive(0, mbufs, 32)) {
        for (uint16_t i = 0; i < n; ++i) {
            rte_pktmbuf_prepend(mbufs[i], 20)[0] = 1;
            rte_pktmbuf_append(mbufs[i], 20)[0] = 1;
        }
        rte_pktmbuf_free_bulk(mbufs, n);
    }
    EXPECT_EQ(made[0]->trouble(), "");
}

TEST(SourcePort, KnowsTheFrameOfEveryPacketThatItMakesAnew) {
    for (const Restore restore : {Restore::all, Restore::headers}) {
        const auto made = ports(
            "in: { source: { count: 3000, size: imix, flows: 30 } }\nout: { sink: { keep: 5000 } }\n",
            SourceDelivery{restore});
        pump(*made[0], *made[1]);
        for (const SunkFrame& frame : dynamic_cast<SinkPort&>(*made[1]).sample()) {
            const auto known = dynamic_cast<SourcePort&>(*made[0]).frame_of(frame.number);
            // With equal payloads only the first bytes are what the template says.
            const size_t bytes = restore == Restore::all ? frame.bytes.size()
                                                         : std::min<size_t>(frame.bytes.size(), 112);
            ASSERT_TRUE(std::equal(known.begin(), known.begin() + static_cast<ptrdiff_t>(bytes), frame.bytes.begin()));
            ASSERT_EQ(known.size(), frame.bytes.size());
        }
    }
}

TEST(SourcePort, ReplaysTheFramesOfACapture) {
    const test::TestFolder folder;
    auto donor = frames_of("{ count: 300, size: imix, flows: 40, payload: text }");
    {
        CaptureWriter writer(folder / "donor.pcap");
        for (const SunkFrame& frame : donor) writer.write(1, frame.bytes);
        writer.write(1, std::vector<uint8_t>(1519, 1));  // longer than a buffer
        writer.write(1, std::vector<uint8_t>(10, 1));
    }
    donor.push_back({301, 1, std::vector<uint8_t>(10, 1)});
    const std::string replay = "replay: " + (folder / "donor.pcap");
    const auto frames = frames_of("{ count: 602, " + replay + " }");
    ASSERT_EQ(frames.size(), 602u);
    for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].bytes, donor[i % 301].bytes) << i;

    // Over several queues: the same frames, a flow on one of them; and from buffers that nobody writes.
    for (const Restore restore : {Restore::all, Restore::nothing}) {
        const auto made = ports("in: { source: { count: 5000, " + replay +
                                    " }, queues: 3, buffers: 1200 }\nout: { sink: { keep: 5000 } }\n",
                                SourceDelivery{restore});
        pump(*made[0], *made[1]);
        std::multiset<std::vector<uint8_t>> sent, wanted;
        for (const SunkFrame& frame : dynamic_cast<SinkPort&>(*made[1]).sample()) sent.insert(frame.bytes);
        for (const SunkFrame& frame : donor) wanted.insert(frame.bytes);
        EXPECT_EQ(sent.size(), 5000u);
        EXPECT_EQ(std::set(sent.begin(), sent.end()), std::set(wanted.begin(), wanted.end()));
        EXPECT_EQ(made[0]->trouble(), "");
    }
    EXPECT_NE(mistake("in: { source: { " + replay + ", flows: 3 } }").find("'replay' says what the frames are"),
              std::string::npos);
    EXPECT_NE(mistake("in: { source: { " + replay + " } }", {Restore::headers}).find("restore all or nothing"),
              std::string::npos);
    EXPECT_NE(mistake("in: { source: { replay: /no/such.pcap } }").find("No such file"), std::string::npos);
}

TEST(SourcePort, LosesWhatComesWhenItsDescriptorsAreFull) {
    const auto made = ports("in: { source: { rate: 1M } }\n", SourceDelivery{.descriptors = 64});
    rte_mbuf* mbufs[256];
    EXPECT_LE(made[0]->receive(0, mbufs, 1), 1);
    const uint64_t begin = rte_rdtsc();
    while (rte_rdtsc() - begin < rte_get_tsc_hz() / 100) {
    }
    const uint16_t n = made[0]->receive(0, mbufs, 256);
    EXPECT_EQ(n, 64);
    // 10 ms at this rate are 10,000 packets.
    const uint64_t missed = made[0]->counters().drops.at("missed");
    EXPECT_GE(missed, 9'000u);
    EXPECT_LE(missed, 1'000'000u);
    for (uint16_t i = 1; i < n; ++i) {
        const uint64_t apart = packet_timestamp_ns(mbufs[i]) - packet_timestamp_ns(mbufs[i - 1]);
        EXPECT_EQ(apart, 1000u) << "packets bear the time at which they were due";
    }
}

TEST(SourcePort, TakesUpAnotherRate) {
    const auto made = ports("in: { source: { rate: 1k } }\n");
    auto& source = dynamic_cast<SourcePort&>(*made[0]);
    rte_mbuf* mbufs[256];
    const auto count_for = [&](double seconds) {
        uint64_t count = 0;
        const uint64_t begin = rte_rdtsc();
        while (static_cast<double>(rte_rdtsc() - begin) < seconds * static_cast<double>(rte_get_tsc_hz())) {
            const uint16_t n = made[0]->receive(0, mbufs, 256);
            rte_pktmbuf_free_bulk(mbufs, n);
            count += n;
        }
        return count;
    };
    EXPECT_LE(count_for(0.02), 40u);
    source.set_rate(1e6);
    const uint64_t fast = count_for(0.05);
    EXPECT_GE(fast, 10'000u);
    EXPECT_LE(fast, 80'000u);
    source.set_rate(0);
    EXPECT_GT(count_for(0.02), fast) << "as fast as it is asked";
}

}  // namespace
}  // namespace millrace::io
