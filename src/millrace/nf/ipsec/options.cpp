#include "millrace/nf/ipsec/options.hpp"

#include <algorithm>

#include "millrace/nf/classify/rules/five_tuple.hpp"
#include "millrace/nf/ipsec/reachable.hpp"
#include "millrace/nf/ipsec/sa/sa_options.hpp"

namespace millrace::nf::ipsec {
namespace {

constexpr size_t kMaxSelectors = 4096;

Address mask_of(const Prefix& prefix) {
    Prefix mask;
    for (unsigned bit = 0; bit < prefix.length; ++bit)
        mask.bytes[bit / 8] = static_cast<uint8_t>(mask.bytes[bit / 8] | 0x80 >> (bit % 8));
    return address_of(mask);
}

/// The prefixes of one family; the whole family where none of any kind is given.
std::vector<Prefix> of_family(const std::vector<Prefix>& prefixes, bool ipv6) {
    if (prefixes.empty()) return {Prefix{.ipv6 = ipv6}};
    std::vector<Prefix> result;
    for (const Prefix& prefix : prefixes)
        if (prefix.ipv6 == ipv6) result.push_back(prefix);
    return result;
}

/// The SA that a policy names.
uint32_t outbound_sa(const Config& wanted, const std::vector<SaOptions>& sas, const KnownSas& known) {
    if (const auto found = known.by_name().find(wanted.text()); found != known.by_name().end()) {
        if (sas[found->second].inbound)
            wanted.fail("SA '" + wanted.text() + "' is an inbound one",
                        "a policy protects with an SA of 'direction: out'");
        return found->second;
    }
    std::vector<std::string> outbound;
    for (const SaOptions& sa : sas)
        if (!sa.inbound) outbound.push_back(sa.name);
    const std::string near = closest_word(wanted.text(), outbound);
    wanted.fail("there is no SA '" + wanted.text() + "'",
                near.empty() ? "name one of 'sas'" : "did you mean '" + near + "'?");
}

/// Transport mode is for what goes between the SA's own ends.
void check_transport(const PolicyOptions& policy, const std::vector<SaOptions>& sas, const Config& map) {
    const auto is_host = [](const Address& prefix, const Address& mask, const Address& host) {
        for (unsigned i = 0; i < 4; ++i)
            if ((mask.words[i] & host.words[i]) != host.words[i] || prefix.words[i] != host.words[i]) return false;
        return true;
    };
    for (const uint32_t index : policy.sas) {
        const Sa& sa = sas[index].sa;
        if (!sa.transport) continue;
        for (const Selector& selector : policy.selectors)
            if (selector.ipv6 != sa.ipv6 || !is_host(selector.src, selector.src_mask, sa.local) ||
                !is_host(selector.dst, selector.dst_mask, sa.remote))
                map.fail("SA '" + sas[index].name +
                             "' is of transport mode: it protects only what goes from its 'local' "
                             "to its 'remote'",
                         "name these as 'src' and 'dst', or set 'mode: tunnel'");
    }
}

PolicyOptions read_policy(const Config& map, const std::vector<SaOptions>& sas, const KnownSas& known) {
    std::vector<std::string> keys = classify::FiveTupleMatch::keys();
    keys.insert(keys.end(), {"action", "sa"});
    map.only(keys);
    PolicyOptions policy;
    policy.where = map.where();
    policy.selectors = read_selectors(map);
    policy.action = static_cast<Action>(map.at("action").choice({"protect", "bypass", "discard"}));
    const auto name = map.find("sa");
    if (policy.action != Action::protect) {
        if (name) name->fail("only 'protect' goes with an SA", "take 'sa' out, or make it 'action: protect'");
        return policy;
    }
    const Config wanted = map.at("sa");
    for (const Config& item : wanted.is_scalar() ? std::vector<Config>{wanted} : wanted.items())
        policy.sas.push_back(outbound_sa(item, sas, known));
    if (policy.sas.empty()) wanted.fail("an SA is missing here", "name one of 'sas', or several");
    return policy;
}

}  // namespace

Address address_of(const Prefix& prefix) {
    return {{load_raw<uint32_t>(prefix.bytes.data()), load_raw<uint32_t>(prefix.bytes.data() + 4),
             load_raw<uint32_t>(prefix.bytes.data() + 8), load_raw<uint32_t>(prefix.bytes.data() + 12)}};
}

std::vector<Selector> read_selectors(const Config& map) {
    const classify::FiveTupleMatch match = classify::FiveTupleMatch::parse(map);
    const auto ports_or_any = [](std::vector<classify::PortRange> ports) {
        if (ports.empty()) ports.emplace_back();
        return ports;
    };
    const auto src_ports = ports_or_any(match.src_ports), dst_ports = ports_or_any(match.dst_ports);
    std::vector<classify::ByteMatch> protocols = match.protocols;
    if (protocols.empty()) protocols.emplace_back();
    std::vector<Selector> selectors;
    for (const bool ipv6 : {false, true})
        for (const Prefix& src : of_family(match.src, ipv6))
            for (const Prefix& dst : of_family(match.dst, ipv6))
                for (const auto& protocol : protocols)
                    for (const auto& from : src_ports)
                        for (const auto& to : dst_ports) {
                            selectors.push_back({address_of(src), mask_of(src), address_of(dst), mask_of(dst), from.low,
                                                 from.high, to.low, to.high, protocol.value, protocol.any(),
                                                 from.any() && to.any(), ipv6});
                            if (selectors.size() > kMaxSelectors)
                                map.fail(
                                    "these lists make more than " + std::to_string(kMaxSelectors) + " combinations",
                                    "use wider prefixes");
                        }
    if (selectors.empty()) map.fail("'src' and 'dst' are not of the same IP version, so that no packet matches");
    return selectors;
}

Selector reversed(const Selector& selector) {
    Selector other = selector;
    std::swap(other.src, other.dst);
    std::swap(other.src_mask, other.dst_mask);
    std::swap(other.src_port_first, other.dst_port_first);
    std::swap(other.src_port_last, other.dst_port_last);
    return other;
}

/// The addresses that ICMP errors come from: of each IP version one.
void read_icmp_from(Options& result, const Config& from) {
    for (const Config& item : from.is_scalar() ? std::vector<Config>{from} : from.items()) {
        const Prefix host = item.prefix();
        std::optional<Address>& to = host.ipv6 ? result.icmp_ipv6 : result.icmp_ipv4;
        if (!host.is_host()) item.fail("'" + item.text() + "' is not a single address", "name one of this gateway's");
        if (to) item.fail("a second address of the same IP version", "name one of IPv4, one of IPv6, or both");
        to = address_of(host);
    }
    if (result.mtu == 0) from.fail("without 'mtu' no packet is too long", "set 'mtu', or take 'icmp-from' out");
}

Options read_options(const Config& options, const Environment& environment) {
    options.only({"sas", "policies", "keys", "mtu", "mtu-applies", "default", "sa-slots", "udp-port", "sequence-file",
                  "kernel", "icmp-from"});
    Options result;
    result.mtu = static_cast<uint32_t>(options.integer_or("mtu", 1500, 0, 65535));
    if (result.mtu != 0 && result.mtu < 68)
        options.at("mtu").fail("an MTU below 68 bytes carries no IP", "0 switches the check off");
    if (const auto applies = options.find("mtu-applies"))
        result.mtu_spares_fragmentable = applies->choice({"always", "dont-fragment"}) == 1;
    if (const auto action = options.find("default"))
        result.default_action = action->choice({"bypass", "discard"}) == 0 ? Action::bypass : Action::discard;
    if (const auto from = options.find("icmp-from")) read_icmp_from(result, *from);
    result.slots = static_cast<size_t>(options.integer_or("sa-slots", 4096, 1, kMaxSlots));
    result.udp_port = static_cast<uint16_t>(options.integer_or("udp-port", 4500, 1, 65535));
    if (const auto file = options.find("sequence-file")) {
        result.sequence_file = file->path();
        result.sequence_file_at = file->where();
    }
    result.kernel = options.boolean_or("kernel", false);
    if (result.kernel && result.sequence_file.empty())
        options.at("kernel").fail(
            "the kernel keeps SAs while this program is restarted: their sequence numbers must "
            "not begin anew",
            "add 'sequence-file: FILE'");
    KnownSas known;
    read_sas(result, known, options, environment);
    if (const auto policies = options.find("policies"))
        for (ReachablePolicies reachable; const Config& map : policies->items()) {
            result.policies.push_back(read_policy(map, result.sas, known));
            if (const auto hidden_by = reachable.add(result.policies.back().selectors))
                map.fail("no packet gets to this policy: the one of line " +
                             std::to_string(result.policies[*hidden_by].where.line) + " takes them all",
                         "the first policy that matches counts; put the narrower one first");
            check_transport(result.policies.back(), result.sas, map);
        }
    return result;
}

}  // namespace millrace::nf::ipsec
