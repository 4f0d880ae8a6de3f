// Flows by the book, for tests.
#pragma once

#include <random>

#include "nf/ipfix/runs.hpp"

namespace millrace::test {

/// What a packet is to its flow, as it was built.
struct Given {
    uint64_t time_ns;
    PacketSpec spec;
};
inline std::vector<Timed> built(const std::vector<Given>& given) {
    std::vector<Timed> packets;
    for (const auto& [time, spec] : given) packets.push_back({time, build(spec)});
    return packets;
}

/// Flows by the book: packets one after the other, a map, and nothing of tables, sweeps or batches.
class Model {
public:
    Model(uint64_t idle_ns, uint64_t active_ns) : idle_(idle_ns), active_(active_ns) {}
    void take(const Given& packet) {
        const uint8_t flags = packet.spec.tcp ? packet.spec.tcp->flags : 0;
        auto& flow = flows_[key_of(packet.spec)];
        if (flow.packets > 0 && packet.time_ns > flow.last + (flow.ended ? std::min(idle_, 2 * kSecond) : idle_))
            end(packet.spec, flow, flow.ended ? kEndOfFlow : kIdle);
        else if (flow.packets > 0 && flow.ended && (flags & 2) != 0) end(packet.spec, flow, kEndOfFlow);
        else if (flow.packets > 0 && packet.time_ns - flow.first >= active_) {
            const bool ended = flow.ended;
            end(packet.spec, flow, kActive);
            flow.ended = ended;
        }
        if (flow.packets == 0) {
            flow.first = packet.time_ns;
            flow.tos = packet.spec.ipv4 ? packet.spec.ipv4->tos : 0;
            flow.spec = packet.spec;
        }
        flow.last = newest_ = packet.time_ns;
        ++flow.packets;
        flow.octets += build(packet.spec).size() - 14;
        flow.flags |= flags;
        flow.ended = flow.ended || (flags & 5) != 0;
    }
    /// As lines, in order.
    std::vector<std::string> records() {
        for (auto& [key, flow] : flows_)
            if (flow.packets > 0)
                end(flow.spec, flow, flow.ended ? kEndOfFlow : newest_ > flow.last + idle_ ? kIdle : kForced);
        std::ranges::sort(lines_);
        return lines_;
    }

private:
    struct Flow {
        uint64_t first = 0, last = 0, packets = 0, octets = 0;
        uint8_t flags = 0, tos = 0;
        bool ended = false;
        PacketSpec spec;
    };
    static std::string key_of(const PacketSpec& spec) {
        const uint32_t ports = spec.tcp ? spec.tcp->src << 16 | spec.tcp->dst : spec.udp->src << 16 | spec.udp->dst;
        return std::to_string(spec.ipv4->src) + " " + std::to_string(spec.ipv4->dst) + " " +
               std::to_string(ports >> 16) + " " + std::to_string(ports & 0xffff) + (spec.tcp ? " 6" : " 17");
    }
    void end(const PacketSpec& spec, Flow& flow, uint64_t reason) {
        lines_.push_back(key_of(spec) + ": " + std::to_string(flow.packets) + " packets " +
                         std::to_string(flow.octets) + " octets " + std::to_string(flow.first / kMillisecond) + "-" +
                         std::to_string(flow.last / kMillisecond) + " flags " + std::to_string(flow.flags) + " tos " +
                         std::to_string(flow.tos) + " reason " + std::to_string(reason));
        flow = {};
    }
    const uint64_t idle_, active_;
    uint64_t newest_ = 0;
    std::map<std::string, Flow> flows_;
    std::vector<std::string> lines_;
};

inline std::vector<std::string> lines_of(const Exported& exported) {
    std::vector<std::string> lines;
    for (const IpfixRecord& flow : exported.flows)
        lines.push_back(std::to_string(flow.number(8)) + " " + std::to_string(flow.number(12)) + " " +
                        std::to_string(flow.number(7)) + " " + std::to_string(flow.number(11)) + " " +
                        std::to_string(flow.number(4)) + ": " + std::to_string(flow.number(kPackets)) + " packets " +
                        std::to_string(flow.number(kOctets)) + " octets " + std::to_string(flow.number(152)) + "-" +
                        std::to_string(flow.number(153)) + " flags " + std::to_string(flow.number(6)) + " tos " +
                        std::to_string(flow.number(5)) + " reason " + std::to_string(flow.number(kReason)));
    std::ranges::sort(lines);
    return lines;
}

/// Some flows with many packets and many with a few, with pauses of all lengths, beginnings and ends.
inline std::vector<Given> some_traffic(size_t count) {
    std::mt19937_64 rng(7);
    std::vector<Given> given;
    uint64_t time = kEpoch;
    for (size_t i = 0; i < count; ++i) {
        time += rng() % 400 == 0 ? rng() % (4 * kSecond) : rng() % (20 * kMillisecond);
        const auto flow = static_cast<uint32_t>(rng() % 4 == 0 ? rng() % 4 * 3 : std::min(rng() % 300, rng() % 300));
        Given& packet = given.emplace_back(Given{time, {}});
        packet.spec.ipv4.emplace();
        packet.spec.ipv4->src = 0x0a000000 + flow;
        packet.spec.ipv4->dst = 0x0b000000 + flow / 3;
        packet.spec.ipv4->tos = static_cast<uint8_t>(rng() % 3 * 4);
        if (flow % 3 == 0) {
            packet.spec.udp.emplace();
            packet.spec.udp->src = static_cast<uint16_t>(1000 + flow);
        } else {
            packet.spec.tcp.emplace();
            packet.spec.tcp->src = static_cast<uint16_t>(1000 + flow);
            constexpr uint8_t kFlags[] = {0x10, 0x18, 0x10, 0x18, 0x10, 0x11, 0x02, 0x04};
            packet.spec.tcp->flags = kFlags[rng() % 8];
        }
        packet.spec.payload = Frame(20 + rng() % 200);
    }
    return given;
}

}  // namespace millrace::test
