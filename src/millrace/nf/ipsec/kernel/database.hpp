// The kernel's SAs and policies as options of the gateway, kept as they change. Opens nothing and reads no clock.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "millrace/nf/ipsec/kernel/messages.hpp"

namespace millrace::nf::ipsec {

/// Of the kernel's SAs those serve that a policy's template leads to: outbound the newest, inbound all. What it can't
/// do is left out, and told. Not safe for use by several threads.
class XfrmDatabase {
public:
    /// Told of limits that were met, once each: what happened, and what would mend it.
    using Warn = std::function<void(const std::string& message, const std::string& hint)>;
    /// `place`: what errors about SAs point at.
    XfrmDatabase(uint16_t udp_port, Config place, Warn warn)
        : udp_port_(udp_port), place_(std::move(place)), warn_(std::move(warn)) {}

    void on_sa(const XfrmSa& sa);
    void on_sa_gone(const XfrmId& id);
    void on_policy(const XfrmPolicy& policy);
    void on_policy_gone(const Selector& selector, uint8_t direction);
    void on_flush(bool policies);
    /// The kernel may have changed something in silence.
    void on_hidden_change() { wants_resync_ = true; }

    /// Everything is told again from here on; at the end what was not told has gone.
    void begin_resync() { ++stamp_; }
    void end_resync();
    /// Whether only a resync can tell what has changed; asking says that one is made.
    bool take_resync_wanted() { return std::exchange(wants_resync_, false); }

    /// Puts SAs and policies behind those of `options`.
    void add_to(Options& options) const;
    /// Grows with everything that changes that.
    uint64_t version() const { return version_; }
    size_t sas() const { return sas_.size(); }
    size_t policies() const { return policies_.size(); }

private:
    struct Sa {
        SaOptions options;  ///< but for direction, ends and selectors, which policies tell
        XfrmSa told;
        uint64_t arrival = 0, stamp = 0;
    };
    struct Policy {
        XfrmPolicy told;
        uint64_t arrival = 0, stamp = 0;
    };
    class Adder;
    using PolicyKey = std::pair<uint8_t, std::string>;

    bool convert(const XfrmSa& told, SaOptions& options) const;
    bool convert_cipher(const XfrmSa& told, SaOptions& options) const;
    bool convert_auth(const XfrmSa& told, SaOptions& options) const;
    void warn_once(const std::string& message, const std::string& hint) const;

    uint16_t udp_port_;
    Config place_;
    Warn warn_;
    mutable std::set<std::string> warned_;
    std::map<XfrmId, Sa> sas_;
    std::map<PolicyKey, Policy> policies_;
    uint64_t version_ = 1, arrivals_ = 0, stamp_ = 0;
    bool wants_resync_ = false;
};

}  // namespace millrace::nf::ipsec
