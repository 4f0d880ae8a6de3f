#include "millrace/nf/router/cpu.hpp"

#include "millrace/nf/router/device.hpp"

namespace millrace::nf::router {
namespace {

class CpuRouter : public CpuHalf {
public:
    CpuRouter(const RouterTables& tables, std::shared_ptr<const Fibs> fibs) : tables_(tables), fibs_(std::move(fibs)) {}

    void process(std::span<Packet* const> packets, Decision* decisions) override {
        size_t count4 = 0;
        size_t count6 = 0;
        for (size_t i = 0; i < packets.size(); ++i) {
            if (i + kAhead < packets.size()) __builtin_prefetch(packets[i + kAhead]->data(), 1);
            const Packet& packet = *packets[i];
            const uint32_t outcome = Router::check(packet, tables_);
            if (outcome != Router::kForward) {
                decisions[i] = {kNoDetail, outcome};
            } else if (packet.layers().is_ipv4()) {
                addresses4_[count4] = packet.ipv4_dst();
                packets4_[count4++] = static_cast<uint16_t>(i);
            } else {
                copy_bytes(addresses6_[count6].data(), packet.l3() + 24, 16);
                packets6_[count6++] = static_cast<uint16_t>(i);
            }
        }
        if (count4 > 0) {
            lookup_ipv4(count4);
            finish(packets, decisions, packets4_, count4);
        }
        if (count6 > 0) {
            lookup_ipv6(count6);
            finish(packets, decisions, packets6_, count6);
        }
    }

private:
    static constexpr size_t kAhead = 8;

    void lookup_ipv4(size_t count) {
        if (fibs_ != nullptr) return fibs_->lookup_ipv4({addresses4_, count}, targets_);
        // One miss in a cache at a time would cost more than all else: ask for the entries first.
        const View<Ipv4Entry> root = tables_.prefixes.ipv4_root;
        if (root.size() > kSmallRoot)
            for (size_t i = 0; i < count; ++i) __builtin_prefetch(&root[addresses4_[i] >> 8]);
        for (size_t i = 0; i < count; ++i) targets_[i] = router::lookup_ipv4(tables_.prefixes, addresses4_[i]);
    }
    void lookup_ipv6(size_t count) {
        if (fibs_ != nullptr) return fibs_->lookup_ipv6({addresses6_, count}, targets_);
        for (size_t i = 0; i < count; ++i) targets_[i] = router::lookup_ipv6(tables_.prefixes, addresses6_[i].data());
    }

    void finish(std::span<Packet* const> packets, Decision* decisions, const uint16_t* indexes, size_t count) {
        for (size_t i = 0; i < count; ++i)
            decisions[indexes[i]] = Router::finish(*packets[indexes[i]], tables_, static_cast<uint32_t>(targets_[i]),
                                                   Lanes<1>{});
    }

    const RouterTables& tables_;
    std::shared_ptr<const Fibs> fibs_;
    uint32_t addresses4_[kCpuVector];
    std::array<uint8_t, 16> addresses6_[kCpuVector];
    uint64_t targets_[kCpuVector];
    uint16_t packets4_[kCpuVector];
    uint16_t packets6_[kCpuVector];
};

}  // namespace

std::unique_ptr<CpuHalf> make_cpu_router(const RouterTables& tables, std::shared_ptr<const Fibs> fibs) {
    return std::make_unique<CpuRouter>(tables, std::move(fibs));
}

}  // namespace millrace::nf::router
