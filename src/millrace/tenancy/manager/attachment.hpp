// One tenant's process that is attached: who it is, what it has been asked, and how it behaves.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/histogram.hpp"
#include "millrace/tenancy/gpu/confined.hpp"
#include "millrace/tenancy/manager/rotation.hpp"

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
    none,     ///< it is attached
    gone,     ///< its process has ended or closed the socket
    late,     ///< too many batches in a row had no answer in time
    wrong,    ///< it answered what it may not
    flood,    ///< it sent what nobody asked for
    changed,  ///< the configuration has other terms for it now
    refused,  ///< its promise has no room on the device
};
inline constexpr const char* kPartingNames[] = {"none", "gone", "late", "wrong", "flood", "changed", "refused"};
inline const char* name_of(Parting parting) { return kPartingNames[static_cast<int>(parting)]; }

/// One writer, any number of readers.
struct LaneCounters {
    Counter asked, good;  ///< batches
    Counter late, wrong;  ///< batches
    Counter lost;         ///< batches that it had when it was detached
    Counter on_device;    ///< batches of `asked` that went to its device half
    Counter in_chain;     ///< batches of `on_device` that its chain went through in one piece
    Histogram answer_ns;  ///< from question to answer
    RotationCounters stages;
};

class Lane;

/// Made by the manager's thread, which alone listens to it; each lane is a worker's.
class Attachment {
public:
    using Clock = std::chrono::steady_clock;

    /// Throws std::runtime_error where there is no memory for the exchange.
    Attachment(std::string name, uid_t user, pid_t process, std::unique_ptr<Descriptor> socket, const Shape& shape,
               const Terms& terms, const Patience& patience);
    ~Attachment();

    const std::string& name() const { return name_; }
    uid_t user() const { return user_; }
    pid_t process() const { return process_; }
    const Terms& terms() const { return terms_; }
    const Patience& patience() const { return patience_; }
    Parting parting() const { return parting_.load(std::memory_order_acquire); }
    bool attached() const { return parting() == Parting::none; }
    const SharedMemory& memory() const { return *memory_; }
    int socket() const { return socket_->get(); }
    Lane& lane(size_t number) { return *lanes_[number]; }
    const std::vector<std::unique_ptr<Lane>>& lanes() const { return lanes_; }
    uint64_t unasked() const { return unasked_.get(); }  ///< messages

    /// Hears what it has sent, and whether it is still there. Never waits.
    void listen();
    /// The device half that it has sent, once; null: none.
    std::unique_ptr<Descriptor> take_offer() { return std::move(offer_); }
    /// Tells it something. Never waits.
    void tell(Notice::Kind kind, const std::string& text) const;

    // --- its device half ---
    /// It has a function there, which nobody asks yet. Once, any thread.
    void place(std::shared_ptr<ConfinedFunction> function);
    /// From now on that one runs, as soon as each lane has nothing that waits. Likewise, behind place().
    void open();
    /// Where confined() is not null: since when.
    Clock::time_point placed_at() const { return placed_at_; }
    /// The same, to be kept; where confined() is not null, or on the thread that has placed it.
    std::shared_ptr<ConfinedFunction> placed() const { return placed_; }
    /// Null: it runs in its process.
    ConfinedFunction* confined() const { return confined_.load(std::memory_order_acquire); }
    /// Whether batches of a chain in one piece can go through `function`, one of its own, by these terms.
    bool goes_in_one_piece(const ConfinedFunction* function, const Terms& terms) const;
    /// The device is gone: it runs in its process again. Any thread.
    void withdraw() { confined_.store(nullptr, std::memory_order_release); }
    /// Any thread; the first reason stays.
    void part(Parting why);

private:
    const std::string name_;
    const uid_t user_;
    const pid_t process_;
    const std::unique_ptr<Descriptor> socket_;
    const Terms terms_;
    const Patience patience_;
    const std::shared_ptr<const SharedMemory> memory_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::atomic<Parting> parting_{Parting::none};
    Counter unasked_;
    std::unique_ptr<Descriptor> offer_;
    bool offered_ = false;
    std::shared_ptr<ConfinedFunction> placed_;  // both written once, before confined_
    Clock::time_point placed_at_{};
    std::atomic<ConfinedFunction*> confined_{nullptr};
};

/// What one worker asks of it.
class Lane {
public:
    using Clock = Attachment::Clock;
    Lane(Attachment& attachment, std::shared_ptr<const SharedMemory> memory, uint32_t number)
        : attachment_(attachment), number_(number), exchange_(std::move(memory), number),
          rotation_(exchange_, counters_.stages) {}

    /// How many packets a batch may have that is asked about now, on that share of the GPU; 0: there is no place for
    /// one. Behind it, and until something is asked, the function stays where it runs.
    uint32_t room(const schedule::GpuShare& share = {});
    /// Whether there is room for what is shown of such a packet.
    bool takes(uint32_t length, const Layers& layers, Fields shown) const;
    /// Exchange::ask; false also where nobody is attached any more.
    bool ask(std::span<const Shown> packets, uint64_t id, Clock::time_point now);

    /// What became of the oldest batch.
    enum class Reply {
        waits,  ///< for its answer; or there is none
        good,   ///< `taken` is the answer
        late,   ///< there is no answer for these three reasons; `taken.id` says of which batch
        wrong,
        lost  ///< the tenant is gone
    };
    /// Never waits.
    Reply next(Exchange::Taken& taken, Clock::time_point now);
    /// Gives the oldest batch up, of those that wait, as if it were late; the tenant stays.
    uint64_t give_up();

    /// A batch of its chain in one piece has gone through the function on the device, which took so long.
    void passed(std::chrono::nanoseconds took, bool wrong);

    size_t waiting() const {
        return rotates_ ? rotation_.waiting() : confined_ != nullptr ? confined_->waiting() : exchange_.waiting();
    }
    const Rotation& rotation() const { return rotation_; }
    const LaneCounters& counters() const { return counters_; }

private:
    Reply take(Exchange::Taken& taken, Clock::time_point now);
    uint64_t give_up_oldest() {
        return rotates_ ? rotation_.give_up() : confined_ != nullptr ? confined_->give_up() : exchange_.give_up();
    }

    Attachment& attachment_;
    const uint32_t number_;
    Exchange exchange_;
    LaneCounters counters_;
    Rotation rotation_;
    ConfinedLane* confined_ = nullptr;     // where batches are asked about now; null: exchange_
    bool rotates_ = false;                 // they go there and to the process, by rotation_
    Waiting<Clock::time_point> asked_at_;  // of the batches that wait
    uint32_t late_in_a_row_ = 0;
};

}  // namespace millrace::tenancy
