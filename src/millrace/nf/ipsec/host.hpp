// The host half of the IPsec gateway.
#pragma once

#include "millrace/nf/classify/engine_choice.hpp"
#include "millrace/nf/ipsec/device.hpp"
#include "millrace/nf/ipsec/options.hpp"
#include "millrace/nf/ipsec/state.hpp"

namespace millrace::nf::ipsec {

class IpsecHost : public NetworkFunction {
public:
    IpsecHost(const Config& options, const Environment& environment);

    const Image& image() const override { return image_; }
    Growth growth(const Growth& of_type) const override;
    bool commits() const override;
    std::unique_ptr<CpuHalf> make_cpu_half() override;
    std::string explain(const Decision& decision) const override;
    std::vector<Statistic> statistics() const override;
    std::optional<ShownTable> show(std::string_view topic, size_t most) const override;
    std::string summary() const override;

private:
    void attach_tables(const Config& options, classify::Searcher searcher);
    std::vector<Policy> make_policies() const;
    std::vector<uint32_t> make_inbound_index(const std::vector<Sa>& sas) const;

    Options options_;
    std::shared_ptr<SaState> state_;
    Image image_;
};

/// The CPU half, on intel-ipsec-mb. `tables` and `state` must outlive it. `options` holds the keys.
std::unique_ptr<CpuHalf> make_ipsec_cpu_half(const Tables& tables, const Options& options,
                                             std::shared_ptr<SaState> state);

}  // namespace millrace::nf::ipsec
