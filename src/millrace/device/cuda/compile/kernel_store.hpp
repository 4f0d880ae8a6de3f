// Machine code of chains: compiled once, kept in memory and on disk.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "millrace/device/cuda/compile/compiler.hpp"

namespace millrace::device::cuda {

struct KernelStoreOptions {
    /// Where cubins are kept from one run to the next; empty: cache_folder(). Made for its user alone; one that
    /// somebody else can write is warned of and not used.
    std::string folder;
    /// Where source, PTX and cubin of every chain are written for people to read; empty: nowhere.
    std::string keep;
};

/// Gives the cubins of a chain. What names them is the content of all that goes into it (sources, headers,
/// options, architecture), so a changed header never meets an old cubin, and NVRTC is only needed for a
/// chain that was never compiled. Any thread.
class KernelStore {
public:
    explicit KernelStore(KernelStoreOptions options = {});
    /// Those of several sources, in their order; what has to be compiled is compiled concurrently. Throws CompileError.
    /// A folder that can't be written is only warned of.
    std::vector<Cubins> cubins(const std::vector<const ChainSource*>& sources, const std::string& architecture);

private:
    std::string path_of(const std::string& fingerprint, size_t cubin) const;
    Cubins read(const std::string& fingerprint, size_t count) const;
    void keep(const ChainSource& source, const std::string& fingerprint, const std::string& architecture,
              const Cubins& cubins, const Cubins& ptx) const;

    KernelStoreOptions options_;
    std::mutex mutex_;
    std::unique_ptr<Compiler> compiler_;
    std::map<std::string, Cubins> cubins_;  // by fingerprint
};

/// What the cubins of a source depend on, as 40 hexadecimal digits.
std::string fingerprint(const ChainSource& source, const std::string& architecture);

}  // namespace millrace::device::cuda
