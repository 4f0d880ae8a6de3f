#include "millrace/tenancy/manager/attachment.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "millrace/tenancy/exchange/fields.hpp"
#include "millrace/tenancy/exchange/message.hpp"

namespace millrace::tenancy {

Attachment::Attachment(std::string name, uid_t user, pid_t process, std::unique_ptr<Descriptor> socket,
                       const Shape& shape, const Terms& terms, const Patience& patience)
    : name_(std::move(name)), user_(user), process_(process), socket_(std::move(socket)), terms_(terms),
      patience_(patience), memory_(std::make_shared<const SharedMemory>(shape)) {
    for (uint32_t i = 0; i < shape.lanes; ++i) lanes_.push_back(std::make_unique<Lane>(*this, memory_, i));
}

Attachment::~Attachment() = default;

void Attachment::listen() {
    std::array<std::byte, 64> bytes{};
    Descriptor came;
    const ssize_t n = receive_message(socket_->get(), bytes, {&came, 1}, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return part(Parting::gone);
    if (n < 0) return;
    Offer offer;
    std::memcpy(&offer, bytes.data(), sizeof offer);
    const bool sound = n == static_cast<ssize_t>(sizeof offer) && offer.magic == Offer().magic &&
                       offer.version == kVersion && came.get() >= 0;
    if (sound && !offered_) {
        offered_ = true;
        offer_ = std::make_unique<Descriptor>(std::move(came));
        return;
    }
    unasked_.add(1);
    if (unasked_.get() > patience_.unasked) part(Parting::flood);
}

void Attachment::tell(Notice::Kind kind, const std::string& text) const {
    Notice notice;
    notice.kind = kind;
    text.copy(notice.text, sizeof notice.text - 1);
    send(socket_->get(), &notice, sizeof notice, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool Attachment::goes_in_one_piece(const ConfinedFunction* function, const Terms& by) const {
    return attached() && function != nullptr && function->has_passes() && terms() == by;
}

void Attachment::place(std::shared_ptr<ConfinedFunction> function) {
    placed_ = std::move(function);
    placed_at_ = Clock::now();
}

void Attachment::open() { confined_.store(placed_.get(), std::memory_order_release); }

void Attachment::part(Parting why) {
    Parting none = Parting::none;
    parting_.compare_exchange_strong(none, why, std::memory_order_acq_rel);
}

uint32_t Lane::room(const schedule::GpuShare& share) {
    if (waiting() == 0) {
        ConfinedFunction* const placed = attachment_.confined();
        confined_ = placed != nullptr ? &placed->lane(number_) : nullptr;
        rotates_ = placed != nullptr && placed->stages().any();
        if (rotates_) rotation_.use(*confined_, placed->stages());
    }
    if (confined_ != nullptr) {
        const bool has_room = rotates_ ? rotation_.has_room(share) : confined_->has_room(share);
        return has_room ? confined_->batch_packets() : 0;
    }
    return exchange_.waiting() < kSlots ? exchange_.shape().packets : 0;
}

bool Lane::takes(uint32_t length, const Layers& layers, Fields shown) const {
    return confined_ == nullptr || confined_->takes(extent(length, layers, shown));
}

bool Lane::ask(std::span<const Shown> packets, uint64_t id, Clock::time_point now) {
    if (!attachment_.attached()) return false;
    const bool asked = rotates_               ? rotation_.ask(packets, id, now)
                       : confined_ != nullptr ? confined_->ask(packets, id)
                                              : exchange_.ask(packets, id);
    if (!asked) return false;
    asked_at_.push(now);
    counters_.asked.add(1);
    if (confined_ != nullptr) counters_.on_device.add(1);
    return true;
}

/// What came of the oldest batch: `waits`, `good`, `wrong`, or `lost`, by the device that is gone.
Lane::Reply Lane::take(Exchange::Taken& taken, Clock::time_point now) {
    if (confined_ == nullptr) {
        constexpr Reply kReplies[] = {Reply::waits, Reply::good, Reply::wrong};
        return kReplies[static_cast<size_t>(exchange_.take(taken))];
    }
    constexpr Reply kReplies[] = {Reply::waits, Reply::good, Reply::wrong, Reply::lost};
    const Reply reply = kReplies[static_cast<size_t>(rotates_ ? rotation_.take(taken, now) : confined_->take(taken))];
    if (reply == Reply::lost) {
        attachment_.withdraw();
        taken.id = give_up_oldest();
    }
    return reply;
}

Lane::Reply Lane::next(Exchange::Taken& taken, Clock::time_point now) {
    if (waiting() == 0) return Reply::waits;
    const auto part_of = [&](Reply reply, Counter& counter) {
        counter.add(1);
        asked_at_.pop();
        return reply;
    };
    // Of one that was told of already, nothing counts.
    const bool may_answer = attachment_.parting() == Parting::none || attachment_.parting() == Parting::gone;
    const Reply reply = may_answer ? take(taken, now) : Reply::waits;
    if (reply == Reply::good) {
        late_in_a_row_ = 0;
        counters_.answer_ns.record(static_cast<uint64_t>((now - asked_at_.front()).count()));
        return part_of(Reply::good, counters_.good);
    }
    if (reply == Reply::lost) return part_of(Reply::lost, counters_.lost);
    if (reply == Reply::wrong) {
        if (counters_.wrong.get() + 1 > attachment_.patience().wrong) attachment_.part(Parting::wrong);
        return part_of(Reply::wrong, counters_.wrong);
    }
    if (!attachment_.attached()) {
        taken.id = give_up_oldest();
        return part_of(Reply::lost, counters_.lost);
    }
    if (now - asked_at_.front() <= attachment_.patience().answer) return Reply::waits;
    if (++late_in_a_row_ > attachment_.patience().late) attachment_.part(Parting::late);
    taken.id = give_up_oldest();
    return part_of(Reply::late, counters_.late);
}

void Lane::passed(std::chrono::nanoseconds took, bool wrong) {
    const Patience& patience = attachment_.patience();
    const bool late = took > patience.answer;
    counters_.asked.add(1);
    counters_.on_device.add(1);
    counters_.in_chain.add(1);
    counters_.answer_ns.record(static_cast<uint64_t>(took.count()));
    (wrong ? counters_.wrong : late ? counters_.late : counters_.good).add(1);
    late_in_a_row_ = late ? late_in_a_row_ + 1 : 0;
    if (wrong && counters_.wrong.get() > patience.wrong) attachment_.part(Parting::wrong);
    if (late_in_a_row_ > patience.late) attachment_.part(Parting::late);
}

uint64_t Lane::give_up() {
    counters_.late.add(1);
    asked_at_.pop();
    return give_up_oldest();
}

}  // namespace millrace::tenancy
