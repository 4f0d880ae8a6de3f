// Tables that network functions show of themselves while they work.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace millrace::nf {

/// Of each row as many values as there are columns. Names of columns are lower-case words joined with '-'.
struct ShownTable {
    using Value = std::variant<std::string, uint64_t>;
    std::vector<std::string> columns;
    std::vector<std::vector<Value>> rows;
    uint64_t total = 0;  ///< rows that there are; `rows` may have fewer
};

}  // namespace millrace::nf
