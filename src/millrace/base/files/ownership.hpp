// Who may change what lies at a path.
#pragma once

#include <sys/stat.h>

#include <string>

namespace millrace {

/// Who, besides `user` and root, can change what `path` leads to, by its own rights or those of any folder on the way:
/// a piece of a sentence, such as "/opt belongs to user 1000". Empty when nobody can. Something that is not there is
/// said to be so. Links are resolved first: use the resolved path afterwards.
std::string who_else_can_change(const std::string& path, uid_t user);

/// The same of one file or folder that has been opened, whatever leads to it; `name` is what to call it.
std::string who_else_can_change(const struct stat& status, const std::string& name, uid_t user);

}  // namespace millrace
