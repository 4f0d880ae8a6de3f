// Headers to classify, as the authors of rule sets publish them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "millrace/nf/classify/key.hpp"

namespace millrace::nf::classify {

struct TraceHeader {
    HeaderKey key;
    uint32_t rule = 0;  ///< the last column as it stands: some authors count from 0, some from 1
};

/// A ClassBench trace, `file` in messages: lines of `src dst sport dport proto [flags] rule`, decimal numbers parted by
/// blanks. Ports count whatever the protocol is, as the traces mean it; there are no TCP flags. Throws ConfigError at a
/// line that is no such.
std::vector<TraceHeader> load_trace(std::string_view text, const std::string& file);

}  // namespace millrace::nf::classify
