// How the gateway follows the kernel's SAs and policies.
#include <ctime>

#include "millrace/nf/ipsec/host.hpp"

namespace millrace::nf::ipsec {

XfrmId id_of(const SaOptions& sa) { return {sa.inbound ? sa.sa.local : sa.sa.remote, sa.sa.spi, sa.sa.ipv6}; }

void IpsecHost::follow_kernel(const Config& options, const Environment& environment) {
    const Config place = options.at("kernel");
    const auto* before = dynamic_cast<const IpsecHost*>(environment.previous);
    if (before != nullptr && before->watch_ != nullptr && before->watch_->udp_port() == configured_->udp_port) {
        watch_ = before->watch_;
    } else {
        try {
            watch_ = std::make_shared<XfrmWatch>(configured_->udp_port, place, environment.warn);
        } catch (const std::runtime_error& error) {
            place.fail(error.what(), "it takes the right CAP_NET_ADMIN, and a kernel with XFRM");
        }
    }
    Options all = *configured_;
    kernel_version_ = watch_->add_to(all);
    options_ = std::make_shared<const Options>(std::move(all));
}

/// Has the kernel take over what its SAs have done, so that others see it there.
void IpsecHost::tell_use() const {
    if (watch_ == nullptr || !watch_->take_use_wanted()) return;
    for (size_t i = configured_->sas.size(); i < options_->sas.size(); ++i) {
        const SaOptions& sa = options_->sas[i];
        const uint32_t slot = (*sas_)[i].slot;
        SaState::Record& record = state_->record(slot);
        const uint64_t bytes = state_->used_bytes(slot);
        if (!sa.kernel || bytes == record.told_bytes) continue;
        record.told_bytes = bytes;
        if (record.first_used == 0)
            record.first_used = sa.kernel->first_used != 0 ? sa.kernel->first_used
                                                           : static_cast<uint64_t>(std::time(nullptr));
        const uint64_t packets = sa.inbound ? std::min(state_->received(slot), state_->highest(slot))
                                            : state_->given_out(slot);
        watch_->tell_use(id_of(sa), {sa.kernel->added, record.first_used, bytes, packets});
    }
}

std::shared_ptr<NetworkFunction> IpsecHost::next_of_kernel() {
    if (watch_ == nullptr || !watch_->is_newer_than(kernel_version_)) return nullptr;
    const auto begin = Lifetimes::Clock::now();
    if (begin < next_kernel_) return nullptr;
    // So many times as long as making a generation took there is none, and not for long when that fails.
    constexpr int kRest = 4;
    constexpr std::chrono::milliseconds kAfterFailure{1000};
    uint64_t version = 0;
    try {
        Options all = *configured_;
        version = watch_->add_to(all);
        auto made = std::make_shared<IpsecHost>(*this, std::move(all), version);
        const auto end = Lifetimes::Clock::now();
        made->next_kernel_ = end + kRest * (end - begin);
        return made;
    } catch (const std::exception& error) {
        next_kernel_ = begin + kAfterFailure;
        refused_version_ = version;
        warn_({{}, error.what(), "the SAs and policies of before stay at work", Diagnostic::Severity::warning});
        return nullptr;
    }
}

/// The peer sends by a new SA as soon as an IKE daemon's message says so: that SA must be at work here by then.
bool IpsecHost::is_control(const Packet& packet) const {
    constexpr uint16_t kIke = 500, kIkeThroughNat = 4500;  // RFC 7296, section 2
    const Layers& layers = packet.layers();
    if (watch_ == nullptr || layers.malformed != Malformed::no || layers.protocol != ip::kProtocolUdp) return false;
    if (!layers.has_ports() || layers.is_fragment()) return layers.is_fragment();
    const uint16_t from = packet.l4_src_port(), to = packet.l4_dst_port();
    const auto is_ike = [&](uint16_t port) {
        return port == kIke || port == kIkeThroughNat || port == configured_->udp_port;
    };
    return is_ike(from) || is_ike(to);
}

bool IpsecHost::has_news() const {
    if (watch_ == nullptr || !watch_->has_news(kernel_version_)) return false;
    return refused_version_ == 0 || watch_->has_news(refused_version_);
}

}  // namespace millrace::nf::ipsec
