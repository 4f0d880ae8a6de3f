#include "millrace/tenancy/attachment.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace millrace::tenancy {

Attachment::Attachment(std::string name, uid_t user, pid_t process, std::unique_ptr<io::Descriptor> socket,
                       const Shape& shape, const Terms& terms, const Patience& patience)
    : name_(std::move(name)), user_(user), process_(process), socket_(std::move(socket)), terms_(terms),
      patience_(patience), memory_(std::make_shared<const SharedMemory>(shape)) {
    for (uint32_t i = 0; i < shape.lanes; ++i) lanes_.push_back(std::make_unique<Lane>(*this, memory_, i));
}

Attachment::~Attachment() = default;

void Attachment::listen() {
    char bytes[64];
    const ssize_t n = recv(socket_->get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return part(Parting::gone);
    if (n < 0) return;
    unasked_.add(1);
    if (unasked_.get() > patience_.unasked) part(Parting::flood);
}

void Attachment::part(Parting why) {
    Parting none = Parting::none;
    parting_.compare_exchange_strong(none, why, std::memory_order_acq_rel);
}

bool Lane::ask(std::span<const Shown> packets, uint64_t id, Clock::time_point now) {
    if (!attachment_.attached() || !exchange_.ask(packets, id)) return false;
    asked_at_.push(now);
    counters_.asked.add(1);
    return true;
}

Lane::Reply Lane::next(Exchange::Taken& taken, Clock::time_point now) {
    if (exchange_.waiting() == 0) return Reply::waits;
    const auto part_of = [&](Reply reply, Counter& counter) {
        counter.add(1);
        asked_at_.pop();
        return reply;
    };
    // Of one that was told of already, nothing counts.
    const bool may_answer = attachment_.parting() == Parting::none || attachment_.parting() == Parting::gone;
    const Exchange::Reply reply = may_answer ? exchange_.take(taken) : Exchange::Reply::none;
    if (reply == Exchange::Reply::good) {
        late_in_a_row_ = 0;
        counters_.answer_ns.record(static_cast<uint64_t>((now - asked_at_.front()).count()));
        return part_of(Reply::good, counters_.good);
    }
    if (reply == Exchange::Reply::wrong) {
        if (counters_.wrong.get() + 1 > attachment_.patience().wrong) attachment_.part(Parting::wrong);
        return part_of(Reply::wrong, counters_.wrong);
    }
    if (!attachment_.attached()) {
        taken.id = exchange_.give_up();
        return part_of(Reply::lost, counters_.lost);
    }
    if (now - asked_at_.front() <= attachment_.patience().answer) return Reply::waits;
    if (++late_in_a_row_ > attachment_.patience().late) attachment_.part(Parting::late);
    taken.id = exchange_.give_up();
    return part_of(Reply::late, counters_.late);
}

uint64_t Lane::give_up() {
    counters_.late.add(1);
    asked_at_.pop();
    return exchange_.give_up();
}

}  // namespace millrace::tenancy
