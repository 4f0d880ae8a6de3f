// How much memory a test takes.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace millrace::test {

/// What the process has in memory, in bytes, without what it has given up.
inline int64_t resident_bytes() {
    malloc_trim(0);
    std::ifstream file("/proc/self/statm");
    int64_t all = 0, resident = 0;
    file >> all >> resident;
    return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace millrace::test
