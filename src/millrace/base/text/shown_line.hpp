// How much of a file an error may show.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace {

/// Whoever started the program has named this file, and may see its lines, whatever its mode.
void show_lines_of(const std::string& path);

/// Whether `user`, who runs the program, may be shown lines of a file that somebody else may have named. A
/// configuration can name any file that the program can read, and what the program says may go to others, such as those
/// who read a log. So these are files that everybody can read, and those that `user` owns, unless that is root.
bool may_show_lines(const struct stat& status, uid_t user);
/// Whether lines of the file may be shown: by `may_show_lines`, or because `show_lines_of` was told of it.
bool are_lines_shown(const std::string& path);

/// The line at `where`, without what can only be a key; empty when it may not be shown, or can't be read.
std::string shown_line(const Location& where);

/// Overwrites what can only be a key, mistyped or not: long words of hexadecimal digits, whatever the field is called.
std::string without_keys(std::string text);

/// Cuts what `text` quotes, and words that are long, to a few characters.
std::string with_short_words(const std::string& text);

/// Nobody reads more mistakes at once than this.
inline constexpr size_t kMaxTold = 50;
/// Of a file whose lines may not be shown: each tells a little of it.
inline constexpr size_t kMaxToldUnseen = 3;

/// These mistakes, rendered one behind the other, and how many more there are.
std::string render(const std::vector<Diagnostic>& diagnostics);

}  // namespace millrace
