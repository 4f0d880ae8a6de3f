// Follows the kernel's SAs and policies over netlink, in a thread of its own.
#pragma once

#include <chrono>
#include <functional>

#include "millrace/base/netlink_follower.hpp"
#include "millrace/nf/ipsec/kernel/database.hpp"

namespace millrace::nf::ipsec {

/// The kernel's database, as of the network namespace in which it was made.
class XfrmWatch final : private XfrmListener, private netlink::Copy {
public:
    /// Returns when the kernel has told all that there is. Throws std::runtime_error when it does not tell.
    XfrmWatch(uint16_t udp_port, Config place, Reporter warn);

    uint16_t udp_port() const { return udp_port_; }
    /// Whether `add_to` would add something else than of this version; cheap.
    bool is_newer_than(uint64_t version) const { return follower_.version() != version; }
    /// Whether the kernel has told anything that this version may not have: read or still to be read. Cheap.
    bool has_news(uint64_t version) const { return follower_.has_news(version); }
    /// Has `told` called once when there is more than `add_to` has added; an empty one ends that.
    void on_change(std::function<void()> told) { follower_.on_change(std::move(told)); }
    /// Puts what the kernel has behind `options`; returns the version of it.
    uint64_t add_to(Options& options);

    /// Has the kernel tell the IKE daemon, soon: see xfrm_end.
    void tell_end(const XfrmId& id, bool hard) { follower_.post(xfrm_end(id, hard, 0)); }
    /// Whether it is time to tell again how SAs are used; asking says that it is done. One thread at a time.
    bool take_use_wanted();
    /// Has the kernel take over what was counted, soon: see xfrm_use.
    void tell_use(const XfrmId& id, const KernelUse& use) { follower_.post(xfrm_use(id, use, 0)); }

    struct Counts {
        uint64_t sas = 0, policies = 0, resyncs = 0, malformed = 0;
    };
    Counts counts() const;

private:
    void on_sa(const XfrmSa& sa) override { database_.on_sa(sa); }
    void on_sa_gone(const XfrmId& id) override { database_.on_sa_gone(id); }
    void on_policy(const XfrmPolicy& policy) override { database_.on_policy(policy); }
    void on_policy_gone(const Selector& selector, uint8_t direction) override {
        database_.on_policy_gone(selector, direction);
    }
    void on_flush(bool policies) override { database_.on_flush(policies); }
    void on_answered(uint32_t sequence, int error) override { follower_.on_answered(sequence, error); }
    void on_malformed() override { follower_.on_malformed(); }

    void take(netlink::Bytes message, Source /*source*/) override { parse_xfrm(message, *this); }
    uint64_t version() const override { return database_.version(); }
    std::vector<Request> requests() const override;
    void begin_resync() override { database_.begin_resync(); }
    void end_resync() override { database_.end_resync(); }
    void on_hidden_change() override { database_.on_hidden_change(); }  // of both
    bool take_resync_wanted() override { return database_.take_resync_wanted(); }
    void on_refused(int error) override;

    const uint16_t udp_port_;
    Clock::time_point use_told_{};
    bool told_refusal_ = false;
    XfrmDatabase database_;       // by the follower's lock
    netlink::Follower follower_;  // goes first: its thread has all of the above
};

}  // namespace millrace::nf::ipsec
