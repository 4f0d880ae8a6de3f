#include <fmt/format.h>

#include <bit>
#include <stdexcept>

#include "millrace/nf/nat/device.hpp"
#include "millrace/nf/nat/options.hpp"
#include "millrace/nf/nat/shown.hpp"
#include "millrace/nf/state/keyed_table.hpp"
#include "millrace/nf/whole_packets.hpp"

namespace millrace::nf::nat {
namespace {

/// An empty hash table for so many elements: a power of two of places, half of them free at least.
template <class T>
std::vector<T> places_for(size_t elements) {
    return std::vector<T>(std::bit_ceil(std::max<size_t>(2 * elements, 2)));
}

std::vector<Forward> forward_table(const std::vector<ForwardOptions>& forwards, bool by_external) {
    std::vector<Forward> table = places_for<Forward>(forwards.size());
    for (uint32_t i = 0; i < forwards.size(); ++i) {
        const End &external = forwards[i].external, &inside = forwards[i].inside;
        const Forward made{by_external ? external : inside, by_external ? inside : external, i, 1};
        size_t at = hash_of(made.from) & (table.size() - 1);
        while (table[at].used != 0) at = (at + 1) & (table.size() - 1);
        table[at] = made;
    }
    return table;
}

std::vector<External> external_table(const Options& options) {
    std::vector<External> table = places_for<External>(options.pool.size() + options.forwards.size());
    const auto put = [&](uint32_t address, External::Kind kind) {
        size_t at = hash_words(0, address, 0) & (table.size() - 1);
        while (table[at].kind != External::kFree && table[at].address != address) at = (at + 1) & (table.size() - 1);
        if (table[at].kind == External::kFree) table[at] = {address, kind};
    };
    for (const uint32_t address : options.pool) put(address, External::kPool);
    for (const ForwardOptions& forward : options.forwards) put(forward.external.address, External::kForwards);
    return table;
}

/// For twice as many groups as there are: then none of them finds its bucket full, and every port can be used.
KeyedOptions size_for(const Options& options) {
    return {.most = std::max<uint64_t>(2 * options.all_groups(), 1),
            .timeout_ns = *std::max_element(std::begin(options.kept_ns), std::end(options.kept_ns)),
            .when_full = WhenFull::refuse};
}

class NatHost : public KeyedFunction<Nat>, public WantsWholePackets, public ShowsFlows {
public:
    NatHost(const Config& options, const Environment& environment) : NatHost(read_options(options), environment) {}

    std::string summary() const override {
        const size_t forwards = options_.forwards.size();
        return fmt::format("{} external ports of {} address{}, {} port forward{}, {} KiB of mappings",
                           options_.all_groups() * kGroupPorts, options_.pool.size(),
                           options_.pool.size() == 1 ? "" : "es", forwards, forwards == 1 ? "" : "s",
                           table().bytes() >> 10);
    }
    std::string explain(const Decision& decision) const override {
        if (decision.detail >= options_.forwards.size()) return {};
        return "by the port forward of " + options_.forwards[decision.detail].text();
    }
    std::vector<Statistic> statistics() const override {
        std::vector<Statistic> all = KeyedFunction::statistics();
        all.push_back({"external-ports", options_.all_groups() * kGroupPorts, "ports of the pool, by protocol"});
        all.push_back({"port-forwards", options_.forwards.size(), "port forwards that there are"});
        return all;
    }
    ShownTable show_flows(const FlowQuery& query, StateReader* reader) const override {
        const auto& own = *static_cast<const NatTables*>(image().tables());
        // Ports are forgotten where they are met; what has timed out by the last packet's time is none any more.
        uint64_t now = 0;
        const auto look = [&](const GroupKey&, const PortGroup&, uint64_t deadline) {
            now = std::max(now, deadline - std::min(deadline, own.state.timeout_ns));
        };
        const bool there = table().each(reader, look);
        MappingList list(query, own.kept_ns, now);
        const auto add = [&](const GroupKey& key, const PortGroup& group, uint64_t) { list.add(key, group); };
        if (!there || !table().each(reader, add)) throw std::runtime_error("the device has gone with its mappings");
        return list.take();
    }

private:
    NatHost(Options options, const Environment& environment)
        : KeyedFunction(size_for(options), environment, "port-groups"), options_(std::move(options)) {
        NatTables& own = tables();
        image_to_fill().attach(own.inside, options_.inside);
        image_to_fill().attach_some(own.pool, options_.pool);
        image_to_fill().attach(own.externals, external_table(options_));
        if (!options_.forwards.empty()) {
            image_to_fill().attach(own.by_external, forward_table(options_.forwards, true));
            image_to_fill().attach(own.by_inside, forward_table(options_.forwards, false));
        }
        std::copy(std::begin(options_.kept_ns), std::end(options_.kept_ns), std::begin(own.kept_ns));
        own.first_group = options_.first_group;
        own.groups = options_.pool.empty() ? 0 : options_.groups;
    }

    const Options options_;
};

const Register<Nat, NatHost> registration{{
    .name = "nat",
    .summary = "lets many inside share external IPv4 addresses, and forwards ports to some of them",
    .outcomes = {{"outbound", Disposition::next, "it comes from inside, and has an external source now"},
                 {"inbound", Disposition::next, "it comes from outside, and goes to an endpoint inside now"},
                 {"hairpin", Disposition::next, "both: from inside to an external address that stands for one inside"},
                 {"other", Disposition::next, "it is for nobody to translate: not changed"},
                 {"no-mapping", Disposition::drop, "for an external port that stands for nobody"},
                 {"exhausted", Disposition::drop, "the ports that its source may have are all taken"},
                 {"fragment", Disposition::drop, "a fragment, whose ports are not all known"},
                 {"untranslatable", Disposition::drop, "it has no ports that could be translated"}},
    .device_header = "millrace/nf/nat/device.hpp",
    .device_struct = "millrace::nf::nat::Nat",
}};

}  // namespace
}  // namespace millrace::nf::nat
