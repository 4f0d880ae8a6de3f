// Promises, as people read them.
#pragma once

#include <string>

#include "millrace/exec/promises/promise_report.hpp"

namespace millrace::cli {

/// "2.00 Mpkt/s within 200.0 us: kept; 1.20 Mpkt/s came, 80.1 us at most; broken in 3 of 40 intervals". `now` is the
/// name of a state, as a run has told it.
std::string promise_text(const exec::PromiseReport& promise, const std::string& now);

}  // namespace millrace::cli
