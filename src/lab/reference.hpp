// What the cpu device makes of a frame, to hold against what came out of a benchmark.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lab/measure.hpp"

namespace millrace::lab {

/// Runs single frames through a configuration of its own, a week after each other: state per key is that of a packet
/// which comes alone. ESP packets are numbered as they leave, in an order that a
/// sample does not show: the reference is told the number that a packet bears and must come to the same bytes with it.
class Reference {
public:
    /// `configuration` is one for the cpu device, loaded for this alone; `cpu_halves`: whether the CPU libraries
    /// decide, or the device halves.
    Reference(chain::Configuration configuration, bool cpu_halves);
    ~Reference();
    /// Null when all is as it should be, else what is not.
    std::optional<std::string> differs(const Sample& sample);
    /// Whether the last frame was dropped here by a function with state per key, or behind one: what came before a
    /// packet, and when, decides on it, too, and a sample does not show that.
    bool dropped_by_state() const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

/// How many of `samples` are as the reference makes them; `first_difference` says what is wrong with the first that is
/// not. `undecided`: those that it dropped by state.
struct Check {
    size_t equal = 0, different = 0, undecided = 0;
    std::string first_difference;
};
Check check(Reference& reference, const std::vector<Sample>& samples);

}  // namespace millrace::lab
