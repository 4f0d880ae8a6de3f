#include "millrace/cli/nf/nf_watch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/process/scratch_folder.hpp"
#include "millrace/cli/process/child.hpp"
#include "millrace/cli/nf/folder_watch.hpp"
#include "millrace/cli/nf/plugin_build.hpp"

namespace millrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Editors write a file in several steps, and several files at once.
constexpr int kQuietMs = 50;
constexpr auto kPatience = std::chrono::seconds(1);

/// Signals as something to wait for, from now on until the program ends.
class Signals {
public:
    Signals() {
        sigset_t wanted;
        sigemptyset(&wanted);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&wanted, signal);
        sigprocmask(SIG_BLOCK, &wanted, nullptr);
        descriptor_ = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
        if (descriptor_ < 0) throw std::runtime_error("signals can't be waited for");
    }
    ~Signals() { close(descriptor_); }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    int descriptor() const { return descriptor_; }
    /// Takes those that have come; true if one asks for an end.
    bool take() const {
        bool end = false;
        for (signalfd_siginfo info; read(descriptor_, &info, sizeof info) == sizeof info;)
            end = end || info.ssi_signo != SIGCHLD;
        return end;
    }

private:
    int descriptor_ = -1;
};

void say(const std::string& text) { std::cerr << "millrace: " << text << std::endl; }

/// A file's content; nothing where it can't be read.
std::optional<std::string> content(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) return std::nullopt;
    std::ostringstream text;
    text << in.rdbuf();
    return std::move(text).str();
}

class Watcher {
public:
    explicit Watcher(const WatchArguments& arguments)
        : build_(PluginBuild::of(arguments.plugin)), device_(arguments.device),
          program_(std::filesystem::read_symlink("/proc/self/exe").string()), name_(build_.plugin.stem().string()) {
        if (!arguments.table.empty()) table_ = std::filesystem::absolute(arguments.table);
        if (!arguments.configuration.empty()) configuration_ = std::filesystem::absolute(arguments.configuration);
        files_.add_tree(build_.sources, build_.folder);
        for (const std::filesystem::path& file : {table_, configuration_})
            if (!file.empty()) files_.add_file(file);
    }

    int work() {
        say("watches " + build_.sources.string() + "; Ctrl-C ends it");
        for (bool changed = true; !end_;) {
            if (changed) {
                settle();
                attempt();
                look_at_chain();
            }
            changed = wait(-1) && files_.take();
            look_at_chain();
        }
        return finish();
    }

private:
    /// The plugin, and a file that it is tried with or run by.
    using State = std::pair<std::optional<std::string>, std::optional<std::string>>;

    /// Waits for a signal or a changed file; true if a file changed.
    bool wait(int milliseconds) {
        pollfd ready[] = {{signals_.descriptor(), POLLIN, 0}, {files_.descriptor(), POLLIN, 0}};
        if (end_ || poll(ready, 2, milliseconds) <= 0) return false;
        if (ready[0].revents != 0) end_ = signals_.take() || end_;
        return ready[1].revents != 0;
    }

    /// Until nothing has changed for a moment.
    void settle() {
        const auto until = Clock::now() + kPatience;
        while (Clock::now() < until && wait(kQuietMs)) files_.take();
    }

    /// Runs a program to its end, or until this one is to end.
    ChildEnd run(const std::vector<std::string>& words, const std::string& output = {}) {
        Child child(words, output);
        ChildEnd end;
        for (bool told = false; !child.ended(end);) {
            if (end_ && !told) child.send(SIGTERM);
            told = end_;
            pollfd ready{signals_.descriptor(), POLLIN, 0};
            poll(&ready, 1, -1);
            const bool asked = signals_.take();
            if (asked && end_) child.send(SIGKILL);
            end_ = end_ || asked;
        }
        return end;
    }

    /// Builds what has changed, and does with it what is to be done.
    void attempt() {
        if (end_ || !build()) return;
        const std::optional<std::string> plugin = content(build_.plugin);
        if (!plugin) return say(build_.plugin.string() + " was not built: is that its name?");
        if (!table_.empty()) {
            if (State now{plugin, content(table_)}; now != tested_) {
                tested_ = std::move(now);
                passed_ = test();
            }
            if (!passed_) return;
        }
        if (configuration_.empty() || end_) return;
        if (State now{plugin, content(configuration_)}; now != run_with_) {
            run_with_ = std::move(now);
            bring_in();
        }
    }

    bool build() {
        const ScratchFolder folder;
        const std::string output = folder.path() + "/build";
        const std::optional<std::string> before = content(build_.plugin);
        const auto start = Clock::now();
        const ChildEnd end = run(build_.command(), output);
        if (end_) return false;
        if (end.status != 0) {
            std::cerr << content(output).value_or("");
            say(name_ + " was not built" + keeps());
            failed_ = true;
            return false;
        }
        if (failed_ || first_ || content(build_.plugin) != before)
            say(fmt::format("built {} in {:.1f} s", name_,
                            std::chrono::duration<double>(Clock::now() - start).count()));
        failed_ = first_ = false;
        return true;
    }

    bool test() {
        const ChildEnd end = run({program_, "nf", "test", build_.plugin.string(), table_.string()});
        if (end_ || end.status == 0) return !end_;
        say(name_ + " did not pass " + table_.filename().string() +
            (end.signal != 0 ? ", it ended " + end.text() : "") + keeps());
        return false;
    }

    std::string keeps() const { return chain_.running() ? "; the chain runs on with what it has" : ""; }

    /// Into the chain that runs, or into one that is started.
    void bring_in() {
        if (chain_.running()) return chain_.tell(SIGHUP);
        std::vector<std::string> words = {program_, "--nf", build_.plugin.string(), "run", configuration_.string()};
        if (!device_.empty()) words.insert(words.end(), {"--device", device_});
        chain_ = Child(words);
    }

    /// Whether the chain has ended by itself.
    void look_at_chain() {
        ChildEnd end;
        if (!chain_.ended(end)) return;
        chain_end_ = end;
        if (!end_) say("the chain ended " + end.text() + "; the next change starts it again");
    }

    /// Ends the chain in order; the exit status is its.
    int finish() {
        chain_.tell(SIGTERM);
        while (chain_.running()) {
            look_at_chain();
            pollfd ready{signals_.descriptor(), POLLIN, 0};
            if (chain_.running() && poll(&ready, 1, -1) > 0 && signals_.take()) chain_.tell(SIGTERM);
        }
        if (chain_end_.status == 0 || chain_end_.signal == SIGTERM) return kOk;
        say("the chain ended " + chain_end_.text());
        return kFailed;
    }

    const PluginBuild build_;
    const std::string device_, program_, name_;
    std::filesystem::path table_, configuration_;
    const Signals signals_;
    FolderWatch files_;
    State tested_, run_with_;  // what was tried and brought in last
    bool passed_ = false, failed_ = false, first_ = true, end_ = false;
    Child chain_;
    ChildEnd chain_end_{0, 0};  // of the last one
};

}  // namespace

int watch_nf(const WatchArguments& arguments) { return Watcher(arguments).work(); }

}  // namespace millrace::cli
