// Which network function each thread is in the midst of, for whoever waits for one that does not come back.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

/// What a network function was called for.
enum class Call : uint8_t {
    packets,
    making,   ///< its host half, or one of its CPU halves
    telling,  ///< of its tables, for people
    loading,  ///< the plugin that it comes from
};

/// Says, as long as it lives, that this thread is in a network function. Costs a few stores. The two names must live as
/// long.
class Running {
public:
    Running(const std::string& function, const std::string& chain, Call call = Call::packets);
    /// For what a RunningFor around it names.
    explicit Running(const std::string& function, Call call = Call::packets);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

private:
    Running(const char* function, const char* chain, Call call);
    const char *outer_function_, *outer_chain_;
    Call outer_call_;
};

/// Names, as long as it lives, what this thread is about to run network functions for, such as a test's case. It is in
/// none of them yet. The name must live as long.
class RunningFor {
public:
    explicit RunningFor(const std::string& name);
    ~RunningFor();
    RunningFor(const RunningFor&) = delete;
    RunningFor& operator=(const RunningFor&) = delete;

private:
    const char* outer_;
};

/// A thread that has been in one call for some time.
struct Stuck {
    std::string function, chain;  ///< the latter: or for what else it runs; empty where nobody said
    Call call = Call::packets;
    unsigned looks = 0;  ///< for how many calls of StuckFinder::update
};

/// Finds threads that stay in one call.
class StuckFinder {
public:
    StuckFinder();
    ~StuckFinder();
    /// Those that are in the same call as when it was asked before.
    std::vector<Stuck> update();

private:
    struct Seen {
        uint64_t number = 0;  ///< of its call
        unsigned looks = 0;
    };
    std::vector<Seen> seen_;
};

/// Writes a line for each thread that is in a network function, to standard error. May be called by a signal's handler.
void tell_running() noexcept;

}  // namespace millrace
