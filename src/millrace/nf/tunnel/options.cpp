#include "millrace/nf/tunnel/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

namespace millrace::nf::tunnel {
namespace {

void set_address(uint32_t* words, const Prefix& address) {
    std::memcpy(words, address.bytes.data(), address.ipv6 ? 16 : 4);
}

/// An address of one host.
Prefix read_address(const Config& value) {
    const Prefix address = value.prefix();
    if (!address.is_host()) value.fail("'" + value.text() + "' is not a single address", "write it without a length");
    const uint8_t first = address.bytes[0];
    if (address.ipv6 ? first == 0xff : first >= 224)
        value.fail("'" + value.text() + "' is the address of a group", "a tunnel has one host at either end");
    return address;
}

class Reader {
public:
    Reader(const Config& config, const std::vector<std::string>& ports) : config_(config), ports_(ports) {
        config_.only({"local", "mtu", "ttl", "copy-dscp", "clamp-mss", "dont-fragment", "mtu-applies", "tunnels"});
    }

    Options read() {
        if (const auto local = config_.find("local")) read_locals(*local);
        made_.mtu = static_cast<uint32_t>(config_.integer_or("mtu", 1500, 68, 65535));
        made_.copy_dscp = config_.boolean_or("copy-dscp", true);
        made_.clamp_mss = config_.boolean_or("clamp-mss", true);
        if (const auto value = config_.find("dont-fragment"))
            made_.dont_fragment = static_cast<DontFragment>(value->choice({"set", "copy", "clear"}));
        if (const auto value = config_.find("mtu-applies"))
            made_.mtu_spares_fragmentable = value->choice({"always", "dont-fragment"}) == 1;
        ttl_ = static_cast<uint8_t>(config_.integer_or("ttl", 64, 1, 255));
        const Config tunnels = config_.at("tunnels");
        if (!tunnels.is_map()) tunnels.fail("'tunnels' is not a map", "write 'name: {kind: gre, remote: …, to: …}'");
        for (const auto& [name, value] : tunnels.entries()) {
            if (made_.tunnels.size() == kMaxTunnels)
                name.fail(fmt::format("there are more than {} tunnels", kMaxTunnels), "use several functions");
            read_tunnel(name, value);
        }
        if (made_.tunnels.empty()) tunnels.fail("there is no tunnel");
        return std::move(made_);
    }

private:
    void read_locals(const Config& local) {
        for (const Config& one : local.items()) {
            const Prefix address = read_address(one);
            std::optional<Prefix>& place = locals_[address.ipv6 ? 1 : 0];
            if (place)
                one.fail("there are two local addresses of one family",
                         "give the other one to its tunnels, as 'local'");
            place = address;
        }
    }

    void read_tunnel(const Config& name, const Config& value) {
        value.only({"kind", "local", "remote", "key", "vni", "teid-in", "teid-out", "to", "port", "macs", "ttl"});
        TunnelOptions made;
        made.name = name.text();
        Ends& ends = made.tunnel.ends;
        ends.kind = static_cast<Kind>(value.at("kind").choice({std::begin(kKindNames), std::end(kKindNames)}));
        made.tunnel.ttl = static_cast<uint8_t>(value.integer_or("ttl", ttl_, 1, 255));
        read_ends(value, ends);
        read_id(value, made.tunnel);
        if (const auto [known, is_new] = by_ends_.emplace(text_of(ends), made.name); !is_new)
            value.fail("'" + known->second + "' has the same kind, ends and number",
                       ends.kind == Kind::ipip ? "there is one IP-in-IP tunnel between two addresses"
                                               : "give it another number");
        read_content(value, made);
        made_.tunnels.push_back(std::move(made));
    }

    void read_ends(const Config& value, Ends& ends) {
        const Config at = value.at("remote");
        const Prefix remote = read_address(at);
        ends.ipv6 = remote.ipv6;
        const auto own = value.find("local");
        const std::optional<Prefix> local = own ? read_address(*own) : locals_[remote.ipv6 ? 1 : 0];
        const char* const family = remote.ipv6 ? "IPv6" : "IPv4";
        if (!local)
            at.fail(fmt::format("there is no local address of {}, as its other end has", family),
                    "add 'local' here or beside 'tunnels'");
        if (local->ipv6 != remote.ipv6)
            own->fail(fmt::format("the other end has an address of {}", family), "both ends are of one family");
        if (*local == remote) at.fail("both ends of the tunnel are " + remote.text());
        set_address(ends.local, *local);
        set_address(ends.remote, remote);
    }

    void read_id(const Config& value, Tunnel& tunnel) {
        const auto goes_with = [&](const char* name, std::initializer_list<Kind> kinds, const char* text) {
            if (const auto given = value.find(name); given && std::ranges::count(kinds, tunnel.ends.kind) == 0)
                given->fail(fmt::format("'{}' goes with {}", name, text), "leave it out");
        };
        goes_with("key", {Kind::gre}, "gre");
        goes_with("vni", {Kind::vxlan, Kind::geneve}, "vxlan and geneve");
        goes_with("teid-in", {Kind::gtp_u}, "gtp-u");
        goes_with("teid-out", {Kind::gtp_u}, "gtp-u");
        Ends& ends = tunnel.ends;
        constexpr int64_t kMaxWord = 0xffffffff, kMaxVni = 0xffffff;
        switch (ends.kind) {
            case Kind::ipip: break;
            case Kind::gre:
                if (const auto key = value.find("key")) {
                    ends.id = tunnel.id_out = static_cast<uint32_t>(key->integer(0, kMaxWord));
                    ends.has_id = 1;
                }
                break;
            case Kind::vxlan:
            case Kind::geneve:
                ends.id = tunnel.id_out = static_cast<uint32_t>(value.at("vni").integer(0, kMaxVni));
                ends.has_id = 1;
                break;
            case Kind::gtp_u:
                ends.id = static_cast<uint32_t>(value.at("teid-in").integer(1, kMaxWord));
                tunnel.id_out = static_cast<uint32_t>(value.at("teid-out").integer(1, kMaxWord));
                ends.has_id = 1;
                break;
        }
    }

    void read_content(const Config& value, TunnelOptions& made) {
        Tunnel& tunnel = made.tunnel;
        tunnel.port = kNoPort;
        const auto port = value.find("port"), to = value.find("to"), macs = value.find("macs");
        if (port && to) port->fail("a tunnel carries the frames of a port, or IP packets to prefixes", "leave one out");
        if (!port && !to)
            value.fail("nothing goes into this tunnel",
                       "add 'to' with prefixes, or 'port'; 'to: []' if packets only arrive");
        if (port) {
            if (tunnel.ends.kind == Kind::ipip || tunnel.ends.kind == Kind::gtp_u)
                port->fail(fmt::format("{} carries IP packets, and no frames",
                                       kKindNames[static_cast<size_t>(tunnel.ends.kind)]),
                           "take vxlan, geneve or gre");
            tunnel.port = static_cast<uint16_t>(port->choice(ports_));
            if (const auto [known, is_new] = by_port_.emplace(tunnel.port, made.name); !is_new)
                port->fail("'" + known->second + "' carries the frames of this port already");
        }
        read_macs(value, macs, tunnel);
        if (!to) return;
        for (const Config& one : to->items()) {
            const Prefix prefix = one.prefix();
            if (const auto [known, is_new] = by_prefix_.emplace(prefix.text(), made.name); !is_new)
                one.fail("packets to " + prefix.text() + " go into '" + known->second + "' already");
            if (by_prefix_.size() > kMaxPrefixes)
                one.fail(fmt::format("there are more than {} prefixes", kMaxPrefixes));
            made.to.push_back(prefix);
        }
    }

    void read_macs(const Config& value, const std::optional<Config>& macs, Tunnel& tunnel) {
        const Kind kind = tunnel.ends.kind;
        const bool needs = (kind == Kind::vxlan || kind == Kind::geneve) && tunnel.port == kNoPort;
        if (macs && !needs)
            macs->fail("'macs' is the Ethernet header inside vxlan and geneve, before IP packets that have none",
                       "leave it out");
        if (!needs) return;
        if (!macs)
            value.fail(fmt::format("IP packets in {} have an Ethernet header before them",
                                   kKindNames[static_cast<size_t>(kind)]),
                       "add 'macs: {dst: …, src: …}': of the other end's interface, and of this one");
        macs->only({"dst", "src"});
        const auto dst = macs->at("dst").mac(), src = macs->at("src").mac();
        std::copy(dst.begin(), dst.end(), tunnel.macs);
        std::copy(src.begin(), src.end(), tunnel.macs + 6);
    }

    static std::string text_of(const Ends& ends) { return {reinterpret_cast<const char*>(&ends), sizeof ends}; }

    const Config& config_;
    const std::vector<std::string>& ports_;
    std::optional<Prefix> locals_[2];  // IPv4, IPv6
    uint8_t ttl_ = 64;
    std::map<std::string, std::string> by_ends_, by_prefix_;
    std::map<uint16_t, std::string> by_port_;
    Options made_;
};

}  // namespace

Options read_options(const Config& options, const std::vector<std::string>& ports) {
    return Reader(options, ports).read();
}

}  // namespace millrace::nf::tunnel
