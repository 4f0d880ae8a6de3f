// Notices that files change.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace millrace::cli {

/// Tells of changed files by inotify: of all below some folders, and of single ones. Hidden files and editors' backups
/// do not count.
class FolderWatch {
public:
    /// Throws std::runtime_error where the system gives no watch.
    FolderWatch();
    ~FolderWatch();
    FolderWatch(const FolderWatch&) = delete;
    FolderWatch& operator=(const FolderWatch&) = delete;

    /// All files below `folder`, also in folders that come later, but for those below `but` and below hidden folders.
    void add_tree(const std::filesystem::path& folder, const std::filesystem::path& but);
    /// One file, also when another one is put in its place.
    void add_file(const std::filesystem::path& file);

    /// Readable when something has happened: for poll().
    int descriptor() const { return descriptor_; }
    /// Takes what has happened; true if a watched file changed.
    bool take();

private:
    struct Folder {
        std::filesystem::path path;
        bool tree = false;               ///< all of its files count, and its folders
        std::vector<std::string> files;  ///< that count where not all do
    };
    /// Null where there is no such folder.
    Folder* add(const std::filesystem::path& folder);

    int descriptor_ = -1;
    std::filesystem::path but_;
    std::map<int, Folder> folders_;  // by inotify's number
};

}  // namespace millrace::cli
