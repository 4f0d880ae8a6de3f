#include "millrace/cli/process/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace millrace::cli {
namespace {

/// In the new process: only what may be called between fork() and exec(). Does not come back.
[[noreturn]] void become(char* const* words, const char* output, pid_t parent, int report) {
    const auto fail = [&] {
        const int why = errno;
        [[maybe_unused]] const ssize_t told = write(report, &why, sizeof why);
        _exit(127);
    };
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) std::signal(signal, SIG_DFL);
    std::signal(SIGHUP, SIG_IGN);  // `millrace run` takes it as soon as it can; it must not die of one before
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0) fail();
    if (output != nullptr) {
        const int file = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0) fail();
    }
    execvp(words[0], words);
    fail();
    _exit(127);
}

}  // namespace

std::string ChildEnd::text() const {
    if (signal == 0) return "with status " + std::to_string(status);
    return "by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

Child::Child(const std::vector<std::string>& words, const std::string& output) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) throw std::runtime_error(words[0] + " can't be started: " + strerror(errno));
    const pid_t parent = getpid();
    // Not fork(): whoever has much memory would stand still while its pages are marked, and for each that it writes to.
    // It calls only what may be called then.
    const pid_t process = vfork();  // NOLINT(bugprone-unsafe-functions,clang-analyzer-security.insecureAPI.vfork)
    if (process == 0) become(pointers.data(), output.empty() ? nullptr : output.c_str(), parent, report[1]);
    int why = process < 0 ? errno : 0;
    close(report[1]);
    if (process > 0 && read(report[0], &why, sizeof why) > 0) waitpid(process, nullptr, 0);
    close(report[0]);
    if (why != 0) throw std::runtime_error(words[0] + " can't be started: " + std::strerror(why));
    process_ = process;
}

Child::~Child() {
    if (!running()) return;
    send(SIGKILL);
    waitpid(process_, nullptr, 0);
}

Child::Child(Child&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
Child& Child::operator=(Child&& other) noexcept {
    std::swap(process_, other.process_);
    return *this;
}

bool Child::ended(ChildEnd& end) {
    int status = 0;
    if (!running() || waitpid(process_, &status, WNOHANG) != process_) return false;
    process_ = 0;
    end = WIFSIGNALED(status) ? ChildEnd{-1, WTERMSIG(status)} : ChildEnd{WEXITSTATUS(status), 0};
    return true;
}

void Child::send(int signal) const {
    if (running()) kill(-process_, signal);
}
void Child::tell(int signal) const {
    if (running()) kill(process_, signal);
}

}  // namespace millrace::cli
