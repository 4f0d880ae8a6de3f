// Files that the program writes. Links of other users are not followed, devices and pipes are written to and never
// replaced.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace {

/// Who may read a file that is made: its owner alone (mode 0600), or the owner's group, too (0640). The umask takes
/// away from it.
enum class Readers { owner, group };

/// Hands bytes to the kernel, interrupted or not. How many it took: fewer than all when it would take no more, with
/// errno set.
size_t write_bytes(int descriptor, std::string_view bytes);

/// Throws what tells that a file can't be written: ConfigError at `asked_from`, the place that names it;
/// std::runtime_error where the command line did.
[[noreturn]] void cannot_write(const std::string& path, const Location& asked_from, const std::string& why,
                               const std::string& hint = {});
/// Throws as `cannot_write` does when the file could not be opened as OutputFile or WholeFile. Nothing is made or
/// changed. Folders at and below `made_folder` may be missing when they can be made.
void check_output(const std::string& path, const Location& asked_from = {}, const std::string& made_folder = {});
/// The same of a folder that is to be made, if it is not there, with those above it.
void check_output_folder(const std::string& path, const Location& asked_from = {});

/// A file that is written piece by piece, and that others may see grow: a capture, a log. One process at a time may
/// write it.
class OutputFile {
public:
    enum class Begin { empty, at_end };

    OutputFile() = default;
    /// Opens or makes it. Throws as `cannot_write` does: also when another process writes it now.
    OutputFile(const std::string& path, Begin begin, Readers readers = Readers::group, const Location& asked_from = {});
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;
    ~OutputFile();

    bool is_open() const { return descriptor_ >= 0; }
    int descriptor() const { return descriptor_; }
    /// False when the kernel tells of bytes that it lost, with errno set. Called again it does nothing.
    bool close();

private:
    int descriptor_ = -1;
    std::shared_ptr<const int> lock_;  // a second descriptor, shared by all who write the file in this process
};

/// A file that appears all at once, when it is whole: until then it has another name, and what was there before stays.
/// A device or pipe is written to as it comes.
class WholeFile {
public:
    /// Opens or makes it. Throws as `cannot_write` does.
    explicit WholeFile(const std::string& path, Readers readers = Readers::group, const Location& asked_from = {});
    WholeFile(const WholeFile&) = delete;
    WholeFile& operator=(const WholeFile&) = delete;
    /// Takes away what was not finished.
    ~WholeFile();

    std::ostream& stream();
    /// Gives the file its name. Throws as `cannot_write` does, with why, when anything was lost since it was opened.
    void finish();

private:
    class Buffer;
    std::string path_, target_, unfinished_;  // `unfinished_` is empty where the bytes go to the target itself
    Location asked_from_;
    std::unique_ptr<Buffer> buffer_;
    std::unique_ptr<std::ostream> stream_;
};

/// Makes `path` a file of these bytes, all at once or not at all, and its folder. Throws as `cannot_write` does.
void write_file(const std::string& path, std::string_view bytes, Readers readers = Readers::group);

}  // namespace millrace
