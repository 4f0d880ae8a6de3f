#include "millrace/base/cuda_libraries.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "millrace/base/files/ownership.hpp"

namespace millrace {
namespace {

/// Who but root can change the folder or one of its libraries; empty when nobody can.
std::string who_else_can_change_libraries(const std::string& folder) {
    std::string who = who_else_can_change(folder, 0);
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(folder, error))
        if (who.empty() && file.path().filename().string().find(".so") != std::string::npos)
            who = who_else_can_change(file.path().string(), 0);
    return who;
}

void add(const std::string& named, const std::string& by, CudaFolders& result) {
    // Resolved once, so that what is checked is what is opened.
    std::error_code error;
    const std::string folder = std::filesystem::canonical(named, error).string();
    if (error) return;
    if (geteuid() == 0) {
        if (const std::string who = who_else_can_change_libraries(folder); !who.empty()) {
            result.refused.push_back(by + " is left out, as root loads only what root alone can change: " + who);
            return;
        }
    }
    result.folders.push_back(folder + "/");
}

}  // namespace

CudaFolders cuda_library_folders() {
    CudaFolders result;
    if (const char* own = secure_getenv("MILLRACE_CUDA"); own != nullptr && *own != '\0')
        add(own, "MILLRACE_CUDA=" + std::string(own), result);
    result.folders.emplace_back();
    add("/usr/local/cuda/lib64", "/usr/local/cuda/lib64", result);
    return result;
}

}  // namespace millrace
