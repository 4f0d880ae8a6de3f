#include "millrace/tenancy/attachment.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace millrace::tenancy {

Attachment::Attachment(std::string name, uid_t user, pid_t process, std::unique_ptr<io::Descriptor> socket,
                       const Shape& shape, const Patience& patience)
    : name_(std::move(name)), user_(user), process_(process), socket_(std::move(socket)), patience_(patience),
      exchange_(shape) {}

bool Attachment::ask(std::span<const std::span<const uint8_t>> packets, uint64_t id, Clock::time_point now) {
    if (!attached() || !exchange_.ask(packets, id)) return false;
    asked_at_.push(now);
    ++counters_.asked;
    return true;
}

Attachment::Fate Attachment::next(Exchange::Taken& taken, Clock::time_point now) {
    // What was answered before it went away counts, so look for that first.
    if (attached()) {
        const Exchange::Reply reply = exchange_.take(taken);
        if (reply != Exchange::Reply::none) {
            asked_at_.pop();
            late_in_a_row_ = 0;
            if (reply == Exchange::Reply::good) {
                ++counters_.good;
                return Fate::good;
            }
            if (++counters_.wrong > patience_.wrong) part(Parting::wrong);
            return Fate::absent;
        }
        listen();
    }
    if (exchange_.waiting() == 0) return Fate::waits;
    if (attached()) {
        if (now - asked_at_.front() <= patience_.answer) return Fate::waits;
        ++counters_.late;
        if (++late_in_a_row_ > patience_.late) part(Parting::late);
    } else {
        ++counters_.lost;
    }
    asked_at_.pop();
    taken.id = exchange_.give_up();
    return Fate::absent;
}

void Attachment::listen() {
    char bytes[64];
    const ssize_t n = recv(socket_->get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) part(Parting::gone);
    else if (n > 0 && ++counters_.unasked > patience_.unasked) part(Parting::flood);
}

}  // namespace millrace::tenancy
