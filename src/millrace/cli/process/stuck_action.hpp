// When a thread that does not come back from a network function is worth a word, and when the end.
#pragma once

#include <limits>

namespace millrace::cli {

/// For how many seconds a call may last.
struct Patience {
    unsigned tell_after;      ///< it is worth a word
    unsigned end_after_stop;  ///< the process ends where somebody has asked for an end
    unsigned end_after;       ///< the process ends
};
/// With a vector of packets: none takes a function so long, whatever else the machine has to do.
inline constexpr Patience kVectorPatience{5, 3, 30};
/// The same for what runs one packet at a time.
inline constexpr Patience kPacketPatience{5, 3, 10};
/// With all but packets: the largest tables that are published take seconds, and more on a busy machine.
inline constexpr Patience kMakingPatience{10, 30, 300};
/// The same where packets flow: these go on while new tables are made.
inline constexpr Patience kLiveMakingPatience{10, 30, std::numeric_limits<unsigned>::max()};

/// What is to be done about threads that are stuck.
enum class StuckAction { nothing, tell, end };
/// By how many seconds one has been, and whether an end was asked for: `tell` once, and `end` when patience is over.
StuckAction action_for(unsigned seconds, bool stop_asked, const Patience& patience);

}  // namespace millrace::cli
