// Sequence numbers that are set aside on disk before they are used, so that no process uses one of another again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace::nf::ipsec {

/// A file that says of each SA up to which sequence number some may have been used. SAs are named by a digest of what
/// their numbers belong to, so that it holds no keys. Only its owner may read or write it, and one object of one
/// process at a time. Not safe for use by several threads.
class SequenceFile {
public:
    /// Reads it, if it is there. Throws ConfigError at `named_at`.
    SequenceFile(std::string path, Location named_at);
    ~SequenceFile();
    SequenceFile(const SequenceFile&) = delete;
    SequenceFile& operator=(const SequenceFile&) = delete;

    const std::string& path() const { return path_; }
    /// SAs that it has something of.
    size_t size() const { return reserved_.size(); }
    /// 0: of that SA there is nothing.
    uint64_t reserved(const std::string& identity) const;
    /// To be written by `commit`. Less than before is for numbers that were not used after all.
    void reserve(const std::string& identity, uint64_t up_to);
    /// Of an SA whose keys are gone for ever.
    void forget(const std::string& identity);
    /// Returns when what was reserved is on disk, and will be there after a crash. Throws std::runtime_error.
    void commit();
    /// The same; false, with errno set, when the disk refuses.
    bool write();

private:
    void lock();
    void read();

    std::string path_;
    Location named_at_;
    int lock_ = -1;
    std::map<std::string, uint64_t> reserved_;  // by digest
};

}  // namespace millrace::nf::ipsec
