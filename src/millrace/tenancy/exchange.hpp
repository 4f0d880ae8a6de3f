// The manager's side of the memory that it shares with one tenant.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/io/kernel/interface.hpp"
#include "millrace/tenancy/shared.hpp"

namespace millrace::tenancy {

/// Memory that is mapped while it lives.
class Mapping {
public:
    Mapping() = default;
    /// Throws std::runtime_error.
    Mapping(int descriptor, size_t bytes, bool writable);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    uint8_t* at(size_t offset) const { return begin_ + offset; }

private:
    uint8_t* begin_ = nullptr;
    size_t bytes_ = 0;
};

/// What is known of the batches that wait, the oldest first. Allocates nothing.
template <class T>
class Waiting {
public:
    size_t size() const { return count_; }
    const T& front() const { return all_[0]; }
    void push(const T& one) { all_[count_++] = one; }
    void pop() {
        for (size_t i = 1; i < count_; ++i) all_[i - 1] = all_[i];
        --count_;
    }

private:
    std::array<T, kSlots> all_{};
    size_t count_ = 0;
};

class Exchange {
public:
    /// Makes the memory, whose size can't change any more. Throws std::runtime_error.
    explicit Exchange(const Shape& shape);

    const Shape& shape() const { return shape_; }
    int questions() const { return questions_.get(); }
    int answers() const { return answers_.get(); }
    int event() const { return event_.get(); }  ///< tells the tenant of a question

    /// Puts a batch before the tenant: the bytes of each packet that it may see, at most `in_bytes` of them. False
    /// while all slots wait for answers. `id` comes back with the answer.
    bool ask(std::span<const std::span<const uint8_t>> packets, uint64_t id);

    enum class Reply {
        none,  ///< it has not answered
        good,
        wrong,  ///< an outcome that is not one of its own: nothing of the answer counts
    };
    struct Taken {
        uint64_t id = 0;
        uint32_t count = 0;
        uint32_t outcomes[kMaxPackets];
        std::vector<uint8_t> back;  ///< `back_bytes` of each packet
    };
    /// Copies the answer to the oldest batch, once, and checks it. A batch that is answered wrong is done with, too.
    Reply take(Taken& taken);
    /// Gives the oldest batch up. An answer that comes later is never read.
    uint64_t give_up();

    size_t waiting() const { return asked_.size(); }

private:
    struct Asked {
        uint64_t number, id;
        uint32_t count;
    };
    Question& question(uint64_t number) const;
    Answer& answer(uint64_t number) const;

    const Shape shape_;
    const io::Descriptor questions_, answers_, event_;
    const Mapping question_memory_, answer_memory_;
    uint64_t next_ = 1;
    Waiting<Asked> asked_;
};

}  // namespace millrace::tenancy
