// Reading files that users hand over, plain or compressed, and going through their lines.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace {

/// Longer texts than this are not what they are meant to be.
inline constexpr size_t kMaxFileBytes = size_t{256} << 20;
/// What a packed file may take while it is unpacked: its own header says how much.
inline constexpr uint64_t kMaxXzMemoryBytes = uint64_t{256} << 20;

/// Looks at a file that has been opened: why it may not be read, and what would mend that; both empty when it may.
using FileCheck = std::function<std::pair<std::string, std::string>(const struct stat&)>;

/// Opens a file to be read, and nothing else: no folder, device, pipe or socket. The descriptor is the caller's to
/// close. Throws ConfigError. `asked_from` (may be empty) is the place that named the file: the error points there.
int open_file(const std::string& path, const Location& asked_from = {}, const FileCheck& check = {});

/// The whole content of a file; `.xz` and `.gz` are unpacked. Throws ConfigError as `open_file` does, and when the file
/// is damaged or longer than `limit_bytes` unpacked, having read no more than that.
std::string read_file(const std::string& path, const Location& asked_from = {}, size_t limit_bytes = kMaxFileBytes,
                      const FileCheck& check = {});

/// The first bytes of what `read_file` would give; no more are read than that takes.
std::string read_beginning(const std::string& path, size_t most_bytes);

/// Calls `f(line, number)` for each line, numbers from 1, without its end of line (LF or CRLF).
void for_each_line(std::string_view text, const std::function<void(std::string_view line, uint32_t number)>& f);

/// Where things are kept that can be made again: `$XDG_CACHE_HOME/millrace`, else `~/.cache/millrace`; empty without a
/// home.
std::string cache_folder();

/// `path` as seen from the folder of `from_file`, if it is relative.
std::string resolve_path(const std::string& path, const std::string& from_file);

}  // namespace millrace
