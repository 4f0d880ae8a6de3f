// Messages of the kernel about SAs and policies, as it would write them.
#pragma once

#include <linux/in.h>
#include <linux/udp.h>
#include <linux/xfrm.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "millrace/base/netlink.hpp"
#include "nf/ipsec/gateway.hpp"

namespace millrace::test {

/// One message that is put together.
class XfrmMessage {
public:
    template <class Body>
    XfrmMessage(uint16_t type, const Body& body) : bytes_(netlink::request(type, 0, 0, body, {})) {
        pad();
    }
    template <class Value>
    XfrmMessage& add(uint16_t type, const Value& value, const std::vector<uint8_t>& more = {}) {
        rtattr head{};
        head.rta_type = type;
        head.rta_len = static_cast<uint16_t>(sizeof head + sizeof value + more.size());
        append(&head, sizeof head);
        append(&value, sizeof value);
        append(more.data(), more.size());
        pad();
        return *this;
    }
    /// XFRMA_ALG_*, whose layout depends on the kind.
    XfrmMessage& add_algorithm(uint16_t type, const std::string& name, const std::vector<uint8_t>& key,
                               uint32_t icv_bits = 0) {
        struct {
            char name[64] = {};
            uint32_t key_bits = 0;
        } head;
        std::strncpy(head.name, name.c_str(), sizeof head.name - 1);
        head.key_bits = static_cast<uint32_t>(8 * key.size());
        std::vector<uint8_t> rest;
        if (type != XFRMA_ALG_CRYPT && type != XFRMA_ALG_AUTH) {
            rest.resize(4);
            std::memcpy(rest.data(), &icv_bits, 4);
        }
        rest.insert(rest.end(), key.begin(), key.end());
        return add(type, head, rest);
    }
    void set_type(uint16_t type) { std::memcpy(bytes_.data() + offsetof(nlmsghdr, nlmsg_type), &type, sizeof type); }
    std::vector<uint8_t> bytes() const {
        std::vector<uint8_t> whole = bytes_;
        const auto length = static_cast<uint32_t>(whole.size());
        std::memcpy(whole.data(), &length, sizeof length);
        return whole;
    }

private:
    void append(const void* from, size_t count) {
        const auto* begin = static_cast<const uint8_t*>(from);
        bytes_.insert(bytes_.end(), begin, begin + count);
    }
    void pad() { bytes_.resize(netlink::aligned(bytes_.size())); }
    std::vector<uint8_t> bytes_;
};

inline xfrm_address_t xfrm_address(const std::string& text) {
    xfrm_address_t address{};
    if (text.find(':') != std::string::npos) {
        const auto bytes = ipv6(text.c_str());
        std::memcpy(&address, bytes.data(), 16);
    } else {
        address.a4 = swap32(ipv4(text.c_str()));
    }
    return address;
}
inline uint16_t family_of(const std::string& text) { return text.find(':') != std::string::npos ? AF_INET6 : AF_INET; }

/// An SA as charon installs it.
struct SaSpec {
    std::string src = "192.0.2.1", dst = "198.51.100.1";
    uint32_t spi = 0x1001, reqid = 1;
    uint8_t mode = XFRM_MODE_TUNNEL, flags = 0;
    uint64_t added = 100;
    uint64_t soft_bytes = XFRM_INF, hard_bytes = XFRM_INF, soft_packets = XFRM_INF, hard_packets = XFRM_INF;
    uint64_t used_bytes = 0;
};
inline xfrm_usersa_info sa_info(const SaSpec& spec) {
    xfrm_usersa_info info{};
    info.family = family_of(spec.dst);
    info.saddr = xfrm_address(spec.src);
    info.id.daddr = xfrm_address(spec.dst);
    info.id.spi = swap32(spec.spi);
    info.id.proto = IPPROTO_ESP;
    info.mode = spec.mode;
    info.reqid = spec.reqid;
    info.flags = spec.flags;
    info.replay_window = 32;
    info.lft.soft_byte_limit = spec.soft_bytes;
    info.lft.hard_byte_limit = spec.hard_bytes;
    info.lft.soft_packet_limit = spec.soft_packets;
    info.lft.hard_packet_limit = spec.hard_packets;
    info.curlft.bytes = spec.used_bytes;
    info.curlft.add_time = spec.added;
    return info;
}
/// With the algorithms and keys of `tunnel`.
inline XfrmMessage sa_message(const SaSpec& spec, const Tunnel& tunnel, uint8_t key_change = 0) {
    xfrm_usersa_info info = sa_info(spec);
    if (tunnel.esn) info.flags |= XFRM_STATE_ESN;
    XfrmMessage message(XFRM_MSG_NEWSA, info);
    std::vector<uint8_t> key = *parse_hex(std::string(kKeyText, 2 * tunnel.key_bytes()));
    if (!key.empty()) key[0] ^= key_change;
    if (tunnel.is("gcm") || tunnel.is("ctr")) {
        const Frame nonce = *parse_hex(kNonceText);
        key.insert(key.end(), nonce.begin(), nonce.end());
    }
    if (tunnel.is("gcm"))
        message.add_algorithm(XFRMA_ALG_AEAD, "rfc4106(gcm(aes))", key, static_cast<uint32_t>(8 * tunnel.gcm_icv));
    else
        message.add_algorithm(XFRMA_ALG_CRYPT,
                              tunnel.is("ctr")   ? "rfc3686(ctr(aes))"
                              : tunnel.is("cbc") ? "cbc(aes)"
                                                 : "ecb(cipher_null)",
                              key);
    if (!tunnel.is("gcm")) {
        const bool sha1 = tunnel.auth == "hmac-sha1-96";
        const Frame auth = *parse_hex(std::string(kAuthKeyText, sha1 ? 40 : 64));
        message.add_algorithm(XFRMA_ALG_AUTH, sha1 ? "hmac(sha1)" : "hmac(sha256)", auth);
        message.add_algorithm(XFRMA_ALG_AUTH_TRUNC, sha1 ? "hmac(sha1)" : "hmac(sha256)", auth, sha1 ? 96 : 128);
    }
    if (tunnel.udp) {
        xfrm_encap_tmpl encap{};
        encap.encap_type = UDP_ENCAP_ESPINUDP;
        encap.encap_sport = encap.encap_dport = swap16(4500);
        message.add(XFRMA_ENCAP, encap);
    }
    if (tunnel.esn) {
        struct {
            uint32_t bitmap_words = 4, oseq = 0, seq = 0, oseq_high = 0, seq_high = 0, window = 128;
        } replay;
        message.add(XFRMA_REPLAY_ESN_VAL, replay, std::vector<uint8_t>(16));
    }
    return message;
}
inline XfrmMessage sa_gone(const SaSpec& spec) {
    xfrm_usersa_id id{};
    id.daddr = xfrm_address(spec.dst);
    id.spi = swap32(spec.spi);
    id.family = family_of(spec.dst);
    id.proto = IPPROTO_ESP;
    return {XFRM_MSG_DELSA, id};
}

struct PolicySpec {
    std::string src = "10.1.0.0", dst = "10.2.0.0";
    uint8_t prefix = 16;
    uint8_t direction = XFRM_POLICY_OUT;
    uint32_t priority = 1000;
    uint8_t action = XFRM_POLICY_ALLOW;
    std::string tunnel_src = "192.0.2.1", tunnel_dst = "198.51.100.1";  ///< empty: no template
    uint32_t reqid = 1;
    uint8_t mode = XFRM_MODE_TUNNEL;
    uint32_t spi = 0;  ///< of the one SA that will do
};
inline xfrm_selector selector_of(const PolicySpec& spec) {
    xfrm_selector selector{};
    selector.family = family_of(spec.src);
    selector.saddr = xfrm_address(spec.src);
    selector.daddr = xfrm_address(spec.dst);
    selector.prefixlen_s = selector.prefixlen_d = spec.prefix;
    return selector;
}
inline XfrmMessage policy_message(const PolicySpec& spec) {
    xfrm_userpolicy_info info{};
    info.sel = selector_of(spec);
    info.priority = spec.priority;
    info.dir = spec.direction;
    info.action = spec.action;
    XfrmMessage message(XFRM_MSG_NEWPOLICY, info);
    if (spec.tunnel_dst.empty()) return message;
    xfrm_user_tmpl wanted{};
    wanted.family = family_of(spec.tunnel_dst);
    wanted.saddr = xfrm_address(spec.tunnel_src);
    wanted.id.daddr = xfrm_address(spec.tunnel_dst);
    wanted.id.proto = IPPROTO_ESP;
    wanted.id.spi = swap32(spec.spi);
    wanted.reqid = spec.reqid;
    wanted.mode = spec.mode;
    return message.add(XFRMA_TMPL, wanted);
}
inline XfrmMessage policy_gone(const PolicySpec& spec) {
    xfrm_userpolicy_id id{};
    id.sel = selector_of(spec);
    id.dir = spec.direction;
    return {XFRM_MSG_DELPOLICY, id};
}

}  // namespace millrace::test
