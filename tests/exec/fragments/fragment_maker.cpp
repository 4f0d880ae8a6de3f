#include "exec/fragments/fragment_maker.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/io/metadata.hpp"
#include "millrace/packet/checksum.hpp"

namespace millrace::test {
namespace {

bool is_ipv6(const Frame& packet) { return packet[12] == 0x86; }
size_t head_bytes(const Frame& packet) { return 14 + (is_ipv6(packet) ? 40u : 20u); }

}  // namespace

Frame udp_packet(bool ipv6, size_t payload, uint32_t seed) {
    PacketSpec spec;
    if (ipv6) spec.ipv6.emplace().src[15] = static_cast<uint8_t>(seed);
    else spec.ipv4.emplace().src += seed;
    spec.udp = UdpHeader{.src = static_cast<uint16_t>(1000 + seed % 50000), .dst = 53, .length = {}, .checksum = {}};
    Rng rng(seed);
    spec.payload.resize(payload);
    for (uint8_t& byte : spec.payload) byte = static_cast<uint8_t>(rng());
    return build(spec);
}

size_t fragmentable_bytes(const Frame& packet) { return packet.size() - head_bytes(packet); }

Frame fragment_of(const Frame& packet, size_t from, size_t to, uint32_t id) {
    const size_t head = head_bytes(packet);
    const bool more = to < packet.size() - head;
    Frame frame(packet.begin(), packet.begin() + static_cast<ptrdiff_t>(head));
    if (is_ipv6(packet)) {
        const Frame header = {frame[20],
                              0,
                              static_cast<uint8_t>(from >> 8),
                              static_cast<uint8_t>((from & 0xf8) | more),
                              static_cast<uint8_t>(id >> 24),
                              static_cast<uint8_t>(id >> 16),
                              static_cast<uint8_t>(id >> 8),
                              static_cast<uint8_t>(id)};
        frame[20] = 44;
        frame.insert(frame.end(), header.begin(), header.end());
        store_be16(&frame[18], static_cast<uint16_t>(8 + to - from));
    } else {
        store_be16(&frame[16], static_cast<uint16_t>(20 + to - from));
        store_be16(&frame[18], static_cast<uint16_t>(id));
        store_be16(&frame[20], static_cast<uint16_t>(from / 8 | (more ? 0x2000 : 0)));
        store_be16(&frame[24], 0);
        store_be16(&frame[24], checksum(&frame[14], 20));
    }
    const auto begin = packet.begin() + static_cast<ptrdiff_t>(head);
    frame.insert(frame.end(), begin + static_cast<ptrdiff_t>(from), begin + static_cast<ptrdiff_t>(to));
    return frame;
}

std::vector<Frame> fragments_of(const Frame& packet, const std::vector<size_t>& cuts, uint32_t id) {
    std::vector<Frame> all;
    size_t from = 0;
    for (const size_t to : cuts) {
        all.push_back(fragment_of(packet, from, to, id));
        from = to;
    }
    all.push_back(fragment_of(packet, from, fragmentable_bytes(packet), id));
    return all;
}

std::vector<Frame> fragments_of(const Frame& packet, size_t each, uint32_t id) {
    std::vector<size_t> cuts;
    for (size_t at = each; at < fragmentable_bytes(packet); at += each) cuts.push_back(at);
    return fragments_of(packet, cuts, id);
}

ReassemblyRun::ReassemblyRun(chain::Reassembly limits, uint32_t packets)
    : configuration(make_configuration("[firewall: {default: permit}]", "cpu")) {
    frame_pool();  // starts DPDK's environment
    counters = std::make_unique<exec::ChainCounters>(*configuration.chains[0]);
    buffers = std::make_unique<exec::WholePackets>(packets != 0 ? packets : limits.max_packets, 128, 64);
    reassembler = std::make_unique<exec::Reassembler>(limits, *buffers, 4, *counters);
}

ReassemblyRun::~ReassemblyRun() {
    reassembler->drop_all(exec::FragmentDrop::timeout);
    check();
    EXPECT_EQ(reassembler->held(), 0u);
    EXPECT_EQ(added, dropped() + counters->joined.get() + whole);
    EXPECT_EQ(counters->received_bytes.get() + whole_bytes, added_bytes) << "bytes are counted once";
    EXPECT_EQ(buffers->pool().available(), buffers->pool().packets()) << "all buffers are back";
}

uint64_t ReassemblyRun::dropped() const {
    uint64_t all = 0;
    for (const auto& reason : counters->fragment_drops) all += reason.get();
    return all;
}

/// Received = joined + dropped + held; what is whole the engine counts.
void ReassemblyRun::check() const {
    ASSERT_EQ(counters->received_packets.get() + whole, added);
    ASSERT_EQ(counters->in_flight() + whole, reassembler->held() + whole);
    ASSERT_EQ(counters->reassembled.get(), whole);
}

Frame ReassemblyRun::add(const Frame& frame, uint64_t at_ns, uint16_t port) {
    rte_mbuf* const mbuf = make_mbuf(frame, ++added);
    mbuf->port = port;
    added_bytes += frame.size();
    const auto fragment = exec::read_fragment({rte_pktmbuf_mtod(mbuf, const uint8_t*), frame.size()}, port);
    if (!fragment) {
        ADD_FAILURE() << "no fragment:\n" << hex_dump(frame);
        rte_pktmbuf_free(mbuf);
        return {};
    }
    reassembler->advance(port, at_ns);
    rte_mbuf* const packet = reassembler->add(mbuf, *fragment);
    if (packet == nullptr) {
        check();
        return {};
    }
    ++whole;
    const uint8_t* const data = rte_pktmbuf_mtod(packet, const uint8_t*);
    Frame result(data, data + packet->data_len);
    EXPECT_EQ(packet->data_len, packet->pkt_len);
    EXPECT_EQ(packet->port, port);
    EXPECT_EQ(io::packet_number(packet), added) << "that of the fragment that was missing";
    whole_bytes += packet->data_len;
    last_mark = *buffers->mark(packet);
    rte_pktmbuf_free(packet);
    check();
    return result;
}

std::vector<Frame> ReassemblyRun::add_all(const std::vector<Frame>& fragments) {
    std::vector<Frame> all;
    for (const Frame& fragment : fragments)
        if (Frame packet = add(fragment); !packet.empty()) all.push_back(std::move(packet));
    return all;
}

}  // namespace millrace::test
