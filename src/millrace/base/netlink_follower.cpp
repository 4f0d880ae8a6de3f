#include "millrace/base/netlink_follower.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace millrace::netlink {
namespace {

using namespace std::chrono_literals;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr auto kAnswerWithin = 30s;   ///< then the kernel is not expected to answer any more
constexpr int kLookAgain = 100;       ///< in ms: whether it is to end, beside an answer
constexpr auto kResyncAfter = 100ms;  ///< more changes often follow
constexpr auto kResyncPause = 1s;     ///< between resyncs; at least ten times as long as the last one took
constexpr auto kMaxWait = 1s;
/// Between two looks for changes while there are many: being woken for each costs whoever makes them half of their
/// time.
constexpr auto kGather = 300us;

}  // namespace

void Follower::fail(const std::string& what) const {
    throw std::runtime_error("the kernel's " + options_.what + " can't be followed: " + what + ": " +
                             std::strerror(errno));
}

int Follower::open(bool follows) const {
    const int fd = follows ? open_socket(options_.protocol, options_.groups, options_.optional)
                           : open_socket(options_.protocol, {});
    if (fd < 0) fail("netlink");
    return fd;
}

Follower::Follower(Options options, Copy& copy, Location where, Reporter reporter)
    : options_(std::move(options)), copy_(copy), where_(std::move(where)), reporter_(std::move(reporter)),
      events_(open(true)), requests_(open(false)), posts_(open(false)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kBufferBytes) {
    if (wake_.get() < 0) fail("no event descriptor");
}

Follower::~Follower() {
    stopping_ = true;
    eventfd_write(wake_.get(), 1);
    if (thread_.joinable()) thread_.join();
    explicit_bzero(buffer_.data(), used_);  // keys may have come through it
}

void Follower::start() {
    // What changes meanwhile waits among the events.
    for (Copy::Request& request : copy_.requests()) ask(std::move(request));
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), options_.thread.c_str());
}

void Follower::warn(const std::string& message, const std::string& hint) const {
    reporter_({where_, message, hint, Diagnostic::Severity::warning});
}

void Follower::on_malformed() {
    if (counts_.malformed++ == 0) warn("the kernel sent a message that can't be read; it was left out", "");
}

void Follower::on_answered(uint32_t sequence, int error) {
    answered_ = sequence;
    answer_error_ = error;
}

/// Reads one message, which is in the buffer until the next one.
Received Follower::receive_from(const Descriptor& socket, Bytes& message) {
    const Received received = netlink::receive(socket.get(), buffer_, message);
    // Of a message that did not fit there is as much as fits.
    if (received == Received::message) used_ = std::max(used_, message.size());
    if (received == Received::lost) used_ = buffer_.size();
    return received;
}

/// Reads all that a socket has; false when that is nothing.
bool Follower::receive(const Descriptor& socket, Copy::Source source) {
    bool any = false;
    reading_ = true;
    for (Bytes message;; any = true) {
        const Received received = receive_from(socket, message);
        if (received == Received::nothing) break;
        const std::lock_guard lock(mutex_);
        if (received == Received::lost) copy_.on_hidden_change();
        else copy_.take(message, source);
        version_ = copy_.version();
    }
    reading_ = false;
    return any;
}

bool Follower::has_news(uint64_t version) const {
    // In this order: a message is waiting, or being read, or in the version.
    pollfd waiting{events_.get(), POLLIN, 0};
    return poll(&waiting, 1, 0) > 0 || reading_ || version_ != version;
}

/// Waits for the whole answer. Throws std::runtime_error.
void Follower::ask(Copy::Request asked) {
    std::vector<uint8_t>& request = asked.message;
    if (++sequence_ == 0) ++sequence_;
    std::memcpy(request.data() + offsetof(nlmsghdr, nlmsg_seq), &sequence_, sizeof sequence_);
    if (send(requests_.get(), request.data(), request.size(), 0) < 0) fail("a request");
    answer_error_ = 0;
    for (const auto until = Clock::now() + kAnswerWithin; answered_ != sequence_ && !stopping_;) {
        pollfd waiting{requests_.get(), POLLIN, 0};
        poll(&waiting, 1, kLookAgain);
        receive(requests_, Copy::Source::answers);
        errno = ETIMEDOUT;
        if (Clock::now() > until) fail("no answer");
    }
    errno = answer_error_;
    if (errno != 0 && errno != asked.may_fail_by) fail("an answer");
}

void Follower::resync() {
    const auto begin = Clock::now();
    {
        const std::lock_guard lock(mutex_);
        copy_.begin_resync();
        ++counts_.resyncs;
    }
    for (Copy::Request& request : copy_.requests()) ask(std::move(request));
    if (stopping_) return;
    const std::lock_guard lock(mutex_);
    copy_.end_resync();
    version_ = copy_.version();
    resync_possible_ = Clock::now() + std::max<Clock::duration>(kResyncPause, 10 * (Clock::now() - begin));
}

void Follower::run() {
    while (!stopping_) {
        try {
            follow_once();
        } catch (const std::exception& error) {
            warn(error.what(), options_.what + " stay as they were; it is tried again");
            const std::lock_guard lock(mutex_);
            copy_.on_hidden_change();
            resync_possible_ = Clock::now() + 10 * kResyncPause;
        }
    }
}

/// Waits for something to do, and does it.
void Follower::follow_once() {
    Clock::duration wait = work_at_ - Clock::now();
    if (resync_wanted_ != Clock::time_point{})
        wait = std::min(wait, std::max(resync_wanted_, resync_possible_) - Clock::now());
    const auto bounded = std::chrono::ceil<std::chrono::milliseconds>(
        std::clamp<Clock::duration>(wait, Clock::duration::zero(), kMaxWait));
    pollfd waiting[] = {{events_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    poll(waiting, 2, static_cast<int>(bounded.count()));
    const bool any = receive(events_, Copy::Source::events);
    tell_of_change();
    if (any) std::this_thread::sleep_for(kGather);
    send_posted();
    const auto now = Clock::now();
    {
        const std::lock_guard lock(mutex_);
        if (copy_.take_resync_wanted() && resync_wanted_ == Clock::time_point{}) resync_wanted_ = now + kResyncAfter;
    }
    if (resync_wanted_ != Clock::time_point{} && now >= std::max(resync_wanted_, resync_possible_)) {
        resync_wanted_ = {};
        resync();
        tell_of_change();
    }
    if (now >= work_at_) work_at_ = copy_.work(now);
}

void Follower::post(std::vector<uint8_t> message) {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(message));
    if (posted_.size() == 1) eventfd_write(wake_.get(), 1);
}

/// The kernel answers nothing but refusals.
void Follower::send_posted() {
    eventfd_t woken = 0;
    eventfd_read(wake_.get(), &woken);
    std::vector<std::vector<uint8_t>> posted;
    {
        const std::lock_guard lock(mutex_);
        posted.swap(posted_);
    }
    for (const std::vector<uint8_t>& message : posted) {
        send(posts_.get(), message.data(), message.size(), 0);
        for (Bytes answer; receive_from(posts_, answer) == Received::message;)
            for_each_message(answer, [&](const nlmsghdr& head, Bytes body) {
                const int error = answered(head.nlmsg_type, body).value_or(0);
                if (error != 0) copy_.on_refused(error);
            });
    }
}

void Follower::on_change(std::function<void()> told) {
    const std::lock_guard telling(telling_);
    told_ = std::move(told);
    const std::lock_guard lock(mutex_);
    // What has come since it took the copy is new to it.
    told_version_ = 0;
    is_told_ = false;
    eventfd_write(wake_.get(), 1);
}

void Follower::tell_of_change() {
    const std::lock_guard telling(telling_);
    if (!told_) return;
    {
        const std::lock_guard lock(mutex_);
        if (version_ == told_version_ || is_told_) return;
        told_version_ = version_;
        is_told_ = true;
    }
    told_();
}

}  // namespace millrace::netlink
