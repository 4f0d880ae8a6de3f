// Keeps a copy of what the Linux kernel has over netlink, in a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "millrace/base/descriptor.hpp"
#include "millrace/base/netlink.hpp"
#include "millrace/base/reporter.hpp"
#include "millrace/base/zeroed_allocator.hpp"

namespace millrace::netlink {

/// A copy of something that the kernel has. Its Follower calls it: one call at a time, and with the Follower's lock
/// held unless it says otherwise.
class Copy {
public:
    using Clock = std::chrono::steady_clock;
    enum class Source { events, answers };
    struct Request {
        std::vector<uint8_t> message;
        int may_fail_by = 0;  ///< an errno by which the kernel may refuse it
    };

    virtual ~Copy() = default;
    /// Takes what a datagram says. What it says of the end of an answer goes to Follower::on_answered.
    virtual void take(Bytes message, Source source) = 0;
    /// Rises by each change.
    virtual uint64_t version() const = 0;
    /// What has the kernel tell everything, in this order. Not locked.
    virtual std::vector<Request> requests() const = 0;
    /// Answers to all requests come between these two; what none of them tells is gone.
    virtual void begin_resync() = 0;
    virtual void end_resync() = 0;
    /// Something changed that was not told.
    virtual void on_hidden_change() = 0;
    /// Whether only a resync can tell what has changed; asking says that one is made.
    virtual bool take_resync_wanted() = 0;
    /// The kernel refuses what was posted (errno). Not locked.
    virtual void on_refused(int error) = 0;
    /// Does what else there is to do, now and then; returns when it wants to be called again. Not locked.
    virtual Clock::time_point work(Clock::time_point now) { return now + std::chrono::seconds(1); }
};

/// Follows the kernel of the network namespace in which it was made.
class Follower {
public:
    struct Options {
        int protocol = 0;                     ///< NETLINK_ROUTE, …
        std::vector<unsigned> groups;         ///< of its events
        std::vector<unsigned> optional = {};  ///< groups that the kernel may not know
        std::string what;                     ///< is followed: "routes"
        std::string thread;                   ///< its name
    };

    /// Opens the sockets. Throws std::runtime_error where it can't.
    Follower(Options options, Copy& copy, Location where, Reporter reporter);
    ~Follower();

    /// Returns when the kernel has told all that there is; from then on a thread follows. Throws std::runtime_error
    /// when it does not tell.
    void start();

    /// Of what the copy has: hold it to read.
    std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
    /// The copy's; cheap.
    uint64_t version() const { return version_.load(); }
    /// Whether the kernel has told anything that this version may not have: read or still to be read. Cheap.
    bool has_news(uint64_t version) const;
    /// Has `told` called when there are changes that nobody was told of yet, by the follower's thread; an empty one
    /// ends that. It is told once, until somebody has taken what the copy has.
    void on_change(std::function<void()> told);
    /// Somebody has. Locked.
    void on_taken() { is_told_ = false; }

    /// Has the kernel take a message, soon. Any thread.
    void post(std::vector<uint8_t> message);

    // For the copy, which calls them while it takes something.
    /// The answer to a request is complete (`error` 0), or the kernel refused it (errno).
    void on_answered(uint32_t sequence, int error);
    /// A message that breaks off or contradicts itself; it was left out. The first is warned of.
    void on_malformed();

    /// Any thread.
    void warn(const std::string& message, const std::string& hint) const;
    struct Counts {
        uint64_t resyncs = 0, malformed = 0;
    };
    /// Locked.
    const Counts& counts() const { return counts_; }

private:
    using Clock = Copy::Clock;
    int open(bool follows) const;
    [[noreturn]] void fail(const std::string& what) const;
    void run();
    void follow_once();
    Received receive_from(const Descriptor& socket, Bytes& message);
    bool receive(const Descriptor& socket, Copy::Source source);
    void ask(Copy::Request request);
    void resync();
    void send_posted();
    void tell_of_change();

    const Options options_;
    Copy& copy_;
    const Location where_;
    const Reporter reporter_;
    const Descriptor events_, requests_, posts_;
    const Descriptor wake_;                                  // to end, or to send what is posted
    std::vector<uint8_t, ZeroedAllocator<uint8_t>> buffer_;  // messages are seldom as long as it is
    size_t used_ = 0;                                        // bytes of it that messages have been in
    uint32_t sequence_ = 0, answered_ = 0;
    int answer_error_ = 0;
    Clock::time_point work_at_{};
    Clock::time_point resync_wanted_{};    // from when on; the epoch: not
    Clock::time_point resync_possible_{};  // from when on

    mutable std::mutex mutex_;  // what is below, and the copy
    std::vector<std::vector<uint8_t>> posted_;
    Counts counts_;
    uint64_t told_version_ = 0;
    bool is_told_ = false;              // and nobody has taken anything since
    std::atomic<uint64_t> version_{0};  // of the copy
    std::atomic<bool> reading_{false};  // messages that the version does not show yet
    std::atomic<bool> stopping_{false};
    std::mutex telling_;  // what is below; taken before the other one, which nobody holds while `told_` is called
    std::function<void()> told_;
    std::thread thread_;
};

}  // namespace millrace::netlink
