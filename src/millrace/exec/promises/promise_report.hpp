// What a chain or a tenant was promised, and what it got.
#pragma once

#include <cstdint>

namespace millrace::exec {

/// What became of a promise in the last interval.
enum class PromiseState : uint8_t {
    fresh,    ///< there was none yet
    idle,     ///< no packets came
    kept,     ///< all that came was done in time
    beyond,   ///< more came than the promised rate: nothing is promised then
    rate,     ///< some of what came found no room, or no tenant
    latency,  ///< a packet took longer than was promised
};
inline constexpr const char* kPromiseStateNames[] = {"new", "idle", "kept", "beyond", "rate", "latency"};
inline const char* name_of(PromiseState state) { return kPromiseStateNames[static_cast<int>(state)]; }

struct PromiseReport {
    double rate = 0;          ///< packets a second; 0: nothing was promised
    uint64_t latency_ns = 0;  ///< 0: none was
    PromiseState now = PromiseState::fresh;
    double offered = 0;        ///< packets a second, of the last interval
    uint64_t longest_ns = 0;   ///< that a packet took, of the last interval in which some left
    uint32_t batch = 0;        ///< packets, by the present plan; 0: there is none
    uint32_t sms = 0;          ///< multiprocessors that are its own; 0: it shares all of them
    uint64_t intervals = 0;    ///< in which packets came, no more than the promised rate
    uint64_t rate_broken = 0;  ///< of these
    uint64_t latency_broken = 0;
    uint64_t beyond = 0;  ///< intervals in which more came

    bool made() const { return rate > 0; }
};

}  // namespace millrace::exec
