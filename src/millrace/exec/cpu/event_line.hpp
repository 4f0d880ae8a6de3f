// The way of events from workers to the host halves of network functions, past the packet path.
//
// What a host half does with an event may allocate, lock and write to files: alerts become lines of JSON. So a worker
// only puts the event into a list of fixed length, and one thread beside the workers hands it on.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "millrace/chain/program.hpp"
#include "millrace/io/wake_event.hpp"

namespace millrace::exec {

/// Where an event's packet came from.
struct Origin {
    uint64_t number = 0, timestamp_ns = 0;
    uint16_t port = 0;
};

/// Hands an event to its NF's host half, on this thread. `dropped`: by that NF's decision.
void tell(const chain::Program& program, const Event& event, const Origin& from, bool dropped);

/// Network functions whose events have been told, and that have not been asked to show them yet.
class ToldFunctions {
public:
    void note(const std::shared_ptr<nf::NetworkFunction>& nf);
    /// Asks each of them. Throws what the last one does that throws.
    void show();

private:
    std::vector<std::shared_ptr<nf::NetworkFunction>> functions_;
};

/// The events of one worker. One thread puts, one takes.
class EventLine {
public:
    /// `reader` sleeps until it is called, or looks by itself.
    explicit EventLine(io::WakeEvent* reader = nullptr) : places_(kPlaces), reader_(reader) {}
    /// False when it has been full for kPatience: the event is lost. So it is from then on until there is room again.
    /// `events`: one, or the pieces of a note, which are told one after the other.
    bool put(const std::shared_ptr<const chain::Program>& program, std::span<const Event> events, const Origin& from,
             bool dropped);
    /// How many more it has room for. Any thread.
    size_t room() const {
        return kPlaces - (put_.load(std::memory_order_acquire) - told_.load(std::memory_order_acquire));
    }
    /// Whether no packets should come in until more events have been told. Any thread.
    bool crowded() const { return room() < kPlaces / 2; }
    /// Tells all that has been put, and notes of which functions it was; whether there was any. Throws what a host half
    /// does; that event is over then.
    bool tell_all(ToldFunctions& told);

    static constexpr size_t kPlaces = 16384;
    /// The thread that tells is called when so many wait; few wait until it looks.
    static constexpr size_t kMany = kPlaces / 8;
    static constexpr std::chrono::seconds kPatience{1};

private:
    struct Place {
        std::shared_ptr<const chain::Program> program;  // which the NF lives as long as
        Event event;
        Origin from;
        bool dropped = false;
    };
    bool wait_for_room(size_t n);
    std::vector<Place> places_;
    io::WakeEvent* const reader_;
    alignas(64) std::atomic<uint64_t> put_{0};
    bool given_up_ = false;  // of who puts
    alignas(64) std::atomic<uint64_t> told_{0};
};

/// The thread beside the workers, and all their lines. It tells events one at a time, those of a worker in their order.
class EventThread {
public:
    /// While there are always more events, functions are asked this often to show what has become of them.
    static constexpr std::chrono::milliseconds kShowEvery{100};

    EventThread() = default;
    ~EventThread() { finish(); }
    EventThread(const EventThread&) = delete;
    EventThread& operator=(const EventThread&) = delete;
    /// One more, which lives as long as this object.
    EventLine& add_line();
    /// Called again it does nothing, until it has finished.
    void start();
    /// Returns when all that has been put was told.
    void finish();
    /// What the first host half threw that did, after `finish`; empty when none has.
    const std::string& trouble() const { return trouble_; }

private:
    void work();
    bool tell_all();
    template <class Work>
    void attempt(const char* what, Work&& work);
    void rest(std::chrono::milliseconds pause);
    io::WakeEvent called_;
    std::mutex mutex_;  // of the list of lines
    ToldFunctions told_;
    std::vector<std::unique_ptr<EventLine>> lines_;
    std::atomic<bool> finishing_{false};
    std::string trouble_;  // of the thread, until it has ended
    std::thread thread_;
};

}  // namespace millrace::exec
