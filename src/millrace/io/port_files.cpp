#include <filesystem>

#include "millrace/io/port_plan.hpp"

namespace millrace::io {
namespace {

/// One name for a file, whatever way its name was written: through other folders, links, or not there yet.
std::string one_name(const std::string& path) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
    return error ? path : whole.string();
}

bool is_same_file(const std::string& a, const std::string& b) {
    std::error_code error;
    return one_name(a) == one_name(b) || std::filesystem::equivalent(a, b, error);  // hard links
}

/// Any number may write to /dev/null.
bool takes_any_writers(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_character_file(path, error);
}

}  // namespace

void PortFiles::reads(const std::string& port, const Config& name, const std::string& path) {
    for (const File& file : files_)
        if (file.is_written && is_same_file(file.path, path))
            name.fail("'" + path + "' is what port '" + file.port + "' writes", "a capture cannot be read and written at once: name another file");
    files_.push_back({port, path, false});
}

void PortFiles::writes(const std::string& port, const Config& name, const std::string& path) {
    if (takes_any_writers(path)) return;
    for (const File& file : files_) {
        if (!is_same_file(file.path, path)) continue;
        if (!file.is_written) name.fail("'" + path + "' is what port '" + file.port + "' reads", "a capture cannot be read and written at once: name another file");
        name.fail("'" + path + "' is what port '" + file.port + "' writes already", "give each port a file of its own, or lead both ways to one port");
    }
    files_.push_back({port, path, true});
}

}  // namespace millrace::io
