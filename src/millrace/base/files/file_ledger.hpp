// Which files a configuration reads and which it writes.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace {

class Config;

/// Keeps a configuration from writing what it reads, or one file twice. A file is the same whatever way its name was
/// written: through other folders or links, or when it is not there yet. Devices such as /dev/null are never kept.
class FileLedger {
public:
    enum class Use { read, append, write };

    /// Notes that `where` reads the file, appends lines to it (as others may, too), or writes it. The same place may
    /// say so again. Throws as `cannot_write` does when that does not go together with what another place said.
    void note(Use use, const std::string& path, const Location& where);

    /// While it lives, what a configuration says on this thread is noted in this ledger.
    class Scope {
    public:
        explicit Scope(FileLedger& ledger);
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;
        ~Scope();

    private:
        FileLedger* before_;
    };
    static bool is_in_scope();
    /// Notes it in the ledger of the innermost scope, if there is one.
    static void note_here(Use use, const std::string& path, const Location& where);

private:
    struct Entry {
        Use use;
        Location where;
    };
    using Inode = std::pair<dev_t, ino_t>;

    std::multimap<std::string, Entry> by_name_;
    std::multimap<Inode, Entry> by_inode_;
};

/// The name of a file that is to be written, taken from `folder` (empty: from that of the YAML file), and noted. Throws
/// ConfigError, at `name`, when the configuration reads that file or another place writes it, or when it can't be
/// written; `folder` itself may have to be made first.
std::string output_path(const Config& name, const std::string& folder, FileLedger::Use use = FileLedger::Use::write);

}  // namespace millrace
