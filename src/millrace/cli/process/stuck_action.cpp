#include "millrace/cli/process/stuck_action.hpp"

namespace millrace::cli {
namespace {

constexpr unsigned kTellAfter = 5, kEndAfterStop = 3;

}  // namespace

StuckAction action_for(unsigned seconds, bool stop_asked, unsigned end_after) {
    if (seconds >= end_after || (stop_asked && seconds >= kEndAfterStop)) return StuckAction::end;
    return seconds == kTellAfter ? StuckAction::tell : StuckAction::nothing;
}

}  // namespace millrace::cli
