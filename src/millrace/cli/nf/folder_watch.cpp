#include "millrace/cli/nf/folder_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace millrace::cli {
namespace {

constexpr uint32_t kChanges = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE;

/// What editors and version control leave beside the files that people write.
bool counts(std::string_view name) { return !name.empty() && name.front() != '.' && name.back() != '~'; }

}  // namespace

FolderWatch::FolderWatch() : descriptor_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    if (descriptor_ < 0) throw std::runtime_error(std::string("files can't be watched: ") + std::strerror(errno));
}
FolderWatch::~FolderWatch() { close(descriptor_); }

FolderWatch::Folder* FolderWatch::add(const std::filesystem::path& folder) {
    const int number = inotify_add_watch(descriptor_, folder.c_str(), kChanges | IN_ONLYDIR);
    if (number < 0 && (errno == ENOENT || errno == ENOTDIR)) return nullptr;
    if (number < 0) {
        const std::string hint = errno == ENOSPC ? " (raise the sysctl fs.inotify.max_user_watches)" : "";
        throw std::runtime_error(folder.string() + " can't be watched: " + std::strerror(errno) + hint);
    }
    Folder& added = folders_[number];
    added.path = folder;
    return &added;
}

void FolderWatch::add_tree(const std::filesystem::path& folder, const std::filesystem::path& but) {
    but_ = but;
    // Any folder may go while it is looked at.
    const auto add_folder = [&](const std::filesystem::path& one) {
        if (Folder* const added = add(one)) added->tree = true;
    };
    add_folder(folder);
    std::error_code error;
    auto entry = std::filesystem::recursive_directory_iterator(
        folder, std::filesystem::directory_options::skip_permission_denied, error);
    for (; !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
        if (!entry->is_directory(error) || entry->is_symlink(error)) continue;
        if (!counts(entry->path().filename().string()) || entry->path() == but_) entry.disable_recursion_pending();
        else add_folder(entry->path());
    }
}

void FolderWatch::add_file(const std::filesystem::path& file) {
    Folder* const folder = add(file.parent_path());
    if (folder == nullptr) throw std::runtime_error(file.string() + " can't be watched: there is no such folder");
    folder->files.push_back(file.filename().string());
}

bool FolderWatch::take() {
    bool changed = false;
    alignas(inotify_event) char buffer[16 * 1024];
    for (ssize_t bytes = 0; (bytes = read(descriptor_, buffer, sizeof buffer)) > 0;) {
        for (ssize_t at = 0; at < bytes;) {
            inotify_event event;
            std::memcpy(&event, buffer + at, sizeof event);
            const std::string name = event.len > 0 ? buffer + at + sizeof event : "";
            at += static_cast<ssize_t>(sizeof event + event.len);
            if (event.mask & IN_Q_OVERFLOW) changed = true;
            const auto found = folders_.find(event.wd);
            if (found == folders_.end()) continue;
            if (event.mask & IN_IGNORED) {
                folders_.erase(found);
                continue;
            }
            if (!found->second.tree) {
                changed = changed || std::ranges::count(found->second.files, name) > 0;
                continue;
            }
            const std::filesystem::path path = found->second.path / name;
            if (!counts(name) || path == but_) continue;
            if ((event.mask & IN_ISDIR) && (event.mask & (IN_CREATE | IN_MOVED_TO)))
                if (std::error_code error; std::filesystem::is_directory(path, error)) add_tree(path, but_);
            // A file that was only begun changes once more when it is written.
            if (!(event.mask & IN_CREATE) || (event.mask & IN_ISDIR)) changed = true;
        }
    }
    return changed;
}

}  // namespace millrace::cli
