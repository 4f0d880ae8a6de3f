// Signals that ask a run to end or to read its configuration again.
#pragma once

namespace millrace::cli {

/// They are noted from before `main` on: none of them is lost while a run starts. SIGINT and SIGTERM ask for an end in
/// order; a second one ends the process at once, and says which network functions were at work.
bool stop_asked();
/// True once for any number of SIGHUPs since it was last asked.
bool take_reload();
/// From now on signals end the program, at once if one has come: for commands with nothing to bring to an end.
void let_signals_end_the_program();
/// Thrown when a stop is asked while a run starts, to leave what takes long.
struct Stopped {};

}  // namespace millrace::cli
