// What the targets of the lookup tables are: next hops with MAC addresses, or what becomes of packets without one.
#include <algorithm>
#include <numeric>

#include "millrace/nf/router/device.hpp"
#include "millrace/nf/router/kernel/kernel_table.hpp"

namespace millrace::nf::router {
namespace {

/// Members of a group: weights beyond are rounded.
constexpr uint32_t kMaxShares = 512;
constexpr uint64_t kForgetQuestions = 60;  // seconds

}  // namespace

const KernelTable::Link* KernelTable::usable_link(uint32_t interface) const {
    const auto link = links_.find(interface);
    return link != links_.end() && link->second.usable() ? &link->second : nullptr;
}

const KernelTable::Neighbour* KernelTable::usable_neighbour(const NeighbourKey& key) const {
    const auto found = neighbours_.find(key);
    return found != neighbours_.end() && found->second.usable ? &found->second : nullptr;
}

/// Makes targets of ways.
class KernelTable::Resolver {
public:
    Resolver(KernelTable& table, Forwarding& forwarding) : table_(table), forwarding_(forwarding) {}

    Target target_of(const Way& way) {
        switch (way.kind) {
            case Way::Kind::none:
            case Way::Kind::blackhole: return {Router::kNoRoute, 0};
            case Way::Kind::local: return {Router::kLocal, 0};
            case Way::Kind::kernel: return {Router::kKernel, 0};
            case Way::Kind::connected: {
                const bool ours = table_.usable_link(way.hops[0].interface) != nullptr;
                return {ours ? Router::kNoNeighbour : Router::kKernel, 0};
            }
            case Way::Kind::gateways: return group_of(way.hops);
            case Way::Kind::object: return target_of(table_.way_of_object(way.object));
        }
        return {Router::kKernel, 0};
    }

private:
    struct Share {
        uint16_t next_hop;
        uint32_t weight;
    };

    Target group_of(const std::vector<RouteHop>& hops) {
        std::vector<Share> shares;
        bool unresolved = false;
        for (const RouteHop& hop : hops) {
            if (hops.size() > 1 && !table_.is_up(hop.interface)) continue;  // the kernel leaves it out, too
            const Link* const link = table_.usable_link(hop.interface);
            if (link == nullptr) return {Router::kKernel, 0};
            if (const auto number = next_hop({hop.gateway, hop.interface}, *link))
                shares.push_back({*number, hop.weight});
            else unresolved = true;
        }
        if (shares.empty()) return {unresolved ? Router::kNoNeighbour : Router::kKernel, 0};
        if (shares.size() == 1) return {shares[0].next_hop, 1};
        return members_of(shares);
    }

    Target members_of(std::vector<Share>& shares) {
        uint32_t divisor = 0;
        uint64_t sum = 0;
        for (const Share& share : shares) divisor = std::gcd(divisor, share.weight);
        for (Share& share : shares) sum += share.weight /= divisor;
        const auto first = static_cast<uint32_t>(forwarding_.members.size());
        for (const Share& share : shares) {
            const uint64_t count = sum > kMaxShares ? std::max<uint64_t>(share.weight * uint64_t{kMaxShares} / sum, 1)
                                                    : share.weight;
            forwarding_.members.insert(forwarding_.members.end(), count, share.next_hop);
        }
        return {first, static_cast<uint32_t>(forwarding_.members.size()) - first};
    }

    std::optional<uint16_t> next_hop(const NeighbourKey& key, const Link& link) {
        const Neighbour* const neighbour = table_.usable_neighbour(key);
        if (neighbour == nullptr) return std::nullopt;
        const auto known = numbers_.find(key);
        if (known != numbers_.end()) return known->second;
        if (forwarding_.next_hops.size() > UINT16_MAX) {
            table_.warn_once("there are more than 65,536 next hops: packets to further ones are punted",
                             "use fewer, or several routers");
            return std::nullopt;
        }
        NextHop next{};
        std::ranges::copy(neighbour->mac, next.dst);
        std::ranges::copy(link.told.mac, next.src);
        next.port = link.port;
        next.flags = NextHop::kSetDst | NextHop::kSetSrc;
        next.mtu = link.told.mtu <= UINT16_MAX ? static_cast<uint16_t>(link.told.mtu) : uint16_t{0};
        const auto number = static_cast<uint16_t>(forwarding_.next_hops.size());
        forwarding_.next_hops.push_back(next);
        forwarding_.names.push_back(key.address.text() + " on " + link.told.name);
        numbers_[key] = number;
        return number;
    }

    KernelTable& table_;
    Forwarding& forwarding_;
    std::map<NeighbourKey, uint16_t> numbers_;
};

KernelTable::Forwarding KernelTable::forwarding() {
    Forwarding forwarding;
    Resolver resolver(*this, forwarding);
    forwarding.targets.reserve(ways_.numbers());
    for (size_t number = 0; number < ways_.numbers(); ++number)
        forwarding.targets.push_back(resolver.target_of(ways_.at(static_cast<uint16_t>(number))));
    for (const auto& [index, link] : links_) {
        if (link.port == kNoPort || !link.told.has_mac) continue;
        if (forwarding.port_macs.size() <= link.port) forwarding.port_macs.resize(link.port + size_t{1});
        PortMac& mac = forwarding.port_macs[link.port];
        std::ranges::copy(link.told.mac, mac.bytes);
        mac.is_known = 1;
    }
    return forwarding;
}

std::vector<NeighbourKey> KernelTable::questions(uint64_t now, size_t most) {
    std::vector<NeighbourKey> questions;
    const auto ask = [&](const NeighbourKey& key) {
        if (questions.size() >= most || usable_link(key.interface) == nullptr) return;
        const auto [at, first] = asked_.try_emplace(key, now);
        if (!first && now - at->second < kAskAgain) return;
        at->second = now;
        questions.push_back(key);
    };
    for (const auto& [key, neighbour] : neighbours_)
        if (neighbour.stale) ask(key);
    for (size_t number = Ways::kFixed; number < ways_.numbers(); ++number) {
        const Way way = followed(ways_.at(static_cast<uint16_t>(number)));
        if (way.kind != Way::Kind::gateways) continue;
        for (const RouteHop& hop : way.hops)
            if (const NeighbourKey key{hop.gateway, hop.interface}; usable_neighbour(key) == nullptr) ask(key);
    }
    std::erase_if(asked_, [&](const auto& asked) { return now - asked.second > kForgetQuestions; });
    return questions;
}

size_t KernelTable::resolved_neighbours() const {
    return static_cast<size_t>(
        std::ranges::count_if(neighbours_, [](const auto& entry) { return entry.second.usable; }));
}

}  // namespace millrace::nf::router
