// Any bytes as what the kernel tells of routes, nexthops, neighbours and links: what is read is sound, and a router's
// table takes it.
#include <cstdlib>

#include "fuzz/entry.hpp"
#include "millrace/nf/router/kernel/kernel_table.hpp"

namespace rtnetlink_fuzz {

using namespace millrace;
using namespace millrace::nf::router;

void require(bool holds) {
    if (!holds) std::abort();
}

void check_address(const IpAddress& address) {
    if (!address.ipv6)
        for (size_t i = 4; i < 16; ++i) require(address.bytes[i] == 0);
}

/// Checks what comes, and hands it on.
class Checks : public MessageListener {
public:
    explicit Checks(KernelTable& table) : table_(table) {}
    void on_route(const RouteMessage& route) override {
        const Prefix& prefix = route.prefix;
        require(prefix.length <= prefix.address_bits());
        for (unsigned bit = prefix.length; bit < 128; ++bit) require((prefix.bytes[bit / 8] & (0x80 >> bit % 8)) == 0);
        for (const RouteHop& hop : route.hops) {
            require(hop.weight >= 1 && hop.weight <= 256);
            check_address(hop.gateway);
        }
        table_.on_route(route);
    }
    void on_nexthop(const NexthopMessage& nexthop) override {
        require(nexthop.id != 0);
        check_address(nexthop.hop.gateway);
        for (const NexthopMessage::Member& member : nexthop.group)
            require(member.id != 0 && member.weight >= 1 && member.weight <= 65536);
        table_.on_nexthop(nexthop);
    }
    void on_neighbour(const NeighbourMessage& neighbour) override {
        require(neighbour.interface != 0);
        check_address(neighbour.address);
        table_.on_neighbour(neighbour);
    }
    void on_link(const LinkMessage& link) override {
        require(link.index != 0 && !link.name.empty());
        table_.on_link(link);
    }
    void on_hidden_change() override { table_.on_hidden_change(); }
    void on_answered(uint32_t, int error, bool) override { require(error >= 0 && error < 4096); }
    void on_malformed() override { require(++malformed_ <= 4000); }

private:
    KernelTable& table_;
    int malformed_ = 0;
};

MILLRACE_FUZZER(rtnetlink)(const uint8_t* data, size_t size) {
    if (size > 32000) return 0;  // so that there are at most 2,000 messages in each piece
    KernelTable table({254, {{"v0", 0}, {"v1", 1}}}, [](const std::string&, const std::string&) {});
    Checks checks(table);
    MessageParser parser(checks);
    // In two pieces: the first may end within a message.
    parser.parse({data, size / 2});
    parser.parse({data, size});
    const KernelTable::Forwarding forwarding = table.forwarding();
    for (const auto& target : forwarding.targets) {
        if (target.count == 1) require(target.first < forwarding.next_hops.size());
        if (target.count > 1) require(uint64_t{target.first} + target.count <= forwarding.members.size());
    }
    for (const uint16_t member : forwarding.members) require(member < forwarding.next_hops.size());
    table.lpm4().rib().for_each([&](const auto& route) { require(route.value < forwarding.targets.size()); });
    table.lpm6().rib().for_each([&](const auto& route) { require(route.value < forwarding.targets.size()); });
    return 0;
}

}  // namespace rtnetlink_fuzz
