#include <algorithm>
#include <mutex>

#include "millrace/nf/prefixes/linear_routes.hpp"
#include "millrace/nf/names_ports.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/router/cpu.hpp"
#include "millrace/nf/router/device.hpp"
#include "millrace/nf/router/kernel/kernel_router.hpp"
#include "millrace/nf/router/routes.hpp"
#include "millrace/nf/router/shown.hpp"

namespace millrace::nf::router {
namespace {

/// Routes and next hops as the configuration says.
class RouterHost : public NetworkFunction, public NamesPorts {
public:
    static std::unique_ptr<NetworkFunction> create(const Config& options, const Environment& environment) {
        if (!options.has("kernel")) return std::make_unique<RouterHost>(options, environment);
        for (const char* own : {"routes", "next-hops", "next-hop-map", "local", "engine"})
            if (const auto value = options.find(own))
                value->fail("'" + std::string(own) + "' and 'kernel' do not go together",
                            "with 'kernel:' the kernel says where packets go: leave one of them out");
        return std::make_unique<KernelRouter>(options, environment);
    }

    RouterHost(const Config& options, const Environment& environment)
        : routes_(std::make_shared<Routes>(read_options(options, environment.ports))), ports_(environment.ports) {
        // A table that is as it was stays where it is: devices then need not copy it again.
        lookup_ = routes_;
        if (const auto* previous = dynamic_cast<const RouterHost*>(environment.previous);
            previous != nullptr && previous->lookup_->ipv4.rib() == routes_->ipv4.rib() &&
            previous->lookup_->ipv6.rib() == routes_->ipv6.rib()) {
            lookup_ = previous->lookup_;
            fibs_ = previous->shared_fibs();
        }
        RouterTables& tables = image_.start<RouterTables>();
        const auto attach = [this](auto& view, const auto& owner, const auto& array) {
            using Array = std::remove_reference_t<decltype(array)>;
            if (!array.empty()) image_.attach(view, std::shared_ptr<Array>(owner, &array));
        };
        if (linear()) {
            image_.attach_some(tables.prefixes.ipv4_linear, linear_routes(lookup_->ipv4.rib()));
            image_.attach_some(tables.prefixes.ipv6_linear, linear_routes(lookup_->ipv6.rib()));
            warn_of_many(options, environment);
        } else {
            attach(tables.prefixes.ipv4_root, lookup_, lookup_->ipv4.root());
            attach(tables.prefixes.ipv4_groups, lookup_, lookup_->ipv4.groups());
            attach(tables.prefixes.ipv6_root, lookup_, lookup_->ipv6.root());
            attach(tables.prefixes.ipv6_groups, lookup_, lookup_->ipv6.groups());
        }
        attach(tables.targets, routes_, routes_->next_hops.targets());
        attach(tables.members, routes_, routes_->next_hops.members());
        attach(tables.next_hops, routes_, routes_->next_hops.next_hops());
    }

    const Image& image() const override { return image_; }
    bool takes_uncut() const override { return true; }
    bool names_ports() const override {
        return std::ranges::any_of(routes_->next_hops.next_hops(), [](const auto& hop) { return hop.port != kNoPort; });
    }

    std::unique_ptr<CpuHalf> make_cpu_half() override {
        const auto& tables = *static_cast<const RouterTables*>(image_.tables());
        const bool is_small = lookup_->ipv4.is_small() && lookup_->ipv6.is_small();
        if (linear() || is_small) return make_cpu_router(tables, nullptr);
        const std::lock_guard lock(mutex_);
        if (fibs_ == nullptr) fibs_ = std::make_shared<const Fibs>(lookup_->ipv4, lookup_->ipv6);
        return make_cpu_router(tables, fibs_);
    }

    std::string explain(const Decision& decision) const override {
        const auto& names = routes_->next_hops.names();
        if (decision.outcome != Router::kForward || decision.detail >= names.size()) return {};
        return "via " + names[decision.detail];
    }

    std::vector<Statistic> statistics() const override {
        return {{"routes-ipv4", lookup_->ipv4.rib().size(), "IPv4 prefixes, own addresses included"},
                {"routes-ipv6", lookup_->ipv6.rib().size(), "IPv6 prefixes, own addresses included"},
                {"next-hops", routes_->next_hops.names().size(), "next hops that were configured"},
                {"table-bytes", image_.array_bytes(), "memory that the tables take on a device"}};
    }

    std::optional<ShownTable> show(std::string_view topic, size_t most) const override {
        if (topic == "neighbours") return show_next_hops(routes_->next_hops, ports_, most);
        if (topic != "routes") return {};
        ShownTable shown{.columns = {"prefix", "via"}, .rows = {}};
        const auto via = [this](uint16_t target) { return via_text(target, routes_->next_hops); };
        show_routes(shown, lookup_->ipv4.rib(), most, via);
        show_routes(shown, lookup_->ipv6.rib(), most, via);
        return shown;
    }

    std::string summary() const override {
        return std::to_string(lookup_->ipv4.rib().size()) + " IPv4 and " + std::to_string(lookup_->ipv6.rib().size()) +
               " IPv6 routes, " + std::to_string(routes_->next_hops.names().size()) + " next hops, " +
               std::to_string(image_.array_bytes() >> 10) + " KiB" + (linear() ? ", one after the other" : "");
    }

    bool needs_punt_port(uint32_t outcome) const override {
        if (outcome == Router::kLocal) return routes_->has_local;
        return outcome != Router::kNoNeighbour && outcome != Router::kTooBig && outcome != Router::kKernel;
    }

private:
    bool linear() const { return routes_->engine == LookupEngine::linear; }

    void warn_of_many(const Config& options, const Environment& environment) const {
        const size_t most = std::max(lookup_->ipv4.rib().size(), lookup_->ipv6.rib().size());
        if (most <= kManyLinearRoutes) return;
        environment.warn({options.at("engine").where(),
                          "a packet may be compared with " + std::to_string(most) + " routes, one after the other",
                          "leave 'engine' out: then it takes two or three reads, however many there are",
                          Diagnostic::Severity::warning});
    }

    std::shared_ptr<const Fibs> shared_fibs() const {
        const std::lock_guard lock(mutex_);
        return fibs_;
    }

    std::shared_ptr<const Routes> routes_;
    const std::vector<std::string> ports_;  // their names
    std::shared_ptr<const Routes> lookup_;  // whose LPM tables are used: these routes', or equal ones'
    Image image_;
    mutable std::mutex mutex_;
    std::shared_ptr<const Fibs> fibs_;  // made when the first worker asks
};

const Register<Router, RouterHost> registration{{
    .name = "router",
    .summary = "forwards IPv4 and IPv6 by longest-prefix match",
    .outcomes = {{"forward", Disposition::next, "sent on to a next hop"},
                 {"not-ip", Disposition::punt, "neither IPv4 nor IPv6"},
                 {"bad-checksum", Disposition::drop, "the IPv4 header checksum is wrong"},
                 {"ttl-expired", Disposition::punt, "the TTL or hop limit has run out"},
                 {"no-route", Disposition::drop, "no route leads to the destination"},
                 {"local", Disposition::punt, "for an address of the router itself"},
                 {"martian", Disposition::drop, "an address that no packet to be forwarded may have"},
                 {"multicast", Disposition::drop, "for a multicast group"},
                 {"no-neighbour", Disposition::punt, "the next hop's MAC address is not known: the kernel finds it"},
                 {"too-big", Disposition::punt, "longer than the MTU of the next hop's interface"},
                 {"kernel", Disposition::punt, "its route or its options are the kernel's to follow"},
                 {"other-host", Disposition::drop, "the frame is for another host's MAC address"}},
    .device_header = "millrace/nf/router/device.hpp",
    .device_struct = "millrace::nf::router::Router",
    .has_cpu_half = true,
    .shareable = true,
}};

}  // namespace
}  // namespace millrace::nf::router
