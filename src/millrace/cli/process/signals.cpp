#include "millrace/cli/process/signals.hpp"

#include <unistd.h>

#include <csignal>

#include "millrace/base/running.hpp"

namespace millrace::cli {
namespace {

volatile std::sig_atomic_t stop_signal = 0;
volatile std::sig_atomic_t reload_asked = 0;

void on_stop(int signal) {
    if (stop_signal != 0) {
        tell_running();
        _exit(128 + signal);
    }
    stop_signal = signal;
}
void on_reload(int) { reload_asked = 1; }

void note_signals(int, char**, char**) {
    struct sigaction stop{};
    stop.sa_handler = on_stop;
    stop.sa_flags = SA_RESTART;
    for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &stop, nullptr);
    struct sigaction reload{};
    reload.sa_handler = on_reload;
    reload.sa_flags = SA_RESTART;
    sigaction(SIGHUP, &reload, nullptr);
}

// Before the constructors of any library, some of which take their time.
__attribute__((section(".preinit_array"), used)) void (*const note_signals_first)(int, char**, char**) = note_signals;

}  // namespace

bool stop_asked() { return stop_signal != 0; }

bool take_reload() {
    if (reload_asked == 0) return false;
    reload_asked = 0;
    return true;
}

void let_signals_end_the_program() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
    if (stop_signal != 0) std::raise(stop_signal);
    if (reload_asked != 0) std::raise(SIGHUP);
}

}  // namespace millrace::cli
