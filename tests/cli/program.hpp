// Runs the program itself, as a person or a service would.
#pragma once

#include <string>
#include <vector>

#include "support/test_folder.hpp"

namespace millrace::test {

/// How the program ended and what it wrote.
struct Ended {
    int status = -1;  ///< of its exit; 128 + N where signal N ended it
    std::string out, err;
};

struct Surroundings {
    std::vector<std::string> environment;  ///< "NAME=value", besides this program's own
    std::string standard_output;           ///< a file in place of `Ended::out`
};

/// Runs `millrace ARGUMENTS`, for a minute at most.
Ended run_program(const std::vector<std::string>& arguments, const Surroundings& surroundings = {});

/// The text of a file; empty where there is none.
std::string text_of_file(const std::string& path);

}  // namespace millrace::test
