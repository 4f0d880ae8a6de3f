// Checks this machine and suggests fixes.
#pragma once

#include <string>
#include <vector>

namespace millrace::doctor {

/// One thing that was looked at.
struct Finding {
    enum class State {
        ok,
        missing,   ///< needed, and not there: `cost` says what that means, `remedy` what would mend it
        optional,  ///< not there, and only some uses need it: `cost` says which
        note,      ///< neither good nor bad
    };
    std::string group;  ///< "memory", "cpu", "network", "gpu", "libraries", "rights"
    std::string name;   ///< "huge pages"
    State state = State::ok;
    std::string value;   ///< what was found
    std::string cost;    ///< of what is missing or optional
    std::string remedy;  ///< of what is missing or optional
};

/// Looks at memory, CPU, NICs and their drivers, GPU and its libraries, rights, and the libraries in use. Needs no
/// rights itself, starts nothing (not even EAL), changes nothing; a GPU library is loaded if it is there. Takes
/// some milliseconds, with a GPU driver up to a second.
std::vector<Finding> examine_machine();

}  // namespace millrace::doctor
