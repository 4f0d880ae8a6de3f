#include "millrace/base/files/kept_file.hpp"

#include <cctype>

#include "millrace/base/files/file.hpp"

namespace millrace {

std::string kept_file(const std::string& kind, const std::string& model) {
    std::string name = kind + "-";
    for (const char c : model)
        name += std::isalnum(static_cast<unsigned char>(c)) != 0
                    ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                    : '-';
    const std::string folder = cache_folder();
    return folder.empty() ? "" : folder + "/" + name + ".json";
}

}  // namespace millrace
