// Programs that a command starts, and that end with it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace millrace::cli {

/// How a program ended.
struct ChildEnd {
    int status = -1;  ///< of its exit; -1 where a signal ended it
    int signal = 0;   ///< that ended it
    /// "with status 1", "by signal 11 (Segmentation fault)".
    std::string text() const;
};

/// A program at work, in a process group of its own: a key such as Ctrl-C reaches only who started it. It gets SIGTERM
/// where that one vanishes, and leaves SIGHUP alone until it wants it.
class Child {
public:
    Child() = default;
    /// Starts `words[0]`, sought in PATH. What it says goes to the file `output`, or where this program's does if that
    /// is empty. Throws std::runtime_error where it can't be started.
    explicit Child(const std::vector<std::string>& words, const std::string& output = {});
    /// Ends it, by force if need be.
    ~Child();
    Child(Child&& other) noexcept;
    Child& operator=(Child&& other) noexcept;

    bool running() const { return process_ > 0; }
    /// True when it has ended, once; `end` is how.
    bool ended(ChildEnd& end);
    /// To it and all that it has started.
    void send(int signal) const;
    /// Only to itself.
    void tell(int signal) const;

private:
    pid_t process_ = 0;
};

}  // namespace millrace::cli
