// Changes of flows that somebody appends to a file.
#pragma once

#include <cstdint>
#include <functional>
#include <ios>
#include <string>
#include <string_view>

namespace millrace::nf::flow_switch {

/// The file that changes are appended to, and how far it has been read. Without a path there is none.
struct ChangeFile {
    std::string path;
    std::streamoff read = 0;
    uint32_t lines = 0;
    uint64_t refused = 0;  ///< lines

    /// Calls `f(line)` with every whole line that has come since, without its comment and with `lines` its number. What
    /// it throws as classify::WordMistake is told of, and counted as refused.
    void read_on(const std::function<void(std::string_view)>& f);
};

}  // namespace millrace::nf::flow_switch
