#include "millrace/nf/router/kernel/kernel_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace millrace::nf::router {
namespace {

using namespace std::chrono_literals;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr auto kTurn = 1s;            ///< between questions about neighbours
constexpr auto kAnswerWithin = 30s;   ///< then the kernel is not expected to answer any more
constexpr auto kResyncAfter = 200ms;  ///< more changes often follow
constexpr auto kResyncPause = 1s;     ///< between resyncs; at least ten times as long as the last one took
/// Between two looks for changes while there are many: being woken for each costs whoever makes them half of their
/// time.
constexpr auto kGather = 300us;
constexpr size_t kMaxQuestions = 100;

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error("the kernel's routes can't be followed: " + what + ": " + std::strerror(errno));
}

}  // namespace

int KernelWatch::open_socket(const std::vector<unsigned>& groups) {
    // Kernels before 5.3 have no objects for next hops.
    const bool follows = !groups.empty();
    const int fd = netlink::open_socket(NETLINK_ROUTE, groups,
                                        follows ? std::vector<unsigned>{RTNLGRP_NEXTHOP} : std::vector<unsigned>{});
    if (fd < 0) fail("netlink");
    return fd;
}

KernelWatch::KernelWatch(KernelOptions options, Location where, Reporter warn)
    : options_(std::move(options)), where_(std::move(where)), warn_(std::move(warn)),
      events_(open_socket({RTNLGRP_LINK, RTNLGRP_NEIGH, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_IFADDR,
                           RTNLGRP_IPV6_ROUTE})),
      requests_(open_socket({})), questions_(open_socket({})), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kBufferBytes),
      table_(options_, [this](const std::string& message, const std::string& hint) { tell(message, hint); }) {
    if (stop_.get() < 0) fail("no event descriptor");
    // What changes meanwhile waits among the events.
    dump_all();
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "kernel-routes");
}

KernelWatch::~KernelWatch() {
    stopping_ = true;
    eventfd_write(stop_.get(), 1);
    thread_.join();
}

void KernelWatch::tell(const std::string& message, const std::string& hint) const {
    warn_({where_, message, hint, Diagnostic::Severity::warning});
}

void KernelWatch::on_malformed() {
    if (counts_.malformed++ == 0) tell("the kernel sent a message that can't be read; it was left out", "");
}

void KernelWatch::on_answered(uint32_t sequence, int error, bool inconsistent) {
    if (sequence == 0) {
        if (error != EPERM || !std::exchange(can_ask_, false)) return;
        tell("the kernel does not let neighbours be asked for: gateways are found only as packets are punted for them",
             "it takes the right CAP_NET_ADMIN");
        return;
    }
    answered_ = sequence;
    answer_error_ = error;
    if (inconsistent) table_.on_hidden_change();
}

/// Reads all that a socket has; false when that is nothing.
bool KernelWatch::receive(const netlink::Descriptor& socket, MessageParser& parser) {
    bool any = false;
    for (netlink::Bytes message;; any = true) {
        const netlink::Received received = netlink::receive(socket.get(), buffer_, message);
        if (received == netlink::Received::nothing) return any;
        const std::lock_guard lock(mutex_);
        if (received == netlink::Received::lost) {
            table_.on_hidden_change();
        } else {
            parser.parse(message);
            version_ = table_.version();
        }
    }
}

/// Has the kernel tell everything of a kind. Throws std::runtime_error, unless it is refused by `may_fail_by`.
void KernelWatch::dump(uint16_t type, uint8_t family, int may_fail_by) {
    if (++sequence_ == 0) ++sequence_;
    const std::vector<uint8_t> request = dump_request(type, family, sequence_);
    if (send(requests_.get(), request.data(), request.size(), 0) < 0) fail("a request");
    answer_error_ = 0;
    for (const auto until = Clock::now() + kAnswerWithin; answered_ != sequence_ && !stopping_;) {
        pollfd waiting[] = {{requests_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
        poll(waiting, 2, 1000);
        receive(requests_, answer_parser_);
        if (Clock::now() > until) throw std::runtime_error("the kernel's routes can't be followed: no answer");
    }
    errno = answer_error_;
    if (errno != 0 && errno != may_fail_by) fail("an answer");
}

void KernelWatch::dump_all() {
    dump(RTM_GETLINK, AF_UNSPEC);
    dump(RTM_GETNEXTHOP, AF_UNSPEC, EOPNOTSUPP);  // of routes that are told next; Linux has them since 5.3
    dump(RTM_GETROUTE, AF_INET);
    dump(RTM_GETROUTE, AF_INET6);
    dump(RTM_GETNEIGH, AF_UNSPEC);
}

void KernelWatch::resync() {
    const auto begin = Clock::now();
    {
        const std::lock_guard lock(mutex_);
        table_.begin_resync();
        ++counts_.resyncs;
    }
    dump_all();
    if (stopping_) return;
    const std::lock_guard lock(mutex_);
    table_.end_resync();
    version_ = table_.version();
    resync_possible_ = Clock::now() + std::max<Clock::duration>(kResyncPause, 10 * (Clock::now() - begin));
}

void KernelWatch::ask_about_neighbours(Clock::time_point now) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    std::vector<NeighbourKey> questions;
    {
        const std::lock_guard lock(mutex_);
        questions = table_.questions(static_cast<uint64_t>(seconds), kMaxQuestions);
    }
    for (const NeighbourKey& key : questions) {
        const std::vector<uint8_t> request = use_neighbour_request(key.interface, key.address, 0);
        send(questions_.get(), request.data(), request.size(), 0);  // one that is lost is asked again
    }
    receive(questions_, question_parser_);
}

void KernelWatch::on_change(std::function<void()> told) {
    const std::lock_guard lock(telling_);
    told_ = std::move(told);
}

void KernelWatch::tell_of_change() {
    {
        const std::lock_guard lock(mutex_);
        if (version_ == snapshot_version_ || std::exchange(has_told_, true)) return;
    }
    const std::lock_guard lock(telling_);
    if (told_) told_();
}

void KernelWatch::run() {
    while (!stopping_) {
        try {
            look_once();
        } catch (const std::exception& error) {
            tell(error.what(), "routes stay as they were; it is tried again");
            const std::lock_guard lock(mutex_);
            table_.on_hidden_change();
            resync_possible_ = Clock::now() + 10 * kResyncPause;
        }
    }
}

/// Waits for something to do, and does it.
void KernelWatch::look_once() {
    auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(asked_ + kTurn - Clock::now());
    if (resync_wanted_ != Clock::time_point{})
        wait = std::min(wait, std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::max(resync_wanted_, resync_possible_) - Clock::now()));
    pollfd waiting[] = {{events_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    poll(waiting, 2, static_cast<int>(std::clamp<int64_t>(wait.count() + 1, 0, 1000)));
    if (receive(events_, event_parser_)) {
        tell_of_change();
        std::this_thread::sleep_for(kGather);
    }
    const auto now = Clock::now();
    {
        const std::lock_guard lock(mutex_);
        if (table_.take_resync_wanted() && resync_wanted_ == Clock::time_point{}) resync_wanted_ = now + kResyncAfter;
    }
    if (resync_wanted_ != Clock::time_point{} && now >= std::max(resync_wanted_, resync_possible_)) {
        resync_wanted_ = {};
        resync();
        tell_of_change();
    }
    if (now < asked_ + kTurn) return;
    asked_ = now;
    if (can_ask_) ask_about_neighbours(now);
}

KernelSnapshot KernelWatch::snapshot() {
    const std::lock_guard lock(mutex_);
    if (forwarding_ == nullptr || forwarding_version_ != table_.forwarding_version()) {
        forwarding_ = std::make_shared<const KernelTable::Forwarding>(table_.forwarding());
        forwarding_version_ = table_.forwarding_version();
    }
    has_told_ = false;
    snapshot_version_ = table_.version();
    return {copies4_.of(table_.lpm4()), copies6_.of(table_.lpm6()), forwarding_,
            table_.version(),           table_.lpm4().rib().size(), table_.lpm6().rib().size()};
}

std::optional<ShownTable> KernelWatch::show(std::string_view topic, size_t most) const {
    const std::lock_guard lock(mutex_);
    if (topic == "routes") return table_.show_routes(most);
    if (topic == "neighbours") return table_.show_neighbours(most);
    return {};
}

KernelWatch::Counts KernelWatch::counts() const {
    const std::lock_guard lock(mutex_);
    Counts counts = counts_;
    counts.routes = table_.routes();
    counts.neighbours = table_.resolved_neighbours();
    return counts;
}

}  // namespace millrace::nf::router
