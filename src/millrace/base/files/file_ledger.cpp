#include "millrace/base/files/file_ledger.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "millrace/base/text/config.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/base/files/output_file.hpp"

namespace millrace {
namespace {

std::string whole_name(const std::string& path) {
    std::error_code error;
    const auto whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
    return error ? path : whole.string();
}

bool are_one_place(const Location& a, const Location& b) {
    return a.file == b.file && a.line == b.line && a.column == b.column;
}

std::string text(const Location& where) {
    if (where.file.empty()) return "the command line";
    return where.line == 0 ? where.file
                           : where.file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column);
}

thread_local FileLedger* current = nullptr;

bool go_together(FileLedger::Use a, FileLedger::Use b) { return a == b && a != FileLedger::Use::write; }

}  // namespace

void FileLedger::note(Use use, const std::string& path, const Location& where) {
    struct stat status{};
    const bool is_there = stat(path.c_str(), &status) == 0;
    if (is_there && !S_ISREG(status.st_mode)) return;
    const std::string name = whole_name(path);
    const auto check = [&](const auto& range) {
        for (auto at = range.first; at != range.second; ++at) {
            const Entry& other = at->second;
            if (are_one_place(other.where, where) || go_together(other.use, use)) continue;
            const bool is_read = use == Use::read || other.use == Use::read;
            cannot_write(
                path, where,
                std::string("is what ") + text(other.where) + (other.use == Use::read ? " reads" : " writes"),
                is_read ? "what is read would be destroyed: name another file" : "give each a file of its own");
        }
    };
    check(by_name_.equal_range(name));
    if (is_there) check(by_inode_.equal_range(Inode(status.st_dev, status.st_ino)));
    by_name_.emplace(name, Entry{use, where});
    if (is_there) by_inode_.emplace(Inode(status.st_dev, status.st_ino), Entry{use, where});
}

FileLedger::Scope::Scope(FileLedger& ledger) : before_(std::exchange(current, &ledger)) {}
FileLedger::Scope::~Scope() { current = before_; }

bool FileLedger::is_in_scope() { return current != nullptr; }

void FileLedger::note_here(Use use, const std::string& path, const Location& where) {
    if (current != nullptr) current->note(use, path, where);
}

std::string output_path(const Config& name, const std::string& folder, FileLedger::Use use) {
    if (name.text().empty()) name.fail("a file name is missing here");
    std::string path = folder.empty() ? resolve_path(name.text(), name.where().file)
                                      : (std::filesystem::path(folder) / name.text()).lexically_normal().string();
    FileLedger::note_here(use, path, name.where());
    // Of files that lines are appended to nobody makes the folder, save the output folder itself.
    const bool is_made = use != FileLedger::Use::append ||
                         std::filesystem::path(path).parent_path() == std::filesystem::path(folder).lexically_normal();
    check_output(path, name.where(), is_made ? folder : "");
    return path;
}

}  // namespace millrace
