// The host half of the firewall: reads the options, holds the rules, makes the CPU half.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "millrace/nf/classify/acl/acl.hpp"
#include "millrace/nf/classify/classifier_builder.hpp"
#include "millrace/nf/connections.hpp"
#include "millrace/nf/firewall/device.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/whole_packets.hpp"

namespace millrace::nf::firewall {

class FirewallHost : public NetworkFunction, public WantsWholePackets, public ReadsConnections {
public:
    FirewallHost(const Config& options, const Environment& environment);

    const Image& image() const override { return image_; }
    std::unique_ptr<CpuHalf> make_cpu_half() override;
    std::string explain(const Decision& decision) const override;
    std::vector<Statistic> statistics() const override;
    std::string summary() const override;
    /// Where ports or TCP flags decide: later fragments have none.
    bool needs_whole_packets() const override;
    /// Where a rule asks for the state of a packet's connection.
    bool reads_connections() const override;
    /// But for rules that ask for flags which only some of the segments have.
    bool takes_uncut() const override;

private:
    void load(const Config& options);
    /// Compiles the rules for the CPU; warns, and leaves `acl_` empty, when that is not to be.
    void compile_acl();
    void build(const Config& options, classify::Searcher searcher);
    void warn_of_ports_never_seen() const;

    classify::RuleSet rules_;
    Image image_;
    Reporter warn_;
    Location where_;
    uint64_t table_bytes_ = 0;
    std::array<classify::EngineChoice, 2> choices_;  // of IPv4, of IPv6
    size_t ipv4_boxes_ = 0, ipv6_boxes_ = 0;
    size_t max_acl_rules_ = 0;
    size_t max_acl_bytes_ = 0;

    std::mutex acl_mutex_;
    bool acl_tried_ = false;
    std::shared_ptr<const classify::Acl> acl_;
};

/// The CPU half: the rule is found by rte_acl, everything else is as in the device half.
std::unique_ptr<CpuHalf> make_acl_half(std::shared_ptr<const classify::Acl> acl, const Firewall::Tables& tables);

}  // namespace millrace::nf::firewall
