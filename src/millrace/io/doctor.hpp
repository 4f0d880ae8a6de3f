// What this machine offers for packet processing, and what it lacks.
#pragma once

#include <string>
#include <vector>

namespace millrace::io {

/// One thing that was looked at.
struct Finding {
    enum class State {
        ok,
        missing,  ///< `cost` says what that means, `remedy` what would mend it
        note,     ///< neither good nor bad
    };
    std::string group;   ///< "memory", "cpu", "network", "gpu", "libraries", "rights"
    std::string name;    ///< "huge pages"
    State state = State::ok;
    std::string value;   ///< what was found
    std::string cost;    ///< empty unless missing
    std::string remedy;  ///< empty unless missing
};

/// Looks at memory, CPU, NICs and their drivers, GPU and its libraries, rights, and the libraries in use. Needs no
/// rights itself, starts nothing (not even EAL), changes nothing; a GPU library is loaded if it is there. Takes
/// some milliseconds, with a GPU driver up to a second.
std::vector<Finding> examine_machine();

}  // namespace millrace::io
