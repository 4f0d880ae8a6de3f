// All captures of the data folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::test {

/// Every file below the data folder's captures; archives are unpacked into `folder`. In the order of the alphabet.
std::vector<std::string> all_captures(const std::filesystem::path& folder);

}  // namespace millrace::test
