#include "millrace/tenancy/exchange.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
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

Exchange::Exchange(const Shape& shape)
    : shape_(checked(shape)), questions_(new_memory("millrace-questions", kSlots * question_bytes(shape))),
      answers_(new_memory("millrace-answers", kSlots * answer_bytes(shape))),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      question_memory_(questions_.get(), kSlots * question_bytes(shape), true),
      answer_memory_(answers_.get(), kSlots * answer_bytes(shape), true) {
    if (event_.get() < 0) fail("no event descriptor");
    // From now on nobody can map them for writing, or seal what this process still needs.
    if (fcntl(questions_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0 ||
        fcntl(answers_.get(), F_ADD_SEALS, F_SEAL_SEAL) != 0)
        fail("shared memory can't be sealed");
}

Question& Exchange::question(uint64_t number) const {
    return *reinterpret_cast<Question*>(question_memory_.at(number % kSlots * question_bytes(shape_)));
}
Answer& Exchange::answer(uint64_t number) const {
    return *reinterpret_cast<Answer*>(answer_memory_.at(number % kSlots * answer_bytes(shape_)));
}

bool Exchange::ask(std::span<const std::span<const uint8_t>> packets, uint64_t id) {
    if (asked_.size() == kSlots || packets.size() > shape_.packets) return false;
    Question& own = question(next_);
    uint8_t* const bytes = reinterpret_cast<uint8_t*>(&own + 1);
    own.number.store(0, std::memory_order_release);
    for (size_t i = 0; i < packets.size(); ++i) {
        const size_t length = std::min<size_t>(packets[i].size(), shape_.in_bytes);
        std::memcpy(bytes + i * shape_.in_bytes, packets[i].data(), length);
        // What another packet has left there is not for it to see.
        std::memset(bytes + i * shape_.in_bytes + length, 0, shape_.in_bytes - length);
        own.lengths[i] = static_cast<uint16_t>(length);
    }
    own.count = static_cast<uint32_t>(packets.size());
    own.number.store(next_, std::memory_order_release);
    asked_.push({next_++, id, own.count});
    // A tenant that never reads its event fills it up: then it has been told.
    eventfd_write(event_.get(), 1);
    return true;
}

Exchange::Reply Exchange::take(Taken& taken) {
    if (asked_.size() == 0) return Reply::none;
    const Asked own = asked_.front();
    const Answer& there = answer(own.number);
    if (there.number.load(std::memory_order_acquire) != own.number) return Reply::none;
    asked_.pop();
    taken.id = own.id;
    taken.count = own.count;
    taken.back.resize(size_t{own.count} * shape_.back_bytes);
    // The tenant may write to it meanwhile: what counts is the copy.
    std::memcpy(taken.outcomes, there.outcomes, own.count * sizeof(uint32_t));
    if (!taken.back.empty()) std::memcpy(taken.back.data(), &there + 1, taken.back.size());
    for (uint32_t i = 0; i < own.count; ++i)
        if (taken.outcomes[i] >= shape_.outcomes) return Reply::wrong;
    return Reply::good;
}

uint64_t Exchange::give_up() {
    const uint64_t id = asked_.front().id;
    asked_.pop();
    return id;
}

}  // namespace millrace::tenancy
