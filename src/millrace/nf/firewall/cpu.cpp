#include "millrace/nf/firewall/host.hpp"

namespace millrace::nf::firewall {
namespace {

class AclHalf : public CpuHalf {
public:
    AclHalf(std::shared_ptr<const classify::Acl> acl, const Firewall::Tables& tables)
        : acl_(std::move(acl)), tables_(tables) {}

    void process(std::span<Packet* const> packets, Decision* decisions) override {
        acl_->find(packets, rules_);
        for (size_t i = 0; i < packets.size(); ++i)
            decisions[i] = Firewall::decide(*packets[i], tables_, [&] { return rules_[i]; });
    }

private:
    std::shared_ptr<const classify::Acl> acl_;
    const Firewall::Tables& tables_;
    uint32_t rules_[kCpuVector];
};
static_assert(kCpuVector <= classify::Acl::kMaxKeys);

}  // namespace

std::unique_ptr<CpuHalf> make_acl_half(std::shared_ptr<const classify::Acl> acl, const Firewall::Tables& tables) {
    return std::make_unique<AclHalf>(std::move(acl), tables);
}

}  // namespace millrace::nf::firewall
