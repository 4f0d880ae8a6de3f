// Files whose content nobody else is to know.
#pragma once

#include "millrace/base/files/file.hpp"

namespace millrace {

/// Refuses a file of keys that others than its owner can read or change.
inline FileCheck only_for_its_owner(const std::string& path) {
    return [path](const struct stat& status) {
        if ((status.st_mode & (S_IRWXG | S_IRWXO)) == 0) return std::pair<std::string, std::string>();
        return std::pair<std::string, std::string>("holds keys and is open to others than its owner",
                                                   "run: chmod 600 " + path);
    };
}

}  // namespace millrace
