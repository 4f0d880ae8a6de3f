// Whether segments of a TCP stream may meet a rule together which each alone does not.
#pragma once

#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

enum class Spanning {
    none,        ///< it is of one packet
    anywhere,    ///< in any bytes that follow each other
    from_start,  ///< it says of bytes where in the stream they stand: those from its first one on tell
};

Spanning span_of(const Rule& rule);

}  // namespace millrace::nf::nids
