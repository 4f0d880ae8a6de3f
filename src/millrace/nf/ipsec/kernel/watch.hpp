// Follows the kernel's SAs and policies over netlink, in a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "millrace/nf/ipsec/kernel/database.hpp"

namespace millrace::nf::ipsec {

/// The kernel's database, as of the network namespace in which it was made.
class XfrmWatch : private XfrmListener {
public:
    /// Returns when the kernel has told all that there is. Throws std::runtime_error when it does not tell.
    XfrmWatch(uint16_t udp_port, Config place, Reporter warn);
    ~XfrmWatch() override;

    uint16_t udp_port() const { return udp_port_; }
    /// Of what `add_to` would add now; cheap.
    uint64_t version() const { return version_.load(); }
    /// Whether the kernel has told anything that this version may not have: read or still to be read. Cheap.
    bool has_news(uint64_t version) const;
    /// Has `told` called when that changes, by a thread of its own; an empty one ends it.
    void on_change(std::function<void()> told);
    /// Puts what the kernel has behind `options`; returns the version of it.
    uint64_t add_to(Options& options) const;

    /// Has the kernel tell the IKE daemon, soon: see xfrm_end.
    void tell_end(const XfrmId& id, bool hard);
    /// Whether it is time to tell again how SAs are used; asking says that it is done. One thread at a time.
    bool take_use_wanted();
    /// Has the kernel take over what was counted, soon: see xfrm_use.
    void tell_use(const XfrmId& id, const KernelUse& use);

    struct Counts {
        uint64_t sas = 0, policies = 0, resyncs = 0, malformed = 0;
    };
    Counts counts() const;

private:
    using Clock = std::chrono::steady_clock;

    void on_sa(const XfrmSa& sa) override { database_.on_sa(sa); }
    void on_sa_gone(const XfrmId& id) override { database_.on_sa_gone(id); }
    void on_policy(const XfrmPolicy& policy) override { database_.on_policy(policy); }
    void on_policy_gone(const Selector& selector, uint8_t direction) override {
        database_.on_policy_gone(selector, direction);
    }
    void on_flush(bool policies) override { database_.on_flush(policies); }
    void on_hidden_change() override { database_.on_hidden_change(); }
    void on_answered(uint32_t sequence, int error) override;
    void on_malformed() override;

    void run();
    void look_once();
    void receive(const netlink::Descriptor& socket);
    void post(std::vector<uint8_t> message);
    void send_posted();
    void tell_of_change();
    void dump(bool policies);
    void resync();
    void tell(const std::string& message, const std::string& hint) const;

    const uint16_t udp_port_;
    const Location where_;
    const Reporter warn_;
    const netlink::Descriptor events_, requests_, posts_;
    const netlink::Descriptor wake_;  // to end, or to send what is posted
    Clock::time_point use_told_{};
    std::vector<uint8_t> buffer_;
    uint32_t sequence_ = 0, answered_ = 0;
    int answer_error_ = 0;
    bool told_refusal_ = false;
    Clock::time_point resync_wanted_{};    // since when; the epoch: not
    Clock::time_point resync_possible_{};  // from when on

    mutable std::mutex mutex_;  // what is below
    XfrmDatabase database_;
    std::vector<std::vector<uint8_t>> posted_;
    Counts counts_;
    std::atomic<uint64_t> version_{0};  // of the database
    std::atomic<bool> reading_{false};  // messages that the version does not show yet
    std::atomic<bool> stopping_{false};
    std::mutex telling_;  // what is below; no other lock is held then
    std::function<void()> told_;
    uint64_t told_version_ = 0;
    std::thread thread_;
};

}  // namespace millrace::nf::ipsec
