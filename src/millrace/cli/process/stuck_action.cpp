#include "millrace/cli/process/stuck_action.hpp"

namespace millrace::cli {

StuckAction action_for(unsigned seconds, bool stop_asked, const Patience& patience) {
    if (seconds >= patience.end_after || (stop_asked && seconds >= patience.end_after_stop)) return StuckAction::end;
    return seconds == patience.tell_after ? StuckAction::tell : StuckAction::nothing;
}

}  // namespace millrace::cli
