// Reading files that users hand over, plain or compressed, and going through their lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "millrace/base/diagnostic.hpp"

namespace millrace {

/// The whole content of a file; `.xz` and `.gz` are unpacked. Throws ConfigError when it cannot be
/// read, is damaged, or is longer than `limit_bytes` unpacked. `asked_from` (may be empty) is the
/// place that named the file: the error points there.
std::string read_file(const std::string& path, const Location& asked_from = {},
                      size_t limit_bytes = size_t{4} << 30);

/// Calls `f(line, number)` for each line, numbers from 1, without its end of line (LF or CRLF).
void for_each_line(std::string_view text, const std::function<void(std::string_view line, uint32_t number)>& f);

/// Makes `path` a file of these bytes, all at once or not at all, as another process may read it meanwhile; its folder, too.
/// False when it can't be written.
bool write_file(const std::string& path, std::string_view bytes);

/// Where things are kept that can be made again: `$XDG_CACHE_HOME/millrace`, else `~/.cache/millrace`; empty without a home.
std::string cache_folder();

/// `path` as seen from the folder of `from_file`, if it is relative.
std::string resolve_path(const std::string& path, const std::string& from_file);

}  // namespace millrace
