#include "millrace/nf/ipsec/kernel/watch.hpp"

#include <linux/xfrm.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace millrace::nf::ipsec {
namespace {

constexpr std::chrono::seconds kTellUseAfter{1};

netlink::Follower::Options followed() {
    return {.protocol = NETLINK_XFRM,
            .groups = {XFRMNLGRP_SA, XFRMNLGRP_POLICY, XFRMNLGRP_EXPIRE, XFRMNLGRP_MIGRATE},
            .what = "SAs and policies",
            .thread = "kernel-sas"};
}

}  // namespace

XfrmWatch::XfrmWatch(uint16_t udp_port, Config place, Reporter warn)
    : udp_port_(udp_port),
      database_(udp_port, place,
                [this](const std::string& message, const std::string& hint) { follower_.warn(message, hint); }),
      follower_(followed(), *this, place.where(), std::move(warn)) {
    follower_.start();
}

std::vector<netlink::Copy::Request> XfrmWatch::requests() const {
    return {{xfrm_dump_request(false, 0)}, {xfrm_dump_request(true, 0)}};
}

bool XfrmWatch::take_use_wanted() {
    const auto now = Clock::now();
    if (now < use_told_ + kTellUseAfter) return false;
    use_told_ = now;
    return true;
}

/// That there is no such SA any more, mostly.
void XfrmWatch::on_refused(int error) {
    if (error == ESRCH || error == ENOENT || error == EINVAL || std::exchange(told_refusal_, true)) return;
    follower_.warn(std::string("the kernel can't be told how SAs are used: ") + std::strerror(error), "");
}

uint64_t XfrmWatch::add_to(Options& options) {
    const auto lock = follower_.lock();
    database_.add_to(options);
    follower_.on_taken();
    return database_.version();
}

XfrmWatch::Counts XfrmWatch::counts() const {
    const auto lock = follower_.lock();
    return {database_.sas(), database_.policies(), follower_.counts().resyncs, follower_.counts().malformed};
}

}  // namespace millrace::nf::ipsec
