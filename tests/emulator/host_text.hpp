// CUDA C++ as the host's compiler takes it.
#pragma once

#include <string>

namespace emulator {

/// The text of a source or of a header, changed where no header of ours could say it in C++.
std::string for_the_host(const std::string& text);
/// What the driver looks kernels up by, to stand behind their source.
std::string entries(const std::string& text);

}  // namespace emulator
