#include "support/data.hpp"

#include <cstdlib>

namespace millrace::test {

std::string data_path(const std::string& name) {
    const char* folder = std::getenv("MILLRACE_DATA");
    return std::string(folder != nullptr ? folder : MILLRACE_DATA_DEFAULT) + "/" + name;
}

std::string source_path(const std::string& name) {
    const char* folder = std::getenv("MILLRACE_SOURCE");
    return std::filesystem::path(folder != nullptr ? folder : MILLRACE_SOURCE_DEFAULT) / name;
}

std::string plugin_path(const std::string& name) { return source_path(MILLRACE_PLUGINS "/" + name); }

}  // namespace millrace::test
