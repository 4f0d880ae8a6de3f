// Golden packets (nftest/golden.hpp), for tests: a case that fails is googletest's failure.
#pragma once

#include <string>

namespace millrace::test {

/// Runs `src/millrace/nf/<folder>/golden.yaml` (the folder is named as the type unless given): every
/// case with the device half of 1, 8 and 32 lanes and with the CPU half, on the host and on the tests' devices, and
/// holds the device half against what it declares.
void run_golden(const std::string& type, const std::string& folder = {});
/// The same for any file.
void run_golden_file(const std::string& type, const std::string& path);

}  // namespace millrace::test
