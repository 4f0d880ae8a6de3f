// Files that are kept from one run to the next: what was measured of a model of device.
#pragma once

#include <functional>
#include <string>

#include "millrace/base/text/config.hpp"

namespace millrace {

/// One kind of them.
struct KeptKind {
    const char* name;   ///< of its files
    const char* what;   ///< "profile of …"
    int version;        ///< of what is in them
    const char* again;  ///< the hint of all that can be wrong with one: it can be made again
};

/// The file in cache_folder() of what is kept of a model of device, such as `bus-nvidia-h200.json`; empty without a
/// home.
std::string kept_file(const KeptKind& kind, const std::string& model);

/// Has `read` read such a file, once it is known to be of this kind and of this model. Throws ConfigError, also what
/// `read` throws, with the kind's hint.
void read_kept_file(const KeptKind& kind, const std::string& path, const std::string& model,
                    const std::function<void(const Config& file)>& read);

/// A time in ns or a ratio of such a file: no machine takes longer than a second for any of it.
double kept_figure(const Config& value);

}  // namespace millrace
