// What the Linux kernel tells about security associations and policies (XFRM), as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "millrace/base/netlink.hpp"
#include "millrace/nf/ipsec/options.hpp"

namespace millrace::nf::ipsec {

/// An algorithm by the kernel's name ("cbc(aes)"); no name: none.
struct XfrmAlgorithm {
    std::string name;
    Secret key;
    uint32_t icv_bits = 0;
};

/// What the kernel tells SAs apart by.
struct XfrmId {
    Address dst;
    uint32_t spi = 0;
    bool ipv6 = false;
    auto rank() const { return std::tuple(ipv6, dst.words[0], dst.words[1], dst.words[2], dst.words[3], spi); }
    bool operator<(const XfrmId& other) const { return rank() < other.rank(); }
};

/// An SA of ESP.
struct XfrmSa {
    XfrmId id;
    Address src;
    uint8_t mode = 0;  ///< XFRM_MODE_*
    uint32_t reqid = 0;
    uint8_t flags = 0;  ///< XFRM_STATE_*
    uint32_t replay_window = 0;
    Lifetime soft, hard;  ///< by bytes and packets; the kernel itself looks after time
    KernelUse use;
    XfrmAlgorithm cipher, auth, aead;
    uint16_t encap_type = 0;                               ///< UDP_ENCAP_*; 0: none
    uint16_t encap_local_port = 0, encap_remote_port = 0;  ///< as the kernel sends with it
    bool marked = false;                                   ///< it is for packets with a mark or of an XFRM interface
};

/// What packets of a policy must have.
struct XfrmTemplate {
    Address src, dst;
    bool ipv6 = false;
    uint8_t protocol = 0;
    uint8_t mode = 0;
    uint32_t reqid = 0;
    uint32_t spi = 0;  ///< of the one SA that will do; 0: any
    bool optional = false;
};

struct XfrmPolicy {
    Selector selector;
    uint8_t direction = 0;  ///< XFRM_POLICY_*
    uint32_t priority = 0;
    bool block = false;
    bool unsupported = false;  ///< it asks for what no selector here says: an interface, a mark, odd ports
    std::vector<XfrmTemplate> templates;
};

/// Takes what messages say, one call each.
class XfrmListener {
public:
    virtual ~XfrmListener() = default;
    virtual void on_sa(const XfrmSa& sa) = 0;
    virtual void on_sa_gone(const XfrmId& id) = 0;
    virtual void on_policy(const XfrmPolicy& policy) = 0;
    virtual void on_policy_gone(const Selector& selector, uint8_t direction) = 0;
    /// All SAs, or all policies, have gone.
    virtual void on_flush(bool policies) = 0;
    /// Something changed that is not told in detail.
    virtual void on_hidden_change() = 0;
    /// The answer to a request is complete (`error` 0), or the kernel refused it (errno).
    virtual void on_answered(uint32_t sequence, int error) = 0;
    /// A message that breaks off or contradicts itself; it was left out.
    virtual void on_malformed() = 0;
};

/// Reads what a netlink socket received. Any bytes may come.
void parse_xfrm(netlink::Bytes bytes, XfrmListener& listener);

/// Has the kernel tell its IKE daemon that an SA of ESP is near its end, or at it; then it deletes the SA, too.
std::vector<uint8_t> xfrm_end(const XfrmId& id, bool hard, uint32_t sequence);
/// Has the kernel take over what was counted of an SA.
std::vector<uint8_t> xfrm_use(const XfrmId& id, const KernelUse& use, uint32_t sequence);

/// Asks for all SAs, or all policies.
std::vector<uint8_t> xfrm_dump_request(bool policies, uint32_t sequence);

}  // namespace millrace::nf::ipsec
