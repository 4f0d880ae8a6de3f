// PTX by NVIDIA's own compiler: the one thing that nothing here stands in for. It needs no GPU.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace emulator {

/// By the NVRTC of the folder that EMULATED_NVRTC names. A result of NVRTC's, and its log; where there is no NVRTC, the
/// log says so.
int compile_ptx(const std::string& source, const std::string& name,
                const std::vector<std::pair<std::string, std::string>>& headers,
                const std::vector<const char*>& options, std::string& ptx, std::string& log);

}  // namespace emulator
