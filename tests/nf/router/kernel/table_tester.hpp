// Tells a KernelTable what a kernel would, in words, and asks it where packets go.
#pragma once

#include <gtest/gtest.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <sstream>

#include "millrace/nf/router/device.hpp"
#include "millrace/nf/router/kernel/kernel_table.hpp"

namespace millrace::nf::router {

inline IpAddress address_of(const std::string& text) {
    const Prefix prefix = parse_prefix(text).value();
    return {prefix.bytes, prefix.ipv6};
}

inline RouteHop hop_of(uint32_t interface, const std::string& gateway = {}, uint16_t weight = 1) {
    return {interface, !gateway.empty(), gateway.empty() ? IpAddress{} : address_of(gateway), weight};
}

inline RouteMessage route_of(const std::string& prefix, std::vector<RouteHop> hops, uint32_t metric = 0,
                             uint8_t type = RTN_UNICAST, uint32_t table = 254) {
    RouteMessage message;
    message.prefix = parse_prefix(prefix).value();
    message.hops = std::move(hops);
    message.metric = metric;
    message.type = type;
    message.table = table;
    return message;
}

/// Interfaces: 1 is lan0 (port 0, 02:…:01), 2 is wan0 (port 1, 02:…:02), 3 is eth9, which no port stands for.
class TableTester {
public:
    explicit TableTester(uint32_t table = 254)
        : table_({table, {{"lan0", 0}, {"wan0", 1}}},
                 [this](const std::string& message, const std::string&) { warnings.push_back(message); }) {
        link(1, "lan0");
        link(2, "wan0");
        link(3, "eth9");
    }

    KernelTable& table() { return table_; }
    void link(uint32_t index, const std::string& name, bool up = true, uint32_t mtu = 1500, bool carrier = true) {
        LinkMessage message;
        message.index = index;
        message.name = name;
        message.has_mac = true;
        message.mac = {2, 0, 0, 0, 0, static_cast<uint8_t>(index)};
        message.up = up;
        message.carrier = up && carrier;
        message.mtu = mtu;
        table_.on_link(message);
    }
    void add(RouteMessage message, RouteMessage::Place place = RouteMessage::Place::front) {
        message.place = place;
        table_.on_route(message);
    }
    void remove(RouteMessage message) {
        message.gone = true;
        table_.on_route(message);
    }
    /// The last byte of its MAC address tells a neighbour; 0: it has none.
    void neighbour(uint32_t interface, const std::string& address, uint8_t mac, uint16_t state = NUD_REACHABLE) {
        table_.on_neighbour({false, interface, address_of(address), mac != 0, {2, 0, 0, 0, 1, mac}, state});
    }
    void lose(uint32_t interface, const std::string& address) {
        table_.on_neighbour({true, interface, address_of(address), false, {}, NUD_FAILED});
    }

    /// Where packets to an address go: an outcome, or the ports and the last bytes of the MAC addresses, such as
    /// "0:17 1:18", a group's members in order.
    std::string to(const std::string& destination) {
        const IpAddress address = address_of(destination);
        Rib<4>::Address first4;
        std::copy_n(address.bytes.begin(), 4, first4.begin());
        const uint32_t number = address.ipv6 ? table_.lpm6().lookup(address.bytes) : table_.lpm4().lookup(first4);
        return text_of(number);
    }
    std::string text_of(uint32_t number) {
        const KernelTable::Forwarding forwarding = table_.forwarding();
        const Target target = forwarding.targets.at(number);
        if (target.count == 0) {
            switch (target.first) {
                case Router::kNoRoute: return "no-route";
                case Router::kLocal: return "local";
                case Router::kNoNeighbour: return "no-neighbour";
                case Router::kKernel: return "kernel";
                default: return "?";
            }
        }
        std::string text;
        for (uint32_t i = 0; i < target.count; ++i) {
            const uint32_t hop = target.count == 1 ? target.first : forwarding.members.at(target.first + i);
            const NextHop& next = forwarding.next_hops.at(hop);
            EXPECT_EQ(next.src[5], next.port + 1) << "it leaves with the address of its interface";
            text += (text.empty() ? "" : " ") + std::to_string(next.port) + ":" + std::to_string(next.dst[5]);
        }
        return text;
    }

    std::vector<std::string> warnings;

private:
    KernelTable table_;
};

}  // namespace millrace::nf::router
