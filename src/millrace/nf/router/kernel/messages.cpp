#include "millrace/nf/router/kernel/messages.hpp"

#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "millrace/base/netlink.hpp"

namespace millrace::nf::router {
namespace {

using netlink::behind;
using netlink::Bytes;
using netlink::for_each_attribute;
using netlink::read;
using netlink::request;

bool read_u32(Bytes value, uint32_t& to) {
    const auto number = read<uint32_t>(value);
    if (number) to = *number;
    return number.has_value();
}

bool read_address(Bytes value, bool ipv6, IpAddress& to) {
    if (value.size() != (ipv6 ? 16u : 4u)) return false;
    to = {{}, ipv6};
    std::copy(value.begin(), value.end(), to.bytes.begin());
    return true;
}

/// Addresses of other lengths are those of other links.
void read_mac(Bytes value, bool& has_mac, std::array<uint8_t, 6>& mac) {
    has_mac = value.size() == mac.size();
    if (has_mac) std::copy(value.begin(), value.end(), mac.begin());
}

/// RTA_VIA: a gateway of whichever family.
bool read_via(Bytes value, RouteHop& hop) {
    const auto family = read<uint16_t>(value);
    if (!family || (*family != AF_INET && *family != AF_INET6)) return false;
    hop.has_gateway = true;
    return read_address(value.subspan(sizeof *family), *family == AF_INET6, hop.gateway);
}

bool read_gateway(Bytes value, bool ipv6, RouteHop& hop) {
    hop.has_gateway = true;
    return read_address(value, ipv6, hop.gateway);
}

/// NHA_GROUP: entries of an id, a weight less one (its high byte behind the low one, since Linux 6.13), two bytes more.
bool read_group(Bytes value, std::vector<NexthopMessage::Member>& group) {
    if (value.empty() || value.size() % sizeof(nexthop_grp) != 0) return false;
    for (; !value.empty(); value = value.subspan(sizeof(nexthop_grp))) {
        const uint32_t id = *read<uint32_t>(value);
        if (id == 0) return false;
        group.push_back({id, 1u + value[4] + (uint32_t{value[5]} << 8)});
    }
    return true;
}

bool is_encapsulation(Bytes value) {
    const auto type = read<uint16_t>(value);
    return type && *type != 0;
}

void mask(Prefix& prefix) {
    for (size_t i = 0; i < prefix.bytes.size(); ++i) {
        const size_t bits = prefix.length > 8 * i ? prefix.length - 8 * i : 0;
        if (bits < 8) prefix.bytes[i] = static_cast<uint8_t>(prefix.bytes[i] & ~(0xffu >> bits));
    }
}

RouteMessage::Place place_of(uint16_t flags) {
    if ((flags & NLM_F_REPLACE) != 0) return RouteMessage::Place::replace;
    // Dumps tell routes in their order.
    const bool is_last = (flags & (NLM_F_APPEND | NLM_F_MULTI)) != 0;
    return is_last ? RouteMessage::Place::back : RouteMessage::Place::front;
}

}  // namespace

std::string IpAddress::text() const {
    const std::string prefix = host().text();
    return prefix.substr(0, prefix.find('/'));
}

void MessageParser::parse(Bytes bytes) {
    const bool whole = netlink::for_each_message(bytes, [&](const nlmsghdr& head, Bytes body) {
        inconsistent_ |= (head.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
        if (!parse_one(head.nlmsg_type, head.nlmsg_flags, head.nlmsg_seq, body)) listener_.on_malformed();
    });
    if (!whole) listener_.on_malformed();
}

/// False when the message is malformed.
bool MessageParser::parse_one(uint16_t type, uint16_t flags, uint32_t sequence, Bytes body) {
    switch (type) {
        case RTM_NEWROUTE:
        case RTM_DELROUTE: return parse_route(type == RTM_DELROUTE, flags, body);
        case RTM_NEWNEIGH:
        case RTM_DELNEIGH: return parse_neighbour(type == RTM_DELNEIGH, body);
        case RTM_NEWLINK:
        case RTM_DELLINK: return parse_link(type == RTM_DELLINK, body);
        case RTM_NEWNEXTHOP:
        case RTM_DELNEXTHOP: return parse_nexthop(type == RTM_DELNEXTHOP, body);
        case RTM_DELADDR: listener_.on_hidden_change(); return true;
        case NLMSG_DONE:
        case NLMSG_ERROR: {
            const auto error = netlink::answered(type, body);
            if (!error) return false;
            listener_.on_answered(sequence, *error, std::exchange(inconsistent_, false));
            return true;
        }
        default: return true;
    }
}

bool MessageParser::parse_route(bool gone, uint16_t flags, Bytes body) {
    const auto head = read<rtmsg>(body);
    if (!head) return false;
    if (head->rtm_family != AF_INET && head->rtm_family != AF_INET6) return true;
    if ((head->rtm_flags & RTM_F_CLONED) != 0) return true;  // learned for one destination
    const bool ipv6 = head->rtm_family == AF_INET6;
    if (head->rtm_dst_len > (ipv6 ? 128 : 32)) return false;
    std::vector<RouteHop> memory = std::move(route_.hops);
    memory.clear();
    route_ = {};
    route_.hops = std::move(memory);
    route_.gone = gone;
    route_.place = place_of(flags);
    route_.prefix.length = head->rtm_dst_len;
    route_.prefix.ipv6 = ipv6;
    route_.table = head->rtm_table;
    route_.type = head->rtm_type;
    route_.protocol = head->rtm_protocol;
    route_.scope = head->rtm_scope;
    route_.tos = head->rtm_tos;
    RouteHop only;
    bool has_destination = false, has_list = false;
    IpAddress destination;
    const bool good = for_each_attribute(behind(body, sizeof(rtmsg)), [&](unsigned type, Bytes value) {
        switch (type) {
            case RTA_DST: has_destination = true; return read_address(value, ipv6, destination);
            case RTA_TABLE: return read_u32(value, route_.table);
            case RTA_PRIORITY: return read_u32(value, route_.metric);
            case RTA_OIF: return read_u32(value, only.interface);
            case RTA_GATEWAY: return read_gateway(value, ipv6, only);
            case RTA_VIA: return read_via(value, only);
            case RTA_NH_ID: return read_u32(value, route_.nexthop_object);
            case RTA_ENCAP_TYPE: route_.encapsulated |= is_encapsulation(value); return true;
            case RTA_MULTIPATH: has_list = true; return parse_hops(value, ipv6);
            default: return true;
        }
    });
    if (!good || (!has_destination && head->rtm_dst_len != 0)) return false;
    route_.prefix.bytes = destination.bytes;
    mask(route_.prefix);
    if (!has_list && (only.interface != 0 || only.has_gateway)) route_.hops.push_back(only);
    listener_.on_route(route_);
    return true;
}

bool MessageParser::parse_hops(Bytes list, bool ipv6) {
    while (!list.empty()) {
        const auto head = read<rtnexthop>(list);
        if (!head || head->rtnh_len < sizeof(rtnexthop) || head->rtnh_len > list.size() || head->rtnh_ifindex < 0)
            return false;
        RouteHop hop;
        hop.interface = static_cast<uint32_t>(head->rtnh_ifindex);
        hop.weight = head->rtnh_hops + 1u;
        const Bytes attributes = list.first(head->rtnh_len).subspan(sizeof(rtnexthop));
        const bool good = for_each_attribute(attributes, [&](unsigned type, Bytes value) {
            switch (type) {
                case RTA_GATEWAY: return read_gateway(value, ipv6, hop);
                case RTA_VIA: return read_via(value, hop);
                case RTA_ENCAP_TYPE: route_.encapsulated |= is_encapsulation(value); return true;
                default: return true;
            }
        });
        if (!good) return false;
        route_.hops.push_back(hop);
        list = behind(list, head->rtnh_len);
    }
    return true;
}

bool MessageParser::parse_nexthop(bool gone, Bytes body) {
    const auto head = read<nhmsg>(body);
    if (!head) return false;
    NexthopMessage nexthop;
    nexthop.gone = gone;
    bool is_group = false, of_bridge = false;
    const bool good = for_each_attribute(behind(body, sizeof(nhmsg)), [&](unsigned type, Bytes value) {
        switch (type) {
            case NHA_ID: return read_u32(value, nexthop.id);
            case NHA_GROUP: return !std::exchange(is_group, true) && read_group(value, nexthop.group);
            case NHA_BLACKHOLE: nexthop.blackhole = true; return true;
            case NHA_OIF: return read_u32(value, nexthop.hop.interface);
            case NHA_GATEWAY: return read_gateway(value, head->nh_family == AF_INET6, nexthop.hop);
            case NHA_ENCAP_TYPE: nexthop.encapsulated |= is_encapsulation(value); return true;
            case NHA_FDB: of_bridge = true; return true;
            default: return true;
        }
    });
    if (!good || nexthop.id == 0) return false;
    if (!of_bridge) listener_.on_nexthop(nexthop);
    return true;
}

bool MessageParser::parse_neighbour(bool gone, Bytes body) {
    const auto head = read<ndmsg>(body);
    if (!head) return false;
    // Forwarding entries of bridges come here, too.
    if ((head->ndm_family != AF_INET && head->ndm_family != AF_INET6) || (head->ndm_flags & NTF_PROXY) != 0)
        return true;
    if (head->ndm_ifindex <= 0) return false;
    NeighbourMessage neighbour;
    neighbour.gone = gone;
    neighbour.interface = static_cast<uint32_t>(head->ndm_ifindex);
    neighbour.state = head->ndm_state;
    bool has_address = false;
    const bool good = for_each_attribute(behind(body, sizeof(ndmsg)), [&](unsigned type, Bytes value) {
        if (type == NDA_LLADDR) read_mac(value, neighbour.has_mac, neighbour.mac);
        if (type != NDA_DST) return true;
        has_address = true;
        return read_address(value, head->ndm_family == AF_INET6, neighbour.address);
    });
    if (!good || !has_address) return false;
    listener_.on_neighbour(neighbour);
    return true;
}

bool MessageParser::parse_link(bool gone, Bytes body) {
    const auto head = read<ifinfomsg>(body);
    if (!head) return false;
    if (head->ifi_family != AF_UNSPEC) return true;  // an interface that leaves a bridge has not gone
    if (head->ifi_index <= 0) return false;
    LinkMessage link;
    link.gone = gone;
    link.index = static_cast<uint32_t>(head->ifi_index);
    link.up = (head->ifi_flags & IFF_UP) != 0;
    link.carrier = (head->ifi_flags & IFF_RUNNING) != 0;
    link.lower_up = (head->ifi_flags & IFF_LOWER_UP) != 0;
    const bool good = for_each_attribute(behind(body, sizeof(ifinfomsg)), [&](unsigned type, Bytes value) {
        if (type == IFLA_MTU) return read_u32(value, link.mtu);
        if (type == IFLA_ADDRESS) read_mac(value, link.has_mac, link.mac);
        if (type == IFLA_IFNAME) link.name.assign(value.begin(), std::find(value.begin(), value.end(), 0));
        return true;
    });
    if (!good || link.name.empty()) return false;
    listener_.on_link(link);
    return true;
}

std::vector<uint8_t> dump_request(uint16_t type, uint8_t family, uint32_t sequence) {
    if (type == RTM_GETLINK) {
        ifinfomsg body{};
        body.ifi_family = family;
        return request(type, NLM_F_DUMP, sequence, body, {});
    }
    if (type == RTM_GETNEIGH) {
        ndmsg body{};
        body.ndm_family = family;
        return request(type, NLM_F_DUMP, sequence, body, {});
    }
    if (type == RTM_GETNEXTHOP) {
        nhmsg body{};
        body.nh_family = family;
        return request(type, NLM_F_DUMP, sequence, body, {});
    }
    rtmsg body{};
    body.rtm_family = family;
    return request(type, NLM_F_DUMP, sequence, body, {});
}

std::vector<uint8_t> use_neighbour_request(uint32_t interface, const IpAddress& address, uint32_t sequence) {
    ndmsg body{};
    body.ndm_family = address.ipv6 ? AF_INET6 : AF_INET;
    body.ndm_ifindex = static_cast<int>(interface);
    body.ndm_state = NUD_NONE;
    body.ndm_flags = NTF_USE;
    rtattr attribute{};
    const size_t length = address.ipv6 ? 16 : 4;
    attribute.rta_len = static_cast<uint16_t>(sizeof attribute + length);
    attribute.rta_type = NDA_DST;
    std::vector<uint8_t> destination(attribute.rta_len);
    std::memcpy(destination.data(), &attribute, sizeof attribute);
    std::copy_n(address.bytes.begin(), length, destination.begin() + sizeof attribute);
    return request(RTM_NEWNEIGH, NLM_F_CREATE, sequence, body, destination);
}

}  // namespace millrace::nf::router
