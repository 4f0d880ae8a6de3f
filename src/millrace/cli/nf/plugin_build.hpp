// The CMake build that a plugin comes from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace millrace::cli {

/// What a plugin's build folder says of it.
struct PluginBuild {
    std::filesystem::path plugin;   ///< the library, which need not be there yet
    std::filesystem::path folder;   ///< of the build
    std::filesystem::path sources;  ///< the folder with its CMakeLists.txt
    std::string cmake;              ///< the program that made it

    /// That of a plugin's file: the closest folder around it that CMake builds in. Throws std::runtime_error where
    /// there is none.
    static PluginBuild of(const std::string& plugin);
    /// The command that builds this plugin: a target with the name of its file, as millrace_add_nf makes it.
    std::vector<std::string> command() const;
};

}  // namespace millrace::cli
