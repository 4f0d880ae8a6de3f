// How a run of a whole program ends.
#pragma once

#include <string>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/device_work.hpp"

namespace millrace::test {

/// Waits until a run has ended by itself, and returns its report. Expects that it ends without trouble, and that every
/// packet is accounted for.
exec::Report end_of_run(exec::Runtime& runtime, const std::string& what = {});
/// The same, of which devices did `work`.
exec::Report end_of_run(exec::Runtime& runtime, Work work, const std::string& what = {});

/// The same where the test, too, receives from ports of the run: these count what it has taken, so the chains alone add
/// up.
exec::Report end_of_shared_run(exec::Runtime& runtime, Work work);

/// The same of runs that do not end by themselves: stops them first.
exec::Report stop_run(exec::Runtime& runtime);
exec::Report stop_run(exec::Runtime& runtime, Work work);

}  // namespace millrace::test
