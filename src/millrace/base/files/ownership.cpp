#include "millrace/base/files/ownership.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace millrace {

std::string who_else_can_change(const struct stat& status, const std::string& name, uid_t user) {
    if (status.st_uid != 0 && status.st_uid != user) return name + " belongs to user " + std::to_string(status.st_uid);
    // In a folder with the sticky bit, as /tmp, everybody may make files, but nobody may change another one's.
    if (S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0) return {};
    if ((status.st_mode & S_IWOTH) != 0) return name + " can be written by everybody";
    // A group with a user's own number is that user's alone, by the convention of most distributions.
    if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != 0 && status.st_gid != user)
        return name + " can be written by group " + std::to_string(status.st_gid);
    return {};
}

std::string who_else_can_change(const std::string& path, uid_t user) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::canonical(path, error);
    if (error) return path + ": " + error.message();
    std::filesystem::path part;
    for (const std::filesystem::path& name : whole) {
        part /= name;
        struct stat status{};
        if (lstat(part.c_str(), &status) != 0) return part.string() + ": " + std::strerror(errno);
        if (std::string who = who_else_can_change(status, part.string(), user); !who.empty()) return who;
    }
    return {};
}

}  // namespace millrace
