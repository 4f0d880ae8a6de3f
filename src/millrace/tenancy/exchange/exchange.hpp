// The manager's side of the memory that it shares with one tenant.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "millrace/base/descriptor.hpp"
#include "millrace/tenancy/exchange/shared.hpp"

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

/// The memory of all lanes, whose size can't change any more.
class SharedMemory {
public:
    /// Throws std::runtime_error.
    explicit SharedMemory(const Shape& shape);

    const Shape& shape() const { return shape_; }
    int questions() const { return questions_.get(); }
    int answers() const { return answers_.get(); }
    int event() const { return event_.theirs.get(); }  ///< readable for the tenant when there is a question
    Question& question(uint32_t lane, uint64_t number) const {
        return *reinterpret_cast<Question*>(question_memory_.at(question_at(shape_, lane, number)));
    }
    Answer& answer(uint32_t lane, uint64_t number) const {
        return *reinterpret_cast<Answer*>(answer_memory_.at(answer_at(shape_, lane, number)));
    }
    /// Behind a question: wakes the tenant, if it sleeps.
    void wake() const;

private:
    const Shape shape_;
    /// A pipe. With one open file for both sides, as an eventfd is, the tenant could take O_NONBLOCK from the manager.
    struct Event {
        Event();
        Descriptor theirs, ours;
    };
    const Descriptor questions_, answers_;
    const Event event_;
    const Mapping question_memory_, answer_memory_;
};

/// What is known of the batches that wait, the oldest first. Allocates nothing.
template <class T>
class Waiting {
public:
    size_t size() const { return count_; }
    const T& front() const { return all_[0]; }
    T& operator[](size_t number) { return all_[number]; }
    void push(const T& one) { all_[count_++] = one; }
    void pop() {
        for (size_t i = 1; i < count_; ++i) all_[i - 1] = all_[i];
        --count_;
    }

private:
    std::array<T, kSlots> all_{};
    size_t count_ = 0;
};

/// A packet as it is put before a tenant.
struct Shown {
    About about;
    std::span<const uint8_t> bytes;  ///< that it may see
    uint16_t back_bytes = 0;         ///< how many it may change
    Decision decision{};             ///< Stage::after: the device half's
};

/// One lane of it. One thread.
class Exchange {
public:
    explicit Exchange(std::shared_ptr<const SharedMemory> memory, uint32_t lane = 0)
        : memory_(std::move(memory)), lane_(lane) {}

    const Shape& shape() const { return memory_->shape(); }

    /// Puts a batch before the tenant: of each packet at most `in_bytes`. False while all slots wait for answers. `id`
    /// comes back with the answer.
    bool ask(std::span<const Shown> packets, uint64_t id, Stage stage = Stage::whole);

    enum class Reply {
        none,  ///< it has not answered
        good,
        wrong,  ///< an outcome that is not one of its own: nothing of the answer counts
    };
    struct Taken {
        uint64_t id = 0;
        uint32_t count = 0;
        uint32_t outcomes[kMaxPackets];  ///< Stage::before: arguments
        std::vector<uint8_t> back;  ///< of each packet, Shape::back_bytes from one to the next; not of Stage::before
    };
    /// Copies the answer to the oldest question, once, and checks it. One that is answered wrong is done with, too.
    /// Allocates nothing once `taken` has held a batch of this shape.
    Reply take(Taken& taken);
    /// Gives the oldest question of that stage up, one of which waits; its `id`. An answer that comes later is never
    /// read. Its slot is free when those of all older ones are.
    uint64_t give_up(Stage stage = Stage::whole);

    size_t waiting() const { return asked_.size(); }
    /// Of the oldest question, where one waits.
    Stage stage() const { return asked_.front().stage; }

private:
    struct Asked {
        uint64_t number, id;
        uint32_t count;
        Stage stage;
        bool given_up = false;
    };
    void drop_given_up();

    const std::shared_ptr<const SharedMemory> memory_;
    const uint32_t lane_;
    uint64_t next_ = 1;
    Waiting<Asked> asked_;
    std::array<std::array<uint16_t, kMaxPackets>, kSlots> back_bytes_{};  // of each packet that was asked about
};

}  // namespace millrace::tenancy
