// The host half of the IPsec gateway.
#pragma once

#include "millrace/nf/changeable.hpp"
#include "millrace/nf/follows_control.hpp"
#include "millrace/nf/classify/engine_choice.hpp"
#include "millrace/nf/ipsec/device.hpp"
#include "millrace/nf/ipsec/kernel/watch.hpp"
#include "millrace/nf/ipsec/sa/lifetimes.hpp"
#include "millrace/nf/variant.hpp"

namespace millrace::nf::ipsec {

class IpsecHost : public NetworkFunction, public Varied, public Changeable, public FollowsControl {
public:
    IpsecHost(const Config& options, const Environment& environment);
    /// The generation behind `previous`, in which other SAs serve or other sequence numbers may be used.
    IpsecHost(const IpsecHost& previous, Standing standing);
    /// The generation behind `previous`, in which the kernel has changed something. Throws std::runtime_error.
    IpsecHost(const IpsecHost& previous, Options options, uint64_t kernel_version);

    const Image& image() const override { return image_; }
    Growth growth(const Growth& of_type) const override;
    bool commits() const override { return commits_; }
    std::string_view variant() const override;
    std::shared_ptr<NetworkFunction> next() override;
    void on_change(std::function<void()> told) override {
        if (watch_ != nullptr) watch_->on_change(std::move(told));
    }
    bool is_control(const Packet& packet) const override;
    bool has_news() const override;
    std::unique_ptr<CpuHalf> make_cpu_half() override;
    std::string explain(const Decision& decision) const override;
    std::vector<Statistic> statistics() const override;
    std::optional<ShownTable> show(std::string_view topic, size_t most) const override;
    std::string summary() const override;

private:
    void take_state(const Config& options, const Environment& environment);
    bool asks_for_commit() const;
    std::shared_ptr<SaState> take_common(Siblings& siblings) const;
    void follow_kernel(const Config& options, const Environment& environment);
    void retire_gone(const IpsecHost& previous);
    void build(Location where);
    std::vector<uint32_t> take_slots(const Location& where);
    void attach_base(const Location& where, const std::vector<uint32_t>& slots);
    void attach_standing();
    std::vector<Policy> make_policies() const;
    std::vector<uint32_t> make_inbound_index() const;
    std::shared_ptr<NetworkFunction> next_of_kernel();
    void tell_use() const;

    std::shared_ptr<const Options> configured_;  ///< without what the kernel adds
    std::shared_ptr<const Options> options_;
    std::shared_ptr<SaState> state_;
    std::shared_ptr<Lifetimes> lifetimes_;
    std::shared_ptr<const std::vector<Sa>> sas_;
    std::shared_ptr<const Image> base_;  ///< what is the same in all generations of these options
    Standing standing_;
    bool commits_ = true;
    std::shared_ptr<XfrmWatch> watch_;  ///< null: the kernel is not followed
    uint64_t kernel_version_ = 0;
    std::atomic<uint64_t> refused_version_{0};    ///< the kernel's that no generation could be made of
    Lifetimes::Clock::time_point next_kernel_{};  ///< not before
    Reporter warn_;
    classify::Searcher searcher_ = classify::Searcher::core;
    Image image_;
};

/// What the kernel knows an SA of its own by.
XfrmId id_of(const SaOptions& sa);

/// The CPU half, on intel-ipsec-mb. `tables` must outlive it. `options` holds the keys.
std::unique_ptr<CpuHalf> make_ipsec_cpu_half(const Tables& tables, const Options& options,
                                             std::shared_ptr<SaState> state);

}  // namespace millrace::nf::ipsec
