// All that the network function `hoarder` can be asked to do.
#pragma once

#include "exec/contract/watch.hpp"

namespace millrace::test {

/// A call, by the word for it in the YAML, and what it counts as.
struct Misdeed {
    const char* call;
    Deed deed;
};
inline constexpr Misdeed kMisdeeds[] = {
    {"new", Deed::allocation},       {"mmap", Deed::allocation},
    {"munmap", Deed::allocation},    {"mutex-lock", Deed::lock},
    {"mutex-timedlock", Deed::lock}, {"mutex-clocklock", Deed::lock},
    {"read-lock", Deed::lock},       {"write-lock", Deed::lock},
    {"cond-timedwait", Deed::lock},  {"cond-clockwait", Deed::lock},
    {"sem-wait", Deed::lock},        {"sem-timedwait", Deed::lock},
    {"sem-clockwait", Deed::lock},   {"usleep", Deed::sleep},
    {"nanosleep", Deed::sleep},      {"clock-nanosleep", Deed::sleep},
    {"futex", Deed::sleep},          {"poll", Deed::sleep},
    {"ppoll", Deed::sleep},          {"select", Deed::sleep},
    {"epoll-wait", Deed::sleep},     {"write", Deed::write},
    {"writev", Deed::write},         {"pwrite", Deed::write},
    {"pwritev", Deed::write},        {"log", Deed::log},
};

}  // namespace millrace::test
