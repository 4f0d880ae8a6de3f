#include "millrace/nf/ipsec/kernel/watch.hpp"

#include <linux/xfrm.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace millrace::nf::ipsec {
namespace {

using namespace std::chrono_literals;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr auto kAnswerWithin = 30s;  ///< then the kernel is not expected to answer any more
constexpr auto kTellUseAfter = 1s;
constexpr int kLookAgain = 100;       ///< in ms: whether it is to end, beside an answer
constexpr auto kResyncAfter = 100ms;  ///< more changes often follow
constexpr auto kResyncPause = 1s;     ///< between resyncs; at least ten times as long as the last one took

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error("the kernel's SAs can't be followed: " + what + ": " + std::strerror(errno));
}

int open_or_fail(const std::vector<unsigned>& groups) {
    const int fd = netlink::open_socket(NETLINK_XFRM, groups);
    if (fd < 0) fail("netlink");
    return fd;
}

}  // namespace

XfrmWatch::XfrmWatch(uint16_t udp_port, Config place, Reporter warn)
    : udp_port_(udp_port), where_(place.where()), warn_(std::move(warn)),
      events_(open_or_fail({XFRMNLGRP_SA, XFRMNLGRP_POLICY, XFRMNLGRP_EXPIRE, XFRMNLGRP_MIGRATE})),
      requests_(open_or_fail({})), posts_(open_or_fail({})), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kBufferBytes),
      database_(udp_port, std::move(place),
                [this](const std::string& message, const std::string& hint) { tell(message, hint); }) {
    if (wake_.get() < 0) fail("no event descriptor");
    // What changes meanwhile waits among the events.
    dump(false);
    dump(true);
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "kernel-sas");
}

XfrmWatch::~XfrmWatch() {
    stopping_ = true;
    eventfd_write(wake_.get(), 1);
    thread_.join();
    explicit_bzero(buffer_.data(), buffer_.size());  // keys came through it
}

void XfrmWatch::tell(const std::string& message, const std::string& hint) const {
    warn_({where_, message, hint, Diagnostic::Severity::warning});
}

void XfrmWatch::on_malformed() {
    if (counts_.malformed++ == 0) tell("the kernel sent a message that can't be read; it was left out", "");
}

void XfrmWatch::on_answered(uint32_t sequence, int error) {
    answered_ = sequence;
    answer_error_ = error;
}

/// Reads all that a socket has.
void XfrmWatch::receive(const netlink::Descriptor& socket) {
    reading_ = true;
    for (netlink::Bytes message;;) {
        const netlink::Received received = netlink::receive(socket.get(), buffer_, message);
        if (received == netlink::Received::nothing) break;
        const std::lock_guard lock(mutex_);
        if (received == netlink::Received::lost) database_.on_hidden_change();
        else parse_xfrm(message, *this);
        version_ = database_.version();
    }
    reading_ = false;
}

bool XfrmWatch::has_news(uint64_t version) const {
    // In this order: a message is waiting, or being read, or in the version.
    pollfd waiting{events_.get(), POLLIN, 0};
    return poll(&waiting, 1, 0) > 0 || reading_ || version_ != version;
}

/// Has the kernel tell all SAs, or all policies. Throws std::runtime_error.
void XfrmWatch::dump(bool policies) {
    if (++sequence_ == 0) ++sequence_;
    const std::vector<uint8_t> request = xfrm_dump_request(policies, sequence_);
    if (send(requests_.get(), request.data(), request.size(), 0) < 0) fail("a request");
    answer_error_ = 0;
    for (const auto until = Clock::now() + kAnswerWithin; answered_ != sequence_ && !stopping_;) {
        pollfd waiting{requests_.get(), POLLIN, 0};
        poll(&waiting, 1, kLookAgain);
        receive(requests_);
        if (Clock::now() > until) throw std::runtime_error("the kernel's SAs can't be followed: no answer");
    }
    errno = answer_error_;
    if (errno != 0) fail("an answer");
}

void XfrmWatch::resync() {
    const auto begin = Clock::now();
    {
        const std::lock_guard lock(mutex_);
        database_.begin_resync();
        ++counts_.resyncs;
    }
    dump(false);
    dump(true);
    if (stopping_) return;
    const std::lock_guard lock(mutex_);
    database_.end_resync();
    version_ = database_.version();
    resync_possible_ = Clock::now() + std::max<Clock::duration>(kResyncPause, 10 * (Clock::now() - begin));
}

void XfrmWatch::run() {
    while (!stopping_) {
        try {
            look_once();
        } catch (const std::exception& error) {
            tell(error.what(), "SAs and policies stay as they were; it is tried again");
            const std::lock_guard lock(mutex_);
            database_.on_hidden_change();
            resync_possible_ = Clock::now() + 10 * kResyncPause;
        }
    }
}

/// Waits for something to do, and does it.
void XfrmWatch::look_once() {
    std::chrono::milliseconds wait = 1s;
    if (resync_wanted_ != Clock::time_point{})
        wait = std::chrono::duration_cast<std::chrono::milliseconds>(std::max(resync_wanted_, resync_possible_) -
                                                                     Clock::now());
    pollfd waiting[] = {{events_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    poll(waiting, 2, static_cast<int>(std::clamp<int64_t>(wait.count() + 1, 0, 1000)));
    receive(events_);
    tell_of_change();
    send_posted();
    const auto now = Clock::now();
    {
        const std::lock_guard lock(mutex_);
        if (database_.take_resync_wanted() && resync_wanted_ == Clock::time_point{})
            resync_wanted_ = now + kResyncAfter;
    }
    if (resync_wanted_ == Clock::time_point{} || now < std::max(resync_wanted_, resync_possible_)) return;
    resync_wanted_ = {};
    resync();
    tell_of_change();
}

void XfrmWatch::post(std::vector<uint8_t> message) {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(message));
    if (posted_.size() == 1) eventfd_write(wake_.get(), 1);
}
void XfrmWatch::on_change(std::function<void()> told) {
    const std::lock_guard lock(telling_);
    told_ = std::move(told);
}

void XfrmWatch::tell_of_change() {
    const uint64_t version = version_;
    const std::lock_guard lock(telling_);
    if (std::exchange(told_version_, version) != version && told_) told_();
}

bool XfrmWatch::take_use_wanted() {
    const auto now = Clock::now();
    if (now < use_told_ + kTellUseAfter) return false;
    use_told_ = now;
    return true;
}
void XfrmWatch::tell_end(const XfrmId& id, bool hard) { post(xfrm_end(id, hard, 0)); }
void XfrmWatch::tell_use(const XfrmId& id, const KernelUse& use) { post(xfrm_use(id, use, 0)); }

/// The kernel answers nothing but refusals: that there is no such SA any more, mostly.
void XfrmWatch::send_posted() {
    eventfd_t woken = 0;
    eventfd_read(wake_.get(), &woken);
    std::vector<std::vector<uint8_t>> posted;
    {
        const std::lock_guard lock(mutex_);
        posted.swap(posted_);
    }
    for (const std::vector<uint8_t>& message : posted) {
        send(posts_.get(), message.data(), message.size(), 0);
        for (netlink::Bytes answer; netlink::receive(posts_.get(), buffer_, answer) == netlink::Received::message;)
            netlink::for_each_message(answer, [&](const nlmsghdr& head, netlink::Bytes body) {
                const int error = netlink::answered(head.nlmsg_type, body).value_or(0);
                if (error == 0 || error == ESRCH || error == ENOENT || error == EINVAL) return;
                if (!std::exchange(told_refusal_, true))
                    tell(std::string("the kernel can't be told how SAs are used: ") + std::strerror(error), "");
            });
    }
}

uint64_t XfrmWatch::add_to(Options& options) const {
    const std::lock_guard lock(mutex_);
    database_.add_to(options);
    return database_.version();
}

XfrmWatch::Counts XfrmWatch::counts() const {
    const std::lock_guard lock(mutex_);
    Counts counts = counts_;
    counts.sas = database_.sas();
    counts.policies = database_.policies();
    return counts;
}

}  // namespace millrace::nf::ipsec
