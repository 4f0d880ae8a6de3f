// How far a run is, while it runs.
#pragma once

#include <cstdint>
#include <ostream>

namespace millrace::cli {

/// A line that is written over on a terminal; on anything else a line every five seconds. Rates are those since the
/// last line.
class Progress {
public:
    Progress(std::ostream& out, bool terminal)
        : out_(out), terminal_(terminal), next_(terminal ? kTerminalPause : kPause) {}

    /// Whether it is time for a line, so many seconds after the start.
    bool due(double seconds) const { return seconds >= next_; }
    /// Shows what was received so far; `share` of all there is, negative when that is not known.
    void show(uint64_t packets, uint64_t bytes, double share, double seconds);
    /// Leaves the line: what is written next begins a new one.
    void end();

private:
    static constexpr double kTerminalPause = 0.1, kPause = 5;
    std::ostream& out_;
    const bool terminal_;
    bool shown_ = false;
    double next_, last_seconds_ = 0;
    uint64_t last_bytes_ = 0;
};

}  // namespace millrace::cli
