#include "millrace/base/running.hpp"

#include <unistd.h>

#include <array>
#include <cstring>

namespace millrace {
namespace {

struct Place {
    std::atomic<bool> taken{false};
    std::atomic<const char*> function{nullptr};  // null: in none
    std::atomic<const char*> chain{nullptr};
    std::atomic<Call> call{Call::packets};
    std::atomic<uint64_t> number{0};  // of the call
};
constexpr size_t kPlaces = 1024;
std::array<Place, kPlaces> places;

/// A thread's place, from its first call until it ends.
class OwnPlace {
public:
    OwnPlace() {
        for (Place& place : places)
            if (!place.taken.exchange(true)) {
                place_ = &place;
                return;
            }
    }
    ~OwnPlace() {
        if (place_ == &nowhere_) return;
        place_->function = nullptr;
        place_->taken = false;
    }
    OwnPlace(const OwnPlace&) = delete;
    OwnPlace& operator=(const OwnPlace&) = delete;
    Place& operator*() { return *place_; }

private:
    Place nowhere_;  // with more threads than places, some are not looked at
    Place* place_ = &nowhere_;
};

Place& own_place() {
    thread_local OwnPlace own;
    return *own;
}

void tell(const char* text) noexcept {
    for (size_t left = std::strlen(text); left > 0;) {
        const ssize_t wrote = write(STDERR_FILENO, text, left);
        if (wrote <= 0) return;
        text += wrote;
        left -= static_cast<size_t>(wrote);
    }
}

}  // namespace

Running::Running(const std::string& function, const std::string& chain, Call call)
    : Running(function.c_str(), chain.c_str(), call) {}

Running::Running(const std::string& function, Call call) : Running(function.c_str(), own_place().chain, call) {}

Running::Running(const char* function, const char* chain, Call call) {
    Place& place = own_place();
    outer_function_ = place.function.load(std::memory_order_relaxed);
    outer_chain_ = place.chain.load(std::memory_order_relaxed);
    outer_call_ = place.call.load(std::memory_order_relaxed);
    place.chain.store(chain, std::memory_order_relaxed);
    place.call.store(call, std::memory_order_relaxed);
    place.number.store(place.number.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    place.function.store(function, std::memory_order_release);
}

Running::~Running() {
    Place& place = own_place();
    place.function.store(outer_function_, std::memory_order_release);
    place.chain.store(outer_chain_, std::memory_order_relaxed);
    place.call.store(outer_call_, std::memory_order_relaxed);
}

RunningFor::RunningFor(const std::string& name) : outer_(own_place().chain.exchange(name.c_str())) {}
RunningFor::~RunningFor() { own_place().chain = outer_; }

StuckFinder::StuckFinder() : seen_(kPlaces) {}
StuckFinder::~StuckFinder() = default;

std::vector<Stuck> StuckFinder::update() {
    std::vector<Stuck> stuck;
    for (size_t i = 0; i < kPlaces; ++i) {
        const uint64_t number = places[i].number.load(std::memory_order_acquire);
        const char* function = places[i].function.load(std::memory_order_acquire);
        if (function == nullptr || number != seen_[i].number) {
            seen_[i] = {number, 0};
            continue;
        }
        // Names of a call that has lasted from one look to the next are not freed just now; and if they were, it has
        // not lasted.
        const char* chain = places[i].chain.load(std::memory_order_relaxed);
        Stuck one{function, chain != nullptr ? chain : "", places[i].call.load(std::memory_order_relaxed),
                  ++seen_[i].looks};
        if (places[i].number.load(std::memory_order_acquire) == number &&
            places[i].function.load(std::memory_order_acquire) == function)
            stuck.push_back(std::move(one));
    }
    return stuck;
}

void tell_running() noexcept {
    for (const Place& place : places) {
        const char* function = place.function.load(std::memory_order_acquire);
        const char* chain = place.chain.load(std::memory_order_relaxed);
        if (function == nullptr || chain == nullptr) continue;
        tell("millrace: a thread is in the network function '");
        tell(function);
        tell("' of chain '");
        tell(chain);
        tell("'\n");
    }
}

}  // namespace millrace
