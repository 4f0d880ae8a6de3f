#include "millrace/tenancy/manager/rotation.hpp"

namespace millrace::tenancy {

void Rotation::use(ConfinedLane& device, const nf::CpuStages& stages) {
    device_ = &device;
    stages_ = stages;
    decisions_.resize(kMaxPackets);
    shown_.reserve(kMaxPackets);
    between_.back.reserve(size_t{exchange_.shape().packets} * exchange_.shape().in_bytes);
    for (Batch& own : batches_) own.packets.reserve(kMaxPackets);
}

bool Rotation::has_room(const schedule::GpuShare& share) {
    const bool process_has = !stages_.before || exchange_.waiting() < kSlots;
    return waiting() < kSlots && process_has && device_->has_room(share);
}

bool Rotation::ask(std::span<const Shown> packets, uint64_t id, Clock::time_point now) {
    if (waiting() == kSlots || (stages_.before && exchange_.waiting() == kSlots)) return false;
    Batch& own = batch(oldest_ + waiting());
    if (!device_->prepare(packets, id)) return false;
    own.id = id;
    own.since = now;
    own.packets.clear();
    if (stages_.after)
        for (const Shown& packet : packets)
            own.packets.push_back({packet.about, static_cast<uint16_t>(packet.bytes.size()), packet.back_bytes});
    if (stages_.before) exchange_.ask(packets, id, Stage::before);
    else device_->start({});
    return true;
}

uint64_t Rotation::passed(const Batch& own, Clock::time_point now) {
    return static_cast<uint64_t>(std::chrono::nanoseconds(now - own.since).count());
}

Rotation::Reply Rotation::take(Exchange::Taken& taken, Clock::time_point now) {
    if (const Reply reply = take_from_process(taken, now); reply != Reply::none) return reply;
    if (const Reply reply = take_from_device(taken, now); reply != Reply::none) return reply;
    if (!wrong_ || in_after_ > 0) return Reply::none;
    taken.id = give_up();
    return Reply::wrong;
}

Rotation::Reply Rotation::take_from_process(Exchange::Taken& taken, Clock::time_point now) {
    while (exchange_.waiting() > 0) {
        const Stage stage = exchange_.stage();
        const Exchange::Reply reply = exchange_.take(stage == Stage::before ? between_ : taken);
        if (reply == Exchange::Reply::none) break;
        if (on_device() > 0) counters_.beside.add(1);
        if (stage == Stage::before) {
            start({between_.outcomes, between_.count}, now);
            continue;
        }
        counters_.after_ns.record(passed(batch(oldest_), now));
        --in_after_;
        ++oldest_;
        return reply == Exchange::Reply::good ? Reply::good : Reply::wrong;
    }
    return Reply::none;
}

/// The oldest batch that was not on the device yet.
void Rotation::start(std::span<const uint32_t> arguments, Clock::time_point now) {
    Batch& own = batch(oldest_ + waiting() - in_before());
    counters_.before_ns.record(passed(own, now));
    own.since = now;
    device_->start(arguments);
}

Rotation::Reply Rotation::take_from_device(Exchange::Taken& taken, Clock::time_point now) {
    while (on_device() > 0 && !wrong_) {
        // A question that was given up keeps its slot until those before it are answered.
        if (stages_.after && exchange_.waiting() == kSlots) break;
        Batch& own = batch(oldest_ + in_after_);
        const Reply reply = stages_.after ? device_->take(between_, decisions_.data()) : device_->take(taken);
        if (reply == Reply::none || (reply == Reply::lost && in_after_ > 0)) break;
        if (reply == Reply::lost) return reply;
        counters_.device_ns.record(passed(own, now));
        if (!stages_.after) {
            ++oldest_;
            return reply;
        }
        if (reply == Reply::good) ask_after(own, now);
        else wrong_ = true;
    }
    return Reply::none;
}

void Rotation::ask_after(Batch& own, Clock::time_point now) {
    own.since = now;
    shown_.clear();
    const uint8_t* bytes = between_.back.data();
    for (size_t i = 0; i < own.packets.size(); ++i, bytes += exchange_.shape().in_bytes) {
        const Batch::OfPacket& packet = own.packets[i];
        shown_.push_back({packet.about, {bytes, packet.bytes}, packet.back_bytes, decisions_[i]});
    }
    exchange_.ask(shown_, own.id, Stage::after);
    ++in_after_;
}

uint64_t Rotation::give_up() {
    const uint64_t id = batch(oldest_).id;
    if (in_after_ > 0) {
        exchange_.give_up(Stage::after);
        --in_after_;
    } else if (wrong_) {
        wrong_ = false;
    } else {
        if (on_device() == 0 && stages_.before) exchange_.give_up(Stage::before);
        device_->give_up();
    }
    ++oldest_;
    return id;
}

}  // namespace millrace::tenancy
