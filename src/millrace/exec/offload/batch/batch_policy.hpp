// When a batch of a chain's waiting packets goes to the device: the adaptive batcher's rules. They keep nothing and
// read no clock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::exec {

/// An idle device gets what there is at once, unless there is more to be received; a busy one gets the next batch when
/// it is full or its oldest packet has waited long enough (GEN, section 3.2; GSwitch, section 5). A device with few
/// packets has room for more: it gets batches at even distances, as many in one round trip as it takes.
struct BatchPolicy {
    size_t most_packets = 1;    ///< of a batch
    uint64_t max_delay_ns = 0;  ///< that a packet may wait for more of them
    size_t depth = 1;           ///< batches of the chain in flight
    size_t idle_below = 1;      ///< the device is idle while fewer batches than that are in flight

    /// What can be received at once is as good as here: each batch costs the CPU as much as a few hundred packets.
    static constexpr size_t kWorthIt = 2048;
    /// So few packets that the worker has time for as many batches, and that a GPU takes about as long for as for one.
    static constexpr size_t kFew = 128;
    /// Where calls take longer than packets may wait, a worker that can't keep up gives at most one part in so many,
    /// and one, of its time to them.
    static constexpr uint64_t kTimesCalls = 2;
    /// But its packets wait for at most so many times max_delay_ns: calls that took very long once, as the first ones
    /// of a chain may, are no measure.
    static constexpr uint64_t kMaxDelays = 16;

    /// Whose batches the thread that makes the driver's calls has yet to come to.
    enum class Line : uint8_t {
        none,    ///< nobody's, or the worker makes its own calls
        others,  ///< other workers'
        own,     ///< this worker's
    };
    /// What a batch of one chain depends on at one moment.
    struct Load {
        size_t waiting = 0;        ///< packets of the chain
        uint64_t waited_ns = 0;    ///< the oldest of them
        bool more = false;         ///< more of them are there to be received
        size_t free_batches = 0;   ///< that nothing is in
        size_t in_flight = 0;      ///< batches
        size_t of_chain = 0;       ///< of these
        size_t packets = 0;        ///< of all chains, waiting and in flight
        uint64_t since_start = 0;  ///< of the latest batch in flight; in the unit of `round_trip`
        uint64_t round_trip = 0;   ///< what a batch takes from its start until it is back; 0: not known yet
        Line line = Line::none;
        uint64_t calls_ns = 0;  ///< that the worker spent in the driver for a batch of the chain, lately; 0: not known
    };
    bool is_due(const Load& load) const;
};

}  // namespace millrace::exec
