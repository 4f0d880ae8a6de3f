#include "millrace/cli/nf/plugin_build.hpp"

#include <fstream>
#include <stdexcept>

namespace millrace::cli {
namespace {

constexpr const char* kCache = "CMakeCache.txt";

/// The value of an entry such as "CMAKE_COMMAND:INTERNAL=/usr/bin/cmake"; empty where there is none.
std::string cache_entry(const std::filesystem::path& cache, const std::string& key) {
    std::ifstream in(cache);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(key + ":"))
            if (const size_t at = line.find('='); at != std::string::npos) return line.substr(at + 1);
    return {};
}

}  // namespace

PluginBuild PluginBuild::of(const std::string& plugin) {
    PluginBuild build;
    build.plugin = std::filesystem::weakly_canonical(plugin);
    for (build.folder = build.plugin.parent_path(); !std::filesystem::exists(build.folder / kCache);
         build.folder = build.folder.parent_path())
        if (build.folder == build.folder.parent_path())
            throw std::runtime_error(plugin + " lies in no folder that CMake builds in; make one: cmake -S " +
                                     "SOURCES -B FOLDER, and name FOLDER/NAME.so");
    const std::filesystem::path cache = build.folder / kCache;
    build.sources = std::filesystem::weakly_canonical(cache_entry(cache, "CMAKE_HOME_DIRECTORY"));
    build.cmake = cache_entry(cache, "CMAKE_COMMAND");
    if (build.sources.empty() || build.cmake.empty())
        throw std::runtime_error(cache.string() + " does not say where the sources are; run cmake there again");
    if (build.sources == build.folder)
        throw std::runtime_error(build.folder.string() + " holds sources and build together, which can't be told " +
                                 "apart; build in a folder of its own: cmake -S " + build.sources.string() +
                                 " -B FOLDER");
    return build;
}

std::vector<std::string> PluginBuild::command() const {
    return {cmake, "--build", folder.string(), "--target", plugin.stem().string()};
}

}  // namespace millrace::cli
