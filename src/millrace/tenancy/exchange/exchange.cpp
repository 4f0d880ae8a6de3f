#include "millrace/tenancy/exchange/exchange.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace millrace::tenancy {
namespace {

[[noreturn]] void fail(const char* what) { throw std::runtime_error(std::string(what) + ": " + std::strerror(errno)); }

int new_memory(const char* name, size_t bytes) {
    const int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) fail("no shared memory");
    if (ftruncate(made, static_cast<off_t>(bytes)) == 0 && fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        return made;
    const int error = errno;
    close(made);
    errno = error;
    fail("shared memory can't be sealed");
}

Shape checked(const Shape& shape) {
    if (!shape.sound()) throw std::invalid_argument("this is no shape of batches");
    return shape;
}

}  // namespace

Mapping::Mapping(int descriptor, size_t bytes, bool writable) : bytes_(bytes) {
    void* const there = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor, 0);
    if (there == MAP_FAILED) fail("shared memory can't be mapped");
    begin_ = static_cast<uint8_t*>(there);
}

Mapping::~Mapping() {
    if (begin_ != nullptr) munmap(begin_, bytes_);
}

SharedMemory::Event::Event() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) fail("no pipe");
    theirs = Descriptor(ends[0]);
    ours = Descriptor(ends[1]);
}

SharedMemory::SharedMemory(const Shape& shape)
    : shape_(checked(shape)), questions_(new_memory("millrace-questions", all_question_bytes(shape))),
      answers_(new_memory("millrace-answers", all_answer_bytes(shape))),
      question_memory_(questions_.get(), all_question_bytes(shape), true),
      answer_memory_(answers_.get(), all_answer_bytes(shape), true) {
    // From now on nobody can map them for writing, or seal what this process still needs.
    if (fcntl(questions_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0 ||
        fcntl(answers_.get(), F_ADD_SEALS, F_SEAL_SEAL) != 0)
        fail("shared memory can't be sealed");
}

void SharedMemory::wake() const {
    // Both sides store, and then load what the other has stored: the tenant sees the question, or is woken. What it
    // says of itself may be wrong at its own cost alone.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (reinterpret_cast<const Rest*>(answer_memory_.at(0))->sleeps.load(std::memory_order_relaxed) == 0) return;
    // A tenant that never reads its event fills it up: then it has been told.
    const char word = 1;
    [[maybe_unused]] const ssize_t n = write(event_.ours.get(), &word, sizeof word);
}

bool Exchange::ask(std::span<const Shown> packets, uint64_t id, Stage stage) {
    const Shape& shape = memory_->shape();
    if (asked_.size() == kSlots || packets.size() > shape.packets) return false;
    Question& own = memory_->question(lane_, next_);
    uint8_t* const bytes = reinterpret_cast<uint8_t*>(&own + 1);
    own.number.store(0, std::memory_order_release);
    for (size_t i = 0; i < packets.size(); ++i) {
        const size_t length = std::min<size_t>(packets[i].bytes.size(), shape.in_bytes);
        uint8_t* const to = bytes + i * shape.in_bytes;
        std::copy_n(packets[i].bytes.data(), length, to);
        // What another packet has left there is not for it to see; beyond that nothing was ever written.
        if (own.lengths[i] > length) std::fill_n(to + length, own.lengths[i] - length, uint8_t{0});
        own.lengths[i] = static_cast<uint16_t>(length);
        own.about[i] = packets[i].about;
        back_bytes_[next_ % kSlots][i] = static_cast<uint16_t>(
            std::min<uint32_t>(packets[i].back_bytes, shape.back_bytes));
    }
    if (stage == Stage::after)
        for (size_t i = 0; i < packets.size(); ++i) own.decisions[i] = packets[i].decision;
    own.count = static_cast<uint32_t>(packets.size());
    own.stage = stage;
    own.number.store(next_, std::memory_order_release);
    asked_.push({next_++, id, own.count, stage});
    memory_->wake();
    return true;
}

Exchange::Reply Exchange::take(Taken& taken) {
    if (asked_.size() == 0) return Reply::none;
    const Asked own = asked_.front();
    const Answer& there = memory_->answer(lane_, own.number);
    if (there.number.load(std::memory_order_acquire) != own.number) return Reply::none;
    asked_.pop();
    drop_given_up();
    taken.id = own.id;
    taken.count = own.count;
    // The tenant may write to it meanwhile: what counts is the copy.
    std::memcpy(taken.outcomes, there.words, own.count * sizeof(uint32_t));
    if (own.stage == Stage::before) return Reply::good;
    taken.back.resize(size_t{own.count} * shape().back_bytes);
    const auto* const back = reinterpret_cast<const uint8_t*>(&there + 1);
    for (uint32_t i = 0; i < own.count; ++i)
        std::copy_n(back + size_t{i} * shape().back_bytes, back_bytes_[own.number % kSlots][i],
                    taken.back.data() + size_t{i} * shape().back_bytes);
    for (uint32_t i = 0; i < own.count; ++i)
        if (taken.outcomes[i] >= shape().outcomes) return Reply::wrong;
    return Reply::good;
}

uint64_t Exchange::give_up(Stage stage) {
    size_t oldest = 0;
    while (asked_[oldest].given_up || asked_[oldest].stage != stage) ++oldest;
    asked_[oldest].given_up = true;
    const uint64_t id = asked_[oldest].id;
    drop_given_up();
    return id;
}

/// Slots go round: one is free when all before it are.
void Exchange::drop_given_up() {
    while (asked_.size() > 0 && asked_.front().given_up) asked_.pop();
}

}  // namespace millrace::tenancy
