#include "support/data.hpp"

#include <cstdlib>

namespace millrace::test {

std::string data_path(const std::string& name) {
    const char* folder = std::getenv("MILLRACE_DATA");
    return std::string(folder != nullptr ? folder : MILLRACE_DATA_DEFAULT) + "/" + name;
}

}  // namespace millrace::test
