// One tenant's process that is attached: who it is, what it has been asked, and how it behaves.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "millrace/tenancy/exchange.hpp"

namespace millrace::tenancy {

/// How much of what is borne with.
struct Patience {
    std::chrono::nanoseconds answer = std::chrono::milliseconds(10);  ///< to a batch
    uint32_t wrong = 0;                                               ///< answers; one more, and it is detached
    uint32_t late = 3;                                                ///< batches in a row
    uint32_t unasked = 8;                                             ///< messages on the socket after the greeting
};

/// Why a tenant was detached.
enum class Parting : uint8_t {
    none,   ///< it is attached
    gone,   ///< its process has ended or closed the socket
    late,   ///< too many batches in a row had no answer in time
    wrong,  ///< it answered what it may not
    flood,  ///< it sent what nobody asked for
};
inline constexpr const char* kPartingNames[] = {"none", "gone", "late", "wrong", "flood"};
inline const char* name_of(Parting parting) { return kPartingNames[static_cast<int>(parting)]; }

struct Counters {
    uint64_t asked = 0, good = 0;  ///< batches
    uint64_t late = 0, wrong = 0;  ///< batches
    uint64_t unasked = 0;          ///< messages
    uint64_t lost = 0;             ///< batches that it had when it was detached
};

class Attachment {
public:
    using Clock = std::chrono::steady_clock;

    Attachment(std::string name, uid_t user, pid_t process, std::unique_ptr<io::Descriptor> socket, const Shape& shape,
               const Patience& patience);

    const std::string& name() const { return name_; }
    uid_t user() const { return user_; }
    pid_t process() const { return process_; }
    const Counters& counters() const { return counters_; }
    Parting parting() const { return parting_; }
    bool attached() const { return parting_ == Parting::none; }
    const Exchange& exchange() const { return exchange_; }
    int socket() const { return socket_->get(); }

    /// Exchange::ask; false also where nobody is attached any more.
    bool ask(std::span<const std::span<const uint8_t>> packets, uint64_t id, Clock::time_point now);

    /// What became of the oldest batch.
    enum class Fate {
        waits,  ///< for its answer; or there is none
        good,   ///< `taken` is the answer
        absent  ///< there is no answer: it was late or wrong, or the tenant is gone. `taken.id` says of which batch
    };
    /// Never waits.
    Fate next(Exchange::Taken& taken, Clock::time_point now);

private:
    void listen();
    void part(Parting why) { parting_ = parting_ == Parting::none ? why : parting_; }

    const std::string name_;
    const uid_t user_;
    const pid_t process_;
    const std::unique_ptr<io::Descriptor> socket_;
    const Patience patience_;
    Exchange exchange_;
    Waiting<Clock::time_point> asked_at_;  // of the batches that wait
    Counters counters_;
    uint32_t late_in_a_row_ = 0;
    Parting parting_ = Parting::none;
};

}  // namespace millrace::tenancy
