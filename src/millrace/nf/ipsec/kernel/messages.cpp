#include "millrace/nf/ipsec/kernel/messages.hpp"

#include <linux/in.h>
#include <linux/xfrm.h>
#include <sys/socket.h>

namespace millrace::nf::ipsec {
namespace {

using netlink::behind;
using netlink::Bytes;
using netlink::read;

/// A policy has at most so many templates (the kernel's XFRM_MAX_DEPTH).
constexpr size_t kMaxTemplates = 6;

// Without the arrays that they end with in the kernel's headers.
struct AlgorithmHead {
    char name[64];
    uint32_t key_bits;
};
static_assert(sizeof(AlgorithmHead) == sizeof(xfrm_algo));
struct ReplayHead {
    uint32_t bitmap_words, oseq, seq, oseq_high, seq_high, window;
};
static_assert(sizeof(ReplayHead) == sizeof(xfrm_replay_state_esn));

bool is_family(uint16_t family) { return family == AF_INET || family == AF_INET6; }

Address address_from(const xfrm_address_t& from, bool ipv6) {
    Address address;
    std::memcpy(address.words, &from, ipv6 ? 16 : 4);
    return address;
}

Address mask_of(unsigned bits) {
    uint8_t bytes[16] = {};
    for (unsigned bit = 0; bit < bits; ++bit) bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] | 0x80 >> bit % 8);
    Address mask;
    std::memcpy(mask.words, bytes, sizeof bytes);
    return mask;
}

/// A range of ports out of a port and its mask, in network order; false when they are no range.
bool read_ports(uint16_t port, uint16_t mask, uint16_t& first, uint16_t& last) {
    const uint16_t ones = swap16(mask), rest = static_cast<uint16_t>(~ones);
    if ((rest & (rest + 1)) != 0) return false;
    first = static_cast<uint16_t>(swap16(port) & ones);
    last = static_cast<uint16_t>(first | rest);
    return true;
}

/// False when it is malformed. `odd`: it says what a Selector can't.
bool read_selector(const xfrm_selector& from, Selector& to, bool& odd) {
    if (!is_family(from.family)) return false;
    const bool ipv6 = from.family == AF_INET6;
    const unsigned longest = ipv6 ? 128 : 32;
    if (from.prefixlen_s > longest || from.prefixlen_d > longest) return false;
    to = {};
    to.ipv6 = ipv6;
    to.src = address_from(from.saddr, ipv6);
    to.dst = address_from(from.daddr, ipv6);
    to.src_mask = mask_of(from.prefixlen_s);
    to.dst_mask = mask_of(from.prefixlen_d);
    for (unsigned i = 0; i < 4; ++i) {
        to.src.words[i] &= to.src_mask.words[i];
        to.dst.words[i] &= to.dst_mask.words[i];
    }
    to.protocol = from.proto;
    to.any_protocol = from.proto == 0;
    odd = !read_ports(from.sport, from.sport_mask, to.src_port_first, to.src_port_last) ||
          !read_ports(from.dport, from.dport_mask, to.dst_port_first, to.dst_port_last) || from.ifindex != 0;
    to.any_port = from.sport_mask == 0 && from.dport_mask == 0;
    // Of ICMP these are type and code.
    odd = odd || (!to.any_port && from.proto != IPPROTO_TCP && from.proto != IPPROTO_UDP);
    return true;
}

/// xfrm_algo, xfrm_algo_auth and xfrm_algo_aead begin alike; the latter two then have a length of the ICV.
bool read_algorithm(Bytes value, bool has_icv, XfrmAlgorithm& to) {
    const auto head = read<AlgorithmHead>(value);
    const size_t head_bytes = sizeof(AlgorithmHead) + (has_icv ? 4 : 0);
    if (!head || value.size() < head_bytes) return false;
    const size_t key_bytes = (size_t{head->key_bits} + 7) / 8;
    if (key_bytes > value.size() - head_bytes || key_bytes > 512) return false;
    to.name.assign(head->name, std::find(std::begin(head->name), std::end(head->name), '\0'));
    if (has_icv) to.icv_bits = *read<uint32_t>(value.subspan(sizeof(AlgorithmHead)));
    const Bytes key = value.subspan(head_bytes, key_bytes);
    to.key = Secret(std::vector<uint8_t>(key.begin(), key.end()));
    return true;
}

bool is_mark(Bytes value) {
    const auto mark = read<xfrm_mark>(value);
    return mark && mark->m != 0;
}

/// Reads what an SA has beside its head. False when malformed.
bool read_sa_attributes(Bytes attributes, XfrmSa& sa) {
    return netlink::for_each_attribute(attributes, [&](unsigned type, Bytes value) {
        switch (type) {
            case XFRMA_ALG_CRYPT: return read_algorithm(value, false, sa.cipher);
            case XFRMA_ALG_AUTH_TRUNC: return read_algorithm(value, true, sa.auth);
            case XFRMA_ALG_AEAD: return read_algorithm(value, true, sa.aead);
            case XFRMA_ALG_AUTH:
                // Told beside the newer kind, with the ICV's usual length.
                if (!sa.auth.name.empty()) return true;
                sa.auth.icv_bits = 96;
                return read_algorithm(value, false, sa.auth);
            case XFRMA_ENCAP: {
                const auto encap = read<xfrm_encap_tmpl>(value);
                if (!encap) return false;
                sa.encap_type = encap->encap_type;
                sa.encap_local_port = swap16(encap->encap_sport);
                sa.encap_remote_port = swap16(encap->encap_dport);
                return true;
            }
            case XFRMA_REPLAY_ESN_VAL: {
                const auto replay = read<ReplayHead>(value);
                if (replay) sa.replay_window = replay->window;
                return replay.has_value();
            }
            case XFRMA_MARK: sa.marked = sa.marked || is_mark(value); return true;
            case XFRMA_IF_ID: {
                const auto id = read<uint32_t>(value);
                sa.marked = sa.marked || (id && *id != 0);
                return id.has_value();
            }
            default: return true;
        }
    });
}

bool read_sa_head(const xfrm_usersa_info& info, XfrmSa& sa) {
    if (!is_family(info.family)) return false;
    sa.id.ipv6 = info.family == AF_INET6;
    sa.id.dst = address_from(info.id.daddr, sa.id.ipv6);
    sa.id.spi = swap32(info.id.spi);
    sa.src = address_from(info.saddr, sa.id.ipv6);
    sa.mode = info.mode;
    sa.reqid = info.reqid;
    sa.flags = info.flags;
    sa.replay_window = info.replay_window;
    sa.soft.packets = info.lft.soft_packet_limit;
    sa.soft.bytes = info.lft.soft_byte_limit;
    sa.hard.packets = info.lft.hard_packet_limit;
    sa.hard.bytes = info.lft.hard_byte_limit;
    sa.use = {info.curlft.add_time, info.curlft.use_time, info.curlft.bytes, info.curlft.packets};
    return true;
}

/// False when the message is malformed. SAs of other protocols are left out.
bool parse_sa(Bytes body, XfrmListener& listener) {
    const auto info = read<xfrm_usersa_info>(body);
    if (!info) return false;
    if (info->id.proto != IPPROTO_ESP) return true;
    XfrmSa sa;
    if (!read_sa_head(*info, sa) || !read_sa_attributes(behind(body, sizeof *info), sa)) return false;
    listener.on_sa(sa);
    return true;
}

bool parse_sa_gone(const xfrm_address_t& address, uint32_t spi, uint16_t family, uint8_t protocol,
                   XfrmListener& listener) {
    if (protocol != IPPROTO_ESP) return true;
    if (!is_family(family)) return false;
    XfrmId id;
    id.ipv6 = family == AF_INET6;
    id.dst = address_from(address, id.ipv6);
    id.spi = swap32(spi);
    listener.on_sa_gone(id);
    return true;
}

bool read_templates(Bytes value, std::vector<XfrmTemplate>& to) {
    while (!value.empty()) {
        const auto from = read<xfrm_user_tmpl>(value);
        if (!from || to.size() == kMaxTemplates) return false;
        XfrmTemplate made;
        if (!is_family(from->family)) return false;
        made.ipv6 = from->family == AF_INET6;
        made.src = address_from(from->saddr, made.ipv6);
        made.dst = address_from(from->id.daddr, made.ipv6);
        made.protocol = from->id.proto;
        made.mode = from->mode;
        made.reqid = from->reqid;
        made.spi = swap32(from->id.spi);
        made.optional = from->optional != 0;
        to.push_back(made);
        value = value.subspan(sizeof *from);
    }
    return true;
}

bool parse_policy(Bytes body, XfrmListener& listener) {
    const auto info = read<xfrm_userpolicy_info>(body);
    if (!info) return false;
    if (info->dir >= XFRM_POLICY_MAX) return true;  // of one socket alone
    XfrmPolicy policy;
    if (!read_selector(info->sel, policy.selector, policy.unsupported)) return false;
    policy.direction = info->dir;
    policy.priority = info->priority;
    policy.block = info->action == XFRM_POLICY_BLOCK;
    bool main = true;
    const bool good = netlink::for_each_attribute(behind(body, sizeof *info), [&](unsigned type, Bytes value) {
        switch (type) {
            case XFRMA_TMPL: return read_templates(value, policy.templates);
            case XFRMA_MARK: policy.unsupported = policy.unsupported || is_mark(value); return true;
            case XFRMA_IF_ID: {
                const auto id = read<uint32_t>(value);
                policy.unsupported = policy.unsupported || (id && *id != 0);
                return id.has_value();
            }
            case XFRMA_POLICY_TYPE: {
                const auto kind = read<xfrm_userpolicy_type>(value);
                main = kind && kind->type == XFRM_POLICY_TYPE_MAIN;
                return kind.has_value();
            }
            default: return true;
        }
    });
    if (good && main) listener.on_policy(policy);
    return good;
}

bool parse_policy_gone(Bytes body, XfrmListener& listener) {
    const auto id = read<xfrm_userpolicy_id>(body);
    if (!id) return false;
    // Deleted by its number: the policy itself is told beside it.
    xfrm_selector selector = id->sel;
    bool found = selector.family != 0;
    const bool good = netlink::for_each_attribute(behind(body, sizeof *id), [&](unsigned type, Bytes value) {
        if (type != XFRMA_POLICY) return true;
        const auto info = read<xfrm_userpolicy_info>(value);
        if (!info) return false;
        selector = info->sel;
        found = true;
        return true;
    });
    if (!good) return false;
    if (id->dir >= XFRM_POLICY_MAX) return true;
    Selector gone;
    bool odd = false;
    if (!found) {
        listener.on_hidden_change();
        return true;
    }
    if (!read_selector(selector, gone, odd)) return false;
    listener.on_policy_gone(gone, id->dir);
    return true;
}

template <class Expire>
std::optional<Expire> hard_end(Bytes body, bool& good) {
    const auto expire = read<Expire>(body);
    good = expire.has_value();
    if (!good || expire->hard == 0) return std::nullopt;
    return expire;
}

bool parse_flush(bool policies, Bytes body, XfrmListener& listener) {
    if (policies) {
        listener.on_flush(true);
        return true;
    }
    const auto flush = read<xfrm_usersa_flush>(body);
    if (!flush) return false;
    if (flush->proto == 0 || flush->proto == 255 || flush->proto == IPPROTO_ESP) listener.on_flush(false);
    return true;
}

/// False when the message is malformed.
bool parse_one(const nlmsghdr& head, Bytes body, XfrmListener& listener) {
    bool good = true;
    switch (head.nlmsg_type) {
        case XFRM_MSG_NEWSA:
        case XFRM_MSG_UPDSA: return parse_sa(body, listener);
        case XFRM_MSG_NEWPOLICY:
        case XFRM_MSG_UPDPOLICY: return parse_policy(body, listener);
        case XFRM_MSG_DELPOLICY: return parse_policy_gone(body, listener);
        case XFRM_MSG_DELSA: {
            const auto id = read<xfrm_usersa_id>(body);
            return id && parse_sa_gone(id->daddr, id->spi, id->family, id->proto, listener);
        }
        case XFRM_MSG_EXPIRE: {
            const auto end = hard_end<xfrm_user_expire>(body, good);
            if (!end) return good;
            const xfrm_usersa_info& sa = end->state;
            return parse_sa_gone(sa.id.daddr, sa.id.spi, sa.family, sa.id.proto, listener);
        }
        case XFRM_MSG_POLEXPIRE: {
            const auto end = hard_end<xfrm_user_polexpire>(body, good);
            if (!end) return good;
            Selector selector;
            bool odd = false;
            if (end->pol.dir >= XFRM_POLICY_MAX) return true;
            if (!read_selector(end->pol.sel, selector, odd)) return false;
            listener.on_policy_gone(selector, end->pol.dir);
            return true;
        }
        case XFRM_MSG_FLUSHSA: return parse_flush(false, body, listener);
        case XFRM_MSG_FLUSHPOLICY: return parse_flush(true, body, listener);
        case XFRM_MSG_MIGRATE: listener.on_hidden_change(); return true;
        case NLMSG_DONE:
        case NLMSG_ERROR: {
            const auto error = netlink::answered(head.nlmsg_type, body);
            if (error) listener.on_answered(head.nlmsg_seq, *error);
            return error.has_value();
        }
        default: return true;
    }
}

}  // namespace

void parse_xfrm(Bytes bytes, XfrmListener& listener) {
    const bool whole = netlink::for_each_message(bytes, [&](const nlmsghdr& head, Bytes body) {
        if ((head.nlmsg_flags & NLM_F_DUMP_INTR) != 0) listener.on_hidden_change();
        if (!parse_one(head, body, listener)) listener.on_malformed();
    });
    if (!whole) listener.on_malformed();
}

std::vector<uint8_t> xfrm_end(const XfrmId& id, bool hard, uint32_t sequence) {
    xfrm_user_expire end{};
    std::memcpy(&end.state.id.daddr, id.dst.words, sizeof id.dst.words);
    end.state.id.spi = swap32(id.spi);
    end.state.id.proto = IPPROTO_ESP;
    end.state.family = id.ipv6 ? AF_INET6 : AF_INET;
    end.hard = hard;
    return netlink::request(XFRM_MSG_EXPIRE, 0, sequence, end, {});
}

std::vector<uint8_t> xfrm_use(const XfrmId& id, const KernelUse& use, uint32_t sequence) {
    xfrm_aevent_id event{};
    std::memcpy(&event.sa_id.daddr, id.dst.words, sizeof id.dst.words);
    event.sa_id.spi = swap32(id.spi);
    event.sa_id.proto = IPPROTO_ESP;
    event.sa_id.family = id.ipv6 ? AF_INET6 : AF_INET;
    rtattr head{};
    head.rta_type = XFRMA_LTIME_VAL;
    const xfrm_lifetime_cur count{use.bytes, use.packets, use.added, use.first_used};
    uint8_t attribute[sizeof head + sizeof count];
    head.rta_len = sizeof attribute;
    std::memcpy(attribute, &head, sizeof head);
    std::memcpy(attribute + sizeof head, &count, sizeof count);
    return netlink::request(XFRM_MSG_NEWAE, NLM_F_REPLACE, sequence, event, attribute);
}

std::vector<uint8_t> xfrm_dump_request(bool policies, uint32_t sequence) {
    if (!policies) return netlink::request(XFRM_MSG_GETSA, NLM_F_DUMP, sequence, xfrm_usersa_id{}, {});
    return netlink::request(XFRM_MSG_GETPOLICY, NLM_F_DUMP, sequence, xfrm_userpolicy_id{}, {});
}

}  // namespace millrace::nf::ipsec
