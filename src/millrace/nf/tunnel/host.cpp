#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "millrace/nf/names_ports.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/prefixes/linear_routes.hpp"
#include "millrace/nf/prefixes/lpm.hpp"
#include "millrace/nf/tunnel/device.hpp"
#include "millrace/nf/tunnel/options.hpp"
#include "millrace/nf/whole_packets.hpp"

namespace millrace::nf::tunnel {
namespace {

constexpr uint32_t kHeadGrowth = ip::kIpv6Bytes + udp::kHeaderBytes + 8 + eth::kHeaderBytes;
/// Of one family: so few are looked at one by one, which saves a table.
constexpr size_t kFewPrefixes = 16;

/// Places of an open hash table, half of them free at least.
size_t places_for(size_t elements) { return std::bit_ceil(std::max<size_t>(2 * elements, 2)); }

std::vector<uint32_t> ends_table(const std::vector<TunnelOptions>& tunnels) {
    std::vector<uint32_t> table(places_for(tunnels.size()), kNoTunnel);
    for (uint32_t number = 0; number < tunnels.size(); ++number) {
        size_t at = hash_of(tunnels[number].tunnel.ends) & (table.size() - 1);
        while (table[at] != kNoTunnel) at = (at + 1) & (table.size() - 1);
        table[at] = number;
    }
    return table;
}

std::vector<LocalEnd> locals_table(const std::vector<TunnelOptions>& tunnels) {
    std::vector<LocalEnd> table(places_for(tunnels.size()));
    for (const TunnelOptions& one : tunnels) {
        const Ends& ends = one.tunnel.ends;
        const auto is_other = [&](const LocalEnd& local) {
            return local.ipv6 != ends.ipv6 || !std::equal(ends.local, ends.local + 4, local.address);
        };
        size_t at = hash_of(ends.local, ends.ipv6) & (table.size() - 1);
        while (table[at].kinds != 0 && is_other(table[at])) at = (at + 1) & (table.size() - 1);
        std::copy(ends.local, ends.local + 4, table[at].address);
        table[at].ipv6 = ends.ipv6;
        table[at].kinds |= bit_of(ends.kind);
    }
    return table;
}

template <unsigned Bytes>
std::vector<typename prefixes::Rib<Bytes>::Route> routes_of(const std::vector<TunnelOptions>& tunnels) {
    std::vector<typename prefixes::Rib<Bytes>::Route> routes;
    for (size_t number = 0; number < tunnels.size(); ++number)
        for (const Prefix& prefix : tunnels[number].to) {
            if (prefix.ipv6 != (Bytes == 16)) continue;
            auto& route = routes.emplace_back();
            std::copy_n(prefix.bytes.begin(), Bytes, route.address.begin());
            route.length = prefix.length;
            route.value = static_cast<uint16_t>(number + 1);
        }
    return routes;
}

class TunnelHost : public NetworkFunction, public WantsWholePackets, public NamesPorts {
public:
    TunnelHost(const Config& options, const Environment& environment)
        : options_(read_options(options, environment.ports)) {
        TunnelTables& own = image_.start<TunnelTables>();
        own.mtu = options_.mtu;
        own.dont_fragment = options_.dont_fragment;
        own.mtu_spares_fragmentable = options_.mtu_spares_fragmentable ? 1 : 0;
        own.clamps_mss = options_.clamp_mss ? 1 : 0;
        own.copies_dscp = options_.copy_dscp ? 1 : 0;
        std::vector<Tunnel> tunnels;
        std::vector<uint32_t> by_port;
        for (const TunnelOptions& one : options_.tunnels) {
            if (one.tunnel.port != kNoPort) {
                by_port.resize(std::max<size_t>(by_port.size(), one.tunnel.port + 1u), kNoTunnel);
                by_port[one.tunnel.port] = static_cast<uint32_t>(tunnels.size());
            }
            tunnels.push_back(one.tunnel);
            growth_ = std::max(growth_, front_of(one.tunnel));
        }
        image_.attach(own.by_ends, ends_table(options_.tunnels));
        image_.attach(own.locals, locals_table(options_.tunnels));
        image_.attach(own.tunnels, std::move(tunnels));
        image_.attach_some(own.by_port, std::move(by_port));
        attach_prefixes<4, prefixes::Ipv4Lpm>(own.prefixes.ipv4_linear, own.prefixes.ipv4_root,
                                              own.prefixes.ipv4_groups);
        attach_prefixes<16, prefixes::Ipv6Lpm>(own.prefixes.ipv6_linear, own.prefixes.ipv6_root,
                                               own.prefixes.ipv6_groups);
    }

    const Image& image() const override { return image_; }
    bool names_ports() const override {
        return std::ranges::any_of(options_.tunnels, [](const auto& one) { return one.tunnel.port != kNoPort; });
    }
    Growth growth(const Growth&) const override { return {.head = growth_}; }
    std::string explain(const Decision& decision) const override {
        return decision.detail < options_.tunnels.size() ? options_.tunnels[decision.detail].name : "";
    }
    std::string summary() const override {
        return fmt::format("{} tunnel{}, {} prefix{}, {} KiB", options_.tunnels.size(),
                           options_.tunnels.size() == 1 ? "" : "s", prefixes_, prefixes_ == 1 ? "" : "es",
                           (image_.array_bytes() + 1023) / 1024);
    }

private:
    static uint32_t front_of(const Tunnel& tunnel) {
        const bool is_frame = tunnel.port != kNoPort;
        return (tunnel.ends.ipv6 != 0 ? ip::kIpv6Bytes : ip::kIpv4Bytes) +
               head_bytes_of(tunnel.ends.kind, tunnel.ends.has_id != 0, is_frame) + (is_frame ? eth::kHeaderBytes : 0);
    }
    template <unsigned Bytes, class Lpm, class Linear, class Entries>
    void attach_prefixes(View<Linear>& linear, Entries& root, Entries& groups) {
        const auto routes = routes_of<Bytes>(options_.tunnels);
        prefixes_ += routes.size();
        if (routes.size() <= kFewPrefixes) {
            prefixes::Rib<Bytes> rib;
            for (const auto& route : routes) rib.set(route.address, route.length, route.value);
            return image_.attach_some(linear, prefixes::linear_routes(rib));
        }
        const auto lpm = std::make_shared<Lpm>();
        lpm->load(routes);
        const auto attach = [&](auto& view, const auto& array) {
            using Array = std::remove_reference_t<decltype(array)>;
            if (!array.empty()) image_.attach(view, std::shared_ptr<Array>(lpm, &array));
        };
        attach(root, lpm->root());
        attach(groups, lpm->groups());
    }

    const Options options_;
    Image image_;
    uint32_t growth_ = 0;
    size_t prefixes_ = 0;
};

const Register<TunnelEnd, TunnelHost> registration{{
    .name = "tunnel",
    .summary = "ends tunnels: IP in IP, GRE, VXLAN, GENEVE and GTP-U",
    // In the order of TunnelEnd::Outcome.
    .outcomes = {{"wrapped", Disposition::next, "it was put into a tunnel"},
                 {"unwrapped", Disposition::next, "it was taken out of its tunnel"},
                 {"joined", Disposition::next,
                  "a frame was taken out of its tunnel, for the port that it is joined to"},
                 {"other", Disposition::next, "it goes into no tunnel, and comes out of none"},
                 {"no-tunnel", Disposition::drop, "of a tunnel that is not known here, by its other end or number"},
                 {"fragment", Disposition::drop,
                  "a fragment of what a tunnel may carry: reassemble before this function"},
                 {"malformed-tunnel", Disposition::drop, "the tunnel's header or what it carries can't be read"},
                 {"bad-checksum", Disposition::drop, "the checksum of an outer header is wrong"},
                 {"not-carried", Disposition::drop, "frames in a tunnel for IP packets, or the other way round"},
                 {"bad-ecn", Disposition::drop, "congestion experienced outside, not ECN-capable inside (RFC 6040)"},
                 {"mtu-exceeded", Disposition::drop, "would be longer than the MTU in its tunnel"},
                 {"no-room", Disposition::drop, "the packet buffer has no room for the tunnel's headers"}},
    .device_header = "millrace/nf/tunnel/device.hpp",
    .device_struct = "millrace::nf::tunnel::TunnelEnd",
    .head_growth = kHeadGrowth,
    .shareable = true,
}};

}  // namespace
}  // namespace millrace::nf::tunnel
