#include "millrace/nf/ipsec/kernel/database.hpp"

#include <fmt/format.h>
#include <linux/in.h>
#include <linux/udp.h>
#include <linux/xfrm.h>

#include <algorithm>

#include "millrace/nf/ipsec/sa/known_sas.hpp"

namespace millrace::nf::ipsec {
namespace {

constexpr size_t kMaxSas = 1 << 16, kMaxPolicies = 1 << 16;

bool is_zero(const Address& address) {
    return std::all_of(address.words, address.words + 4, [](uint32_t word) { return word == 0; });
}
bool same(const Address& a, const Address& b) { return std::equal(a.words, a.words + 4, b.words); }

/// A name for people, and for statistics; unique by what it is made of.
std::string name_of(const XfrmId& id) {
    std::string name = "spi-" + fmt::format("{:x}", id.spi) + "-to";
    for (unsigned i = 0; i < (id.ipv6 ? 4u : 1u); ++i) name += "-" + fmt::format("{:x}", swap32(id.dst.words[i]));
    return name;
}

std::string key_of(const Selector& selector) {
    std::string key;
    const auto add = [&](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
    for (const Address* address : {&selector.src, &selector.src_mask, &selector.dst, &selector.dst_mask}) add(*address);
    for (const uint16_t port :
         {selector.src_port_first, selector.src_port_last, selector.dst_port_first, selector.dst_port_last})
        add(port);
    key += static_cast<char>(selector.protocol);
    key += selector.ipv6 ? '6' : '4';
    return key;
}

bool is_host(const Address& mask, bool ipv6) {
    for (unsigned i = 0; i < (ipv6 ? 4u : 1u); ++i)
        if (mask.words[i] != 0xffffffffu) return false;
    return true;
}

/// The ends of the SAs that a policy's template asks for: its own, or in transport mode the policy's.
struct Ends {
    explicit Ends(const XfrmPolicy& policy) {
        const XfrmTemplate& wanted = policy.templates.front();
        const bool bare = wanted.mode == XFRM_MODE_TRANSPORT && is_zero(wanted.dst);
        src = bare ? policy.selector.src : wanted.src;
        dst = bare ? policy.selector.dst : wanted.dst;
        ipv6 = bare ? policy.selector.ipv6 : wanted.ipv6;
    }
    Address src, dst;
    bool ipv6 = false;
};

}  // namespace

void XfrmDatabase::warn_once(const std::string& message, const std::string& hint) const {
    if (warned_.insert(message).second) warn_(message, hint);
}

bool XfrmDatabase::convert_cipher(const XfrmSa& told, SaOptions& options) const {
    struct Known {
        const char* name;
        Cipher cipher;
        bool salted;
    };
    static constexpr Known kKnown[] = {{"rfc4106(gcm(aes))", Cipher::aes_gcm, true},
                                       {"rfc3686(ctr(aes))", Cipher::aes_ctr, true},
                                       {"cbc(aes)", Cipher::aes_cbc, false},
                                       {"ecb(cipher_null)", Cipher::null, false},
                                       {"cipher_null", Cipher::null, false}};
    const XfrmAlgorithm& from = told.aead.name.empty() ? told.cipher : told.aead;
    const auto* const known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                           [&](const Known& one) { return from.name == one.name; });
    const bool is_aead = !told.aead.name.empty();
    if (known == std::end(kKnown) || (known->cipher == Cipher::aes_gcm) != is_aead) {
        warn_once("an SA of the kernel encrypts by " + (from.name.empty() ? "nothing" : from.name),
                  "agree upon AES-GCM, or AES with HMAC-SHA-256-128");
        return false;
    }
    options.sa.cipher = known->cipher;
    std::vector<uint8_t> key = from.key.bytes;
    const Secret wiped(key);
    if (known->salted) {
        if (key.size() < 4) return false;
        options.sa.nonce = load_be32(key.data() + key.size() - 4);
        key.resize(key.size() - 4);
    }
    if (known->cipher == Cipher::null) return true;
    if (key.size() != 16 && key.size() != 32) {
        warn_once("an SA of the kernel has an AES key of " + std::to_string(8 * key.size()) + " bits",
                  "agree upon one of 128 or 256");
        return false;
    }
    options.key = Secret(std::move(key));
    options.expand_key();
    return true;
}

bool XfrmDatabase::convert_auth(const XfrmSa& told, SaOptions& options) const {
    if (options.sa.cipher == Cipher::aes_gcm) {
        const uint32_t bits = told.aead.icv_bits;
        if (bits != 128 && bits != 96 && bits != 64) return false;
        options.sa.icv_bytes = static_cast<uint8_t>(bits / 8);
        return true;
    }
    const std::string& name = told.auth.name;
    const uint32_t bits = told.auth.icv_bits;
    const size_t key_bytes = told.auth.key.bytes.size();
    if (name == "hmac(sha1)" && bits == 96 && key_bytes == 20) options.sa.auth = Auth::hmac_sha1_96;
    else if (name == "hmac(sha256)" && bits == 128 && key_bytes == 32) options.sa.auth = Auth::hmac_sha256_128;
    else {
        warn_once("an SA of the kernel authenticates by " +
                      (name.empty() ? "nothing" : name + " with " + std::to_string(bits) + " bits"),
                  "agree upon HMAC-SHA-256-128 or HMAC-SHA1-96, or AES-GCM");
        return false;
    }
    options.auth_key = told.auth.key;
    options.expand_auth_key();
    return true;
}

/// False when the gateway can't do what the SA asks for.
bool XfrmDatabase::convert(const XfrmSa& told, SaOptions& options) const {
    if (told.cipher.name.empty() && told.aead.name.empty()) return false;  // an SPI that was set aside
    const auto refuse = [&](const std::string& what, const std::string& hint) {
        warn_once("an SA of the kernel " + what, hint);
        return false;
    };
    ipsec::Sa& sa = options.sa;
    sa.ipv6 = told.id.ipv6;
    sa.spi = told.id.spi;
    sa.extended = (told.flags & XFRM_STATE_ESN) != 0;
    sa.transport = told.mode == XFRM_MODE_TRANSPORT;
    sa.in_udp = told.encap_type != 0;
    if (sa.spi < 256) return refuse("has an SPI below 256", "");
    if (told.marked) return refuse("is for packets with a mark or of an XFRM interface", "leave marks and if_id out");
    if (told.mode != XFRM_MODE_TUNNEL && !sa.transport) return refuse("is of neither tunnel nor transport mode", "");
    if (sa.in_udp && (told.encap_type != UDP_ENCAP_ESPINUDP || sa.transport))
        return refuse("is in UDP in a way that the gateway can't do", "use tunnel mode");
    if (!convert_cipher(told, options) || !convert_auth(told, options)) return false;
    if (head_bytes_of<Complete>(sa) > kKernelHeadGrowth)
        return refuse("is of AES-CBC in UDP over IPv6, whose headers are too long", "agree upon AES-GCM");
    sa.counts_bytes = true;  // the kernel is told of them
    options.soft = told.soft;
    options.hard = told.hard;
    options.kernel = told.use;
    sa.replay_window = std::min(told.replay_window, kMaxReplayWindow);
    if (sa.extended && sa.replay_window == 0) sa.replay_window = 64;
    return true;
}

void XfrmDatabase::on_sa(const XfrmSa& told) {
    SaOptions options = SaOptions::at(place_);
    if (!convert(told, options)) return on_sa_gone(told.id);
    if (sas_.size() >= kMaxSas && !sas_.contains(told.id))
        return warn_once("the kernel has more than " + std::to_string(kMaxSas) + " SAs", "the rest is left out");
    options.name = name_of(told.id);
    const auto [place, fresh] = sas_.try_emplace(told.id, Sa{SaOptions::at(place_), {}, 0, 0});
    Sa& sa = place->second;
    const bool changed = fresh || sa.options.key.bytes != options.key.bytes ||
                         sa.options.auth_key.bytes != options.auth_key.bytes || sa.told.reqid != told.reqid ||
                         sa.told.mode != told.mode || !same(sa.told.src, told.src) ||
                         sa.told.encap_remote_port != told.encap_remote_port ||
                         sa.options.sa.replay_window != options.sa.replay_window || sa.options.hard != options.hard ||
                         sa.options.soft != options.soft;
    sa.stamp = stamp_;
    if (!changed) return;
    if (fresh) sa.arrival = ++arrivals_;
    sa.options = std::move(options);
    sa.told = told;
    sa.told.cipher.key = sa.told.auth.key = sa.told.aead.key = Secret();
    ++version_;
}

void XfrmDatabase::on_sa_gone(const XfrmId& id) { version_ += sas_.erase(id); }

void XfrmDatabase::on_policy(const XfrmPolicy& told) {
    if (told.unsupported) {
        warn_once("a policy of the kernel asks for an interface, a mark, or types of ICMP",
                  "what it is about goes by the other policies");
        return on_policy_gone(told.selector, told.direction);
    }
    const PolicyKey key{told.direction, key_of(told.selector)};
    if (policies_.size() >= kMaxPolicies && !policies_.contains(key))
        return warn_once("the kernel has more than " + std::to_string(kMaxPolicies) + " policies",
                         "the rest is left out");
    const auto [place, fresh] = policies_.try_emplace(key);
    Policy& policy = place->second;
    if (fresh) policy.arrival = ++arrivals_;
    policy.stamp = stamp_;
    const auto same_templates = [](const XfrmTemplate& a, const XfrmTemplate& b) {
        return same(a.src, b.src) && same(a.dst, b.dst) && a.ipv6 == b.ipv6 && a.protocol == b.protocol &&
               a.mode == b.mode && a.reqid == b.reqid && a.spi == b.spi && a.optional == b.optional;
    };
    const bool changed = fresh || policy.told.priority != told.priority || policy.told.block != told.block ||
                         !std::equal(policy.told.templates.begin(), policy.told.templates.end(), told.templates.begin(),
                                     told.templates.end(), same_templates);
    if (!changed) return;
    policy.told = told;
    ++version_;
}

void XfrmDatabase::on_policy_gone(const Selector& selector, uint8_t direction) {
    version_ += policies_.erase({direction, key_of(selector)});
}

void XfrmDatabase::on_flush(bool policies) {
    version_ += policies ? policies_.size() : sas_.size();
    if (policies) policies_.clear();
    else sas_.clear();
}

void XfrmDatabase::end_resync() {
    const auto old = [&](const auto& entry) { return entry.second.stamp != stamp_; };
    version_ += std::erase_if(sas_, old);
    version_ += std::erase_if(policies_, old);
}

/// Puts together what one look at the database makes of it.
class XfrmDatabase::Adder {
public:
    Adder(const XfrmDatabase& database, Options& options) : database_(database), options_(options) {
        std::vector<SaOptions> given = std::move(options_.sas);
        options_.sas.clear();
        for (SaOptions& sa : given) {
            options_.sas.push_back(std::move(sa));
            known_.add(options_.sas);
        }
    }

    void add(const XfrmPolicy& told) {
        PolicyOptions made;
        made.selectors = {told.selector};
        made.where = database_.place_.where();
        const bool wraps = !told.templates.empty() && !told.block;
        made.action = told.block || wraps ? Action::discard : Action::bypass;
        if (wraps && told.direction == XFRM_POLICY_OUT) protect(told, made);
        else if (wraps) allow(told);
        options_.policies.push_back(std::move(made));
    }

private:
    /// The SA that the policy names, else the newest of those that fit. An IKE daemon that is asked for new keys has
    /// the new SA before the other end has its own, and names it when that says that it has.
    void protect(const XfrmPolicy& told, PolicyOptions& made) {
        const XfrmTemplate& first = told.templates.front();
        const bool one_flow = is_host(told.selector.src_mask, told.selector.ipv6) &&
                              is_host(told.selector.dst_mask, told.selector.ipv6);
        if (told.templates.size() > 1 || first.protocol != IPPROTO_ESP ||
            (first.mode == XFRM_MODE_TRANSPORT && !one_flow))
            return database_.warn_once(
                "a policy of the kernel asks for more than one ESP header, or for transport mode "
                "between networks",
                "packets that it is about are dropped");
        const Sa* best = nullptr;
        const auto rank = [&](const Sa& sa) {
            return std::tuple(sa.told.id.spi == first.spi, sa.told.use.added, sa.arrival);
        };
        for_each_that_fits(told, [&](const Sa& sa) {
            if (best == nullptr || rank(sa) > rank(*best)) best = &sa;
        });
        if (best == nullptr) return;
        if (const auto index = take(*best, false)) {
            made.action = Action::protect;
            made.sas = {*index};
        }
    }

    /// What comes out of the SAs that fit may be what the policy is about. Its template names the ends as the packet
    /// has them.
    void allow(const XfrmPolicy& told) {
        for_each_that_fits(told, [&](const Sa& sa) {
            const auto index = take(sa, true);
            if (!index) return;
            std::vector<Selector>& allowed = options_.sas[*index].allow;
            const std::string key = key_of(told.selector);
            if (std::none_of(allowed.begin(), allowed.end(), [&](const Selector& one) { return key_of(one) == key; }))
                allowed.push_back(told.selector);
        });
    }

    /// Those to one address are contiguous.
    template <class F>
    void for_each_that_fits(const XfrmPolicy& policy, F&& f) const {
        const Ends ends(policy);
        const XfrmTemplate& wanted = policy.templates.front();
        auto at = database_.sas_.lower_bound(XfrmId{ends.dst, 0, ends.ipv6});
        for (; at != database_.sas_.end() && at->first.ipv6 == ends.ipv6 && same(at->first.dst, ends.dst); ++at) {
            const XfrmSa& sa = at->second.told;
            if (sa.mode == wanted.mode && (is_zero(ends.src) || same(sa.src, ends.src)) &&
                (wanted.reqid == 0 || wanted.reqid == sa.reqid))
                f(at->second);
        }
    }

    /// The SA's place among the options; nothing when it can't serve.
    std::optional<uint32_t> take(const Sa& sa, bool inbound) {
        const auto [made, first] = taken_.try_emplace(sa.told.id);
        if (!first) return made->second;
        if (sa.options.sa.in_udp && sa.told.encap_local_port != database_.udp_port_ && !inbound) {
            database_.warn_once("an SA of the kernel has UDP port " + std::to_string(sa.told.encap_local_port),
                                "set 'udp-port'");
            return std::nullopt;
        }
        SaOptions own = sa.options;
        own.inbound = inbound;
        own.sa.local = inbound ? sa.told.id.dst : sa.told.src;
        own.sa.remote = inbound ? sa.told.src : sa.told.id.dst;
        own.sa.any_remote = inbound && !own.sa.transport && (own.sa.in_udp || is_zero(sa.told.src));
        own.sa.remote_port = sa.told.encap_remote_port;
        options_.sas.push_back(std::move(own));
        try {
            known_.add(options_.sas);
            made->second = static_cast<uint32_t>(options_.sas.size() - 1);
        } catch (const ConfigError&) {
            options_.sas.pop_back();
            database_.warn_once("two SAs of the kernel have the same keys, or the same SPI to the same address",
                                "the second is left out");
        }
        return made->second;
    }

    const XfrmDatabase& database_;
    Options& options_;
    KnownSas known_;
    std::map<XfrmId, std::optional<uint32_t>> taken_;
};

void XfrmDatabase::add_to(Options& options) const {
    // As the kernel looks at them: by priority, of equal ones the first that came.
    std::vector<const Policy*> ordered;
    for (const auto& [key, policy] : policies_) ordered.push_back(&policy);
    std::sort(ordered.begin(), ordered.end(), [](const Policy* a, const Policy* b) {
        return std::pair(a->told.priority, a->arrival) < std::pair(b->told.priority, b->arrival);
    });
    Adder adder(*this, options);
    for (const Policy* policy : ordered) adder.add(policy->told);
}

}  // namespace millrace::nf::ipsec
