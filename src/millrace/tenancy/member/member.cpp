#include "millrace/tenancy/member/member.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "millrace/show/socket_file.hpp"
#include "millrace/tenancy/exchange/message.hpp"

namespace millrace::tenancy {
namespace {

[[noreturn]] void fail(const std::string& manager, const std::string& why) {
    throw std::runtime_error(manager + ": " + why);
}

/// Memory that nobody can shrink: reading what is gone would end this process.
bool is_lasting(int descriptor, size_t bytes) {
    struct stat there{};
    const int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(descriptor, &there) == 0 &&
           there.st_size >= static_cast<off_t>(bytes);
}

}  // namespace

Member::Member(const std::string& manager, const std::string& name, std::chrono::milliseconds patience)
    : socket_(show::connect_to(manager)) {
    Hello hello;
    if (name.empty() || name.size() > kMaxName) fail(manager, "a tenant's name has from 1 to 63 bytes");
    name.copy(hello.name, kMaxName);
    if (send(socket_.get(), &hello, sizeof hello, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello))
        fail(manager, "it does not listen");
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) fail(manager, "it does not answer");
    Welcome welcome;
    std::array<Descriptor, 3> came;
    if (receive_message(socket_.get(), std::as_writable_bytes(std::span(&welcome, 1)), came, MSG_WAITALL) !=
        static_cast<ssize_t>(sizeof welcome))
        welcome.magic = 0;
    const bool all_came = came.back().get() >= 0;
    questions_ = std::make_unique<Descriptor>(std::move(came[0]));
    answers_ = std::make_unique<Descriptor>(std::move(came[1]));
    event_ = std::make_unique<Descriptor>(std::move(came[2]));
    if (welcome.magic != kMagic || welcome.version != kVersion) fail(manager, "it is no manager of this version");
    welcome.why[sizeof welcome.why - 1] = 0;
    if (welcome.refused != 0) fail(manager, std::string("it refuses: ") + welcome.why);
    shape_ = welcome.shape;
    terms_ = welcome.terms;
    for (auto& outcome : terms_.outcomes) outcome[sizeof outcome - 1] = 0;
    welcome.architecture[sizeof welcome.architecture - 1] = 0;
    architecture_ = welcome.architecture;
    if (!all_came || !shape_.sound() || !is_lasting(questions_->get(), all_question_bytes(shape_)) ||
        !is_lasting(answers_->get(), all_answer_bytes(shape_)))
        fail(manager, "it gives no memory that could be trusted");
    question_memory_ = std::make_unique<Mapping>(questions_->get(), all_question_bytes(shape_), false);
    answer_memory_ = std::make_unique<Mapping>(answers_->get(), all_answer_bytes(shape_), true);
    done_.resize(shape_.lanes);
}

std::optional<Member::Batch> Member::oldest(uint32_t lane) {
    // One behind the other: whoever takes the least number of all slots can miss one that is put there meanwhile.
    for (uint32_t tries = 0; tries < 2 * kSlots; ++tries) {
        const uint64_t wanted = done_[lane] + 1;
        const auto* const question = reinterpret_cast<const Question*>(
            question_memory_->at(question_at(shape_, lane, wanted)));
        const uint64_t number = question->number.load(std::memory_order_acquire);
        if (number < wanted) return std::nullopt;
        if (number == wanted)
            return Batch{number,
                         lane,
                         std::min(question->count, shape_.packets),
                         question->stage,
                         question,
                         reinterpret_cast<Answer*>(answer_memory_->at(answer_at(shape_, lane, number))),
                         shape_};
        // The manager has given it up, and what came behind it up to the slots that there are.
        done_[lane] = number - kSlots;
    }
    return std::nullopt;
}

std::optional<Member::Batch> Member::oldest() {
    for (uint32_t i = 0; i < shape_.lanes; ++i) {
        const uint32_t lane = (next_lane_ + i) % shape_.lanes;
        if (const auto batch = oldest(lane)) {
            next_lane_ = lane + 1;
            return batch;
        }
    }
    return std::nullopt;
}

std::optional<Member::Batch> Member::next(std::chrono::milliseconds wait) {
    // What comes soon is not worth a sleep.
    constexpr int kLooks = 200;
    for (int i = 0; i < kLooks; ++i) {
        if (const auto batch = oldest()) return batch;
        std::this_thread::yield();
    }
    const auto end = std::chrono::steady_clock::now() + wait;
    while (true) {
        sleeps().store(1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        auto batch = oldest();
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        if (!batch && left.count() > 0) {
            pollfd waiting[] = {{event_->get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
            poll(waiting, 2, static_cast<int>(left.count()));
            // It may have been set for a batch that is done: then there is none now, and more to wait for.
            std::array<char, 256> words;
            [[maybe_unused]] const ssize_t n = read(event_->get(), words.data(), words.size());
            batch = oldest();
            if (!batch && (waiting[1].revents == 0 || attached())) continue;
        }
        sleeps().store(0, std::memory_order_relaxed);
        return batch;
    }
}

void Member::answer(const Batch& batch) {
    done_[batch.lane] = batch.number;
    batch.answer->number.store(batch.number, std::memory_order_release);
}

void Member::offer(int memory) {
    Offer offer;
    if (send_message(socket_.get(), std::as_bytes(std::span(&offer, 1)), {&memory, 1}, 0) !=
        static_cast<ssize_t>(sizeof offer))
        throw std::runtime_error(std::string("the device half can't be sent: ") + std::strerror(errno));
}

std::optional<Notice> Member::placement() { return std::exchange(placement_, std::nullopt); }

bool Member::attached() {
    while (!parted_) {
        Notice notice;
        const ssize_t n = recv(socket_.get(), &notice, sizeof notice, MSG_DONTWAIT | MSG_PEEK);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        if (n == 0) break;
        if (n < static_cast<ssize_t>(sizeof notice)) return true;  // the rest is about to come
        recv(socket_.get(), &notice, sizeof notice, MSG_DONTWAIT);
        notice.text[sizeof notice.text - 1] = 0;
        if (notice.magic != Notice().magic || notice.version != kVersion) break;
        if (notice.kind == Notice::Kind::parted) {
            why_ = notice.text;
            break;
        }
        placement_ = notice;
    }
    parted_ = true;
    return false;
}

}  // namespace millrace::tenancy
