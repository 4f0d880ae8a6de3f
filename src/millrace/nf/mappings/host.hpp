// What the host halves of NAT44 and NAT64 are derived from: tables of external ports, mappings as they are shown.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "millrace/nf/mappings/options.hpp"
#include "millrace/nf/mappings/shown.hpp"
#include "millrace/nf/state/keyed_table.hpp"
#include "millrace/nf/whole_packets.hpp"

namespace millrace::nf::mappings {

/// An empty hash table for so many elements: a power of two of places, half of them free at least.
template <class T>
std::vector<T> places_for(size_t elements) {
    return std::vector<T>(std::bit_ceil(std::max<size_t>(2 * elements, 2)));
}

/// Port forwards, to be found by `from`.
template <class From, class To, class EndsOf>
std::vector<Forward<From, To>> forward_table(size_t forwards, const EndsOf& ends_of) {
    auto table = places_for<Forward<From, To>>(forwards);
    for (uint32_t i = 0; i < forwards; ++i) {
        const auto [from, to] = ends_of(i);
        size_t at = hash_of(from) & (table.size() - 1);
        while (table[at].used != 0) at = (at + 1) & (table.size() - 1);
        table[at] = {from, to, i, 1};
    }
    return table;
}

template <class Address>
std::vector<External> external_table(const Options<Address>& options) {
    auto table = places_for<External>(options.pool.size() + options.forwards.size());
    const auto put = [&](uint32_t address, External::Kind kind) {
        size_t at = hash_words(0, address, 0) & (table.size() - 1);
        while (table[at].kind != External::kFree && table[at].address != address) at = (at + 1) & (table.size() - 1);
        if (table[at].kind == External::kFree) table[at] = {address, kind};
    };
    for (const uint32_t address : options.pool) put(address, External::kPool);
    for (const auto& forward : options.forwards) put(forward.external.address, External::kForwards);
    return table;
}

/// For twice as many groups as there are: then none of them finds its bucket full, and every port can be used.
template <class Address>
KeyedOptions size_for(const Options<Address>& options) {
    return {.most = std::max<uint64_t>(2 * options.all_groups(), 1),
            .timeout_ns = *std::max_element(std::begin(options.kept_ns), std::end(options.kept_ns)),
            .when_full = WhenFull::refuse,
            .journal = options.journal};
}

/// `Device::Tables` are PortTables, all of which but `state` and `own` this fills.
template <class Device>
class MappingHost : public KeyedFunction<Device>, public WantsWholePackets, public ShowsFlows {
public:
    using Address = typename Device::Tables::Address;

    std::string summary() const override {
        const size_t forwards = options_.forwards.size();
        return fmt::format("{} external ports of {} address{}, {} port forward{}, {} KiB of mappings",
                           options_.all_groups() * kGroupPorts, options_.pool.size(),
                           options_.pool.size() == 1 ? "" : "es", forwards, forwards == 1 ? "" : "s",
                           this->table().bytes() >> 10);
    }
    std::string explain(const Decision& decision) const override {
        if (decision.detail >= options_.forwards.size()) return {};
        return "by the port forward of " + options_.forwards[decision.detail].text();
    }
    std::vector<Statistic> statistics() const override {
        std::vector<Statistic> all = KeyedFunction<Device>::statistics();
        all.push_back({"external-ports", options_.all_groups() * kGroupPorts, "ports of the pool, by protocol"});
        all.push_back({"port-forwards", options_.forwards.size(), "port forwards that there are"});
        return all;
    }
    ShownTable show_flows(const FlowQuery& query, StateReader* reader) const override {
        const auto& own = *static_cast<const typename Device::Tables*>(this->image().tables());
        // Ports are forgotten where they are met; what has timed out by the last packet's time is none any more.
        uint64_t now = 0;
        const auto look = [&](const GroupKey&, const PortGroup<Address>&, uint64_t deadline) {
            now = std::max(now, deadline - std::min(deadline, own.state.timeout_ns));
        };
        const bool there = this->table().each(reader, look);
        const typename MappingList<Address>::PeerInside peer_inside = [&](uint32_t peer) {
            return Device::peer_inside(own, peer);
        };
        MappingList<Address> list(query, own.kept_ns, now, peer_inside);
        const auto add = [&](const GroupKey& key, const PortGroup<Address>& group, uint64_t) { list.add(key, group); };
        if (!there || !this->table().each(reader, add))
            throw std::runtime_error("the device has gone with its mappings");
        return list.take();
    }

protected:
    MappingHost(Options<Address> options, const Environment& environment)
        : KeyedFunction<Device>(size_for(options), environment, "port-groups"), options_(std::move(options)) {
        auto& own = this->tables();
        auto& image = this->image_to_fill();
        image.attach_some(own.pool, options_.pool);
        image.attach(own.externals, external_table(options_));
        if (const size_t forwards = options_.forwards.size(); forwards != 0) {
            image.attach(own.by_external, forward_table<uint32_t, Address>(forwards, [&](uint32_t i) {
                             return std::pair(options_.forwards[i].external, options_.forwards[i].inside);
                         }));
            image.attach(own.by_inside, forward_table<Address, uint32_t>(forwards, [&](uint32_t i) {
                             return std::pair(options_.forwards[i].inside, options_.forwards[i].external);
                         }));
        }
        std::copy(std::begin(options_.kept_ns), std::end(options_.kept_ns), std::begin(own.kept_ns));
        own.first_group = options_.first_group;
        own.groups = options_.pool.empty() ? 0 : options_.groups;
    }

private:
    const Options<Address> options_;
};

}  // namespace millrace::nf::mappings
