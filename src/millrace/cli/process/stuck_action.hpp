// When a thread that does not come back from a network function is worth a word, and when the end.
#pragma once

namespace millrace::cli {

/// Seconds behind which a run ends that is stuck: no vector of packets takes a function so long, whatever else the
/// machine has to do.
inline constexpr unsigned kRunEndsAfter = 30;
/// The same for what runs one packet at a time.
inline constexpr unsigned kPacketEndsAfter = 10;

/// What is to be done about threads that are stuck.
enum class StuckAction { nothing, tell, end };
/// By how many seconds one has been, and whether an end was asked for: `tell` once, and `end` behind `end_after`
/// seconds or soon after an end was asked for.
StuckAction action_for(unsigned seconds, bool stop_asked, unsigned end_after);

}  // namespace millrace::cli
