// What functions show, as tests read it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "millrace/nf/shown.hpp"

namespace millrace::test {

/// The rows as lines: values joined with '|'. Each must have a value for each column.
inline std::vector<std::string> lines_of(const nf::ShownTable& shown) {
    std::vector<std::string> lines;
    for (const auto& row : shown.rows) {
        EXPECT_EQ(row.size(), shown.columns.size());
        std::string line;
        for (const auto& value : row)
            line += (line.empty() ? "" : "|") +
                    std::visit([](const auto& one) { return fmt::format("{}", one); }, value);
        lines.push_back(line);
    }
    return lines;
}

}  // namespace millrace::test
