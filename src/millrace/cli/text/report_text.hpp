// The closing table of a run.
#pragma once

#include <string>

#include "millrace/exec/report/report.hpp"

namespace millrace::cli {

/// Ports, chains and NFs with packets, bytes, rates, drops by reason and latency.
std::string report_text(const exec::Report& report, double seconds);

/// What of a run's packets and events fails the run, a line each; empty where all of it is in order.
std::string failures_text(const exec::Report& report);

}  // namespace millrace::cli
