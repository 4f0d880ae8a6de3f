// Chains of made-up NFs with random declarations: what the field plan moves is enough. Each NF mixes the
// fields that it declares to read into those that it declares to write, so a field that was not brought,
// or not brought back, shows in the packet.
#include <gtest/gtest.h>

#include <deque>

#include "millrace/chain/frames/whole_frames.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {
namespace {

struct MixTables {
    Fields reads, writes;
};

/// The bytes of one field in a plain packet: Ethernet, IPv4 or IPv6, TCP or UDP.
std::pair<uint32_t, uint32_t> place(const Packet& packet, unsigned bit) {
    const Layers& l = packet.layers();
    const uint32_t l3 = l.l3_offset, l4 = l.l4_offset;
    const bool v4 = l.is_ipv4();
    const Fields ethernet_or_payload = field::ethernet | field::payload;
    if (!l.is_ip() && !ethernet_or_payload.overlaps({1u << bit})) return {0, 0};
    switch (1u << bit) {
        case field::eth_dst.bits: return {0, 6};
        case field::eth_src.bits: return {6, 6};
        case field::ip_tos.bits: return v4 ? std::pair{l3 + 1, 1u} : std::pair{l3 + 2, 2u};
        case field::ip_id.bits: return v4 ? std::pair{l3 + 4, 2u} : std::pair{0u, 0u};
        case field::ip_ttl.bits: return {v4 ? l3 + 8 : l3 + 7, 1};
        case field::ip_checksum.bits: return v4 ? std::pair{l3 + 10, 2u} : std::pair{0u, 0u};
        case field::ip_src.bits: return v4 ? std::pair{l3 + 12, 4u} : std::pair{l3 + 8, 16u};
        case field::ip_dst.bits: return v4 ? std::pair{l3 + 16, 4u} : std::pair{l3 + 24, 16u};
        case field::l4_src_port.bits: return l.has_ports() ? std::pair{l4, 2u} : std::pair{0u, 0u};
        case field::l4_dst_port.bits: return l.has_ports() ? std::pair{l4 + 2, 2u} : std::pair{0u, 0u};
        case field::tcp_seq.bits: return l.is_tcp() ? std::pair{l4 + 4, 4u} : std::pair{0u, 0u};
        case field::tcp_window.bits: return l.is_tcp() ? std::pair{l4 + 14, 2u} : std::pair{0u, 0u};
        case field::payload.bits: return {l.payload_offset, packet.payload_bytes()};
        default: return {0, 0};
    }
}

Decision mix(Packet& packet, const void* tables) {
    const auto& mixed = *static_cast<const MixTables*>(tables);
    uint32_t hash = 2166136261u;
    for (unsigned bit = 0; bit < kFieldCount; ++bit) {
        if (!mixed.reads.overlaps({1u << bit})) continue;
        const auto [at, bytes] = place(packet, bit);
        for (uint32_t i = 0; i < bytes; ++i) hash = (hash ^ packet.data()[at + i]) * 16777619u;
    }
    for (unsigned bit = 0; bit < kFieldCount; ++bit) {
        if (!mixed.writes.overlaps({1u << bit})) continue;
        const auto [at, bytes] = place(packet, bit);
        for (uint32_t i = 0; i < bytes; ++i) packet.data()[at + i] = static_cast<uint8_t>((hash >> (8 * (i % 4))) + i);
    }
    // Some are dropped on the way.
    return {hash, hash % 8 == 0 ? 1u : 0u};
}

class MixHost : public nf::NetworkFunction {
public:
    MixHost(Fields reads, Fields writes) { image_.start<MixTables>() = {reads, writes}; }
    const nf::Image& image() const override { return image_; }

private:
    nf::Image image_;
};

/// Any of the fields that `place` knows.
Fields random_fields(Rng& rng) {
    constexpr Fields kAll = field::eth_dst | field::eth_src | field::ip_tos | field::ip_id | field::ip_ttl |
                            field::ip_checksum | field::ip_src | field::ip_dst | field::l4_ports | field::tcp_seq |
                            field::tcp_window;
    Fields fields{static_cast<uint32_t>(rng()) & static_cast<uint32_t>(rng()) & kAll.bits};
    if (rng() % 6 == 0) fields |= field::payload;
    return fields;
}

std::shared_ptr<const chain::Program> random_program(Rng& rng, std::deque<nf::Type>& types) {
    auto program = std::make_shared<chain::Program>();
    program->name = "random";
    program->output = 1;
    program->port_names = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"in", "out"});
    std::vector<chain::FieldUse> uses;
    const size_t nodes = 1 + rng() % 6;
    for (size_t i = 0; i < nodes; ++i) {
        nf::Type& type = types.emplace_back();
        type.name = "mix";
        type.outcomes = {{"pass", nf::Disposition::next, ""}, {"drop", nf::Disposition::drop, ""}};
        type.reads = random_fields(rng);
        type.writes = random_fields(rng);
        type.process[0] = mix;
        chain::Node node;
        node.name = "mix" + std::to_string(i);
        node.type = &type;
        node.nf = std::make_shared<MixHost>(type.reads, type.writes);
        node.targets = {
            i + 1 < nodes ? Target{Target::Kind::node, static_cast<uint16_t>(i + 1)} : Target{Target::Kind::output, 0},
            Target{Target::Kind::drop, 0}};
        program->nodes.push_back(std::move(node));
        uses.push_back({{}, {}, type.reads, type.writes});
    }
    program->plan = chain::plan_fields(uses);
    return program;
}

TEST(RandomChains, GiveTheSamePacketsWithTheLeastTransfersAsWithAll) {
    Rng rng(20);
    RandomOptions traffic;
    traffic.malformed = 0;
    traffic.ip_options = 0;
    traffic.vlan = 0.1;
    uint64_t least = 0, all = 0;
    for (int round = 0; round < 60; ++round) {
        std::deque<nf::Type> types;
        chain::Configuration configuration;
        configuration.chains = {random_program(rng, types)};
        const std::vector<Frame> frames = random_packets(rng, 120, traffic);
        const EngineRun expected = run_on_cpu(configuration, frames, 64, false);
        exec::OffloadOptions options;
        options.mode = device::kModes[static_cast<size_t>(round) % std::size(device::kModes)];
        const EngineRun planned = run_on_device(std::make_shared<device::sim::SimDevice>(), configuration, frames, 64,
                                                options, Work::but_long_headers);
        const EngineRun whole = run_on_device(std::make_shared<device::sim::SimDevice>(),
                                              chain::with_whole_frames(configuration), frames, 64, options);
        for (size_t i = 0; i < frames.size(); ++i) {
            ASSERT_EQ(expected.outcomes[i].text(), planned.outcomes[i].text()) << "round " << round;
            ASSERT_EQ(expected.outcomes[i].text(), whole.outcomes[i].text()) << "round " << round;
        }
        least += planned.counters->bytes_to_device.get() + planned.counters->bytes_to_host.get();
        all += whole.counters->bytes_to_device.get() + whole.counters->bytes_to_host.get();
    }
    EXPECT_LT(least, all) << "the plan saved nothing";
}

TEST(RandomChains, ShowAFieldThatThePlanForgot) {
    // The check above can fail: without the destination address the device reads what lay there before.
    Rng rng(21);
    std::deque<nf::Type> types;
    auto program = std::make_shared<chain::Program>(*random_program(rng, types));
    nf::Type& type = *const_cast<nf::Type*>(program->nodes[0].type);
    program->nodes.resize(1);
    program->nodes[0].targets[0] = {Target::Kind::output, 0};
    type.reads = field::tcp_window;
    type.writes = field::eth_dst;
    program->nodes[0].nf = std::make_shared<MixHost>(type.reads, type.writes);
    program->plan.before = {{field::eth_dst | field::eth_type, {}}};
    program->plan.at_end = field::eth_dst;
    chain::Configuration configuration;
    configuration.chains = {program};
    const std::vector<Frame> frames(10, build_packet("{ipv4: {}, tcp: {src: 1, dst: 2}, payload: hello}"));
    const EngineRun run = run_on_device(std::make_shared<device::sim::SimDevice>(), configuration, frames, 10, {},
                                        Work::shared_with_cpu);
    // Too few bytes came for the headers to be parsed, so the host decided on every packet.
    EXPECT_EQ(run.counters->retried_on_cpu.get(), 10u);
}

}  // namespace
}  // namespace millrace::test
